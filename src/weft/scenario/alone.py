"""How long an iteration takes when nobody else uses the network: what arrivals by load are computed from."""

from __future__ import annotations

from weft.collectives import alone_s, lower
from weft.model.cluster import Cluster
from weft.model.profile import Compute, Profile, Task

__all__ = ["alone_iteration_s"]


def alone_iteration_s(profile: Profile, cluster: Cluster, collective: str) -> float:
    """The longest path through the task graph on the first GPUs of the cluster, that is packed as tightly as can be."""
    ends: list[float] = []
    for task in profile.tasks:
        start = max((ends[p] for p in task.after), default=0.0)
        ends.append(start + _seconds(task, profile, cluster, collective))
    return max(ends)


def _seconds(task: Task, profile: Profile, cluster: Cluster, collective: str) -> float:
    if isinstance(task, Compute):
        return task.seconds
    groups = lower(
        task.collective or collective,
        task.bytes,
        tuple(profile.ranks(task)),
        cluster,
        n_ps=task.servers,
        demand=task.demand_bytes_per_s,
    )
    return alone_s(groups, cluster)
