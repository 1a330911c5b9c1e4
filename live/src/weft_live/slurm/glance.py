"""A look at a Slurm that weft does not schedule: its state, for simulating forward (weft_live/ahead.py).

Slurm's own scheduler is not simulated itself. The nearest named stack stands for it: jobs by Slurm's priority, smaller
ones in the gaps, the same number of GPUs on each node. It has no reservations, so a large job may be passed where
Slurm's backfill keeps its place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from weft.advise.forward import Present, unknown
from weft.advise.spread import Past
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.view import JobStatus, JobView
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.records import Node, Record, gpu_count, read_jobs
from weft_live.slurm.request import on_fewest_nodes
from weft_live.slurm.topology import gpu_nodes, read_cluster

STACK = "fifo:backfill/even:best-fit"
_LIMITS = (
    "QOS",
    "Assoc",
    "Licenses",
    "Reservation",
    "Partition",
    "BeginTime",
    "Dependency",
    "JobHeld",
    "JobArrayTaskLimit",
)


@dataclass(frozen=True)
class Glance:
    """What one look found."""

    present: Present
    started: Mapping[str, float]  # wall times of starts, of jobs that run or ended a moment ago
    ended: Mapping[str, tuple[Past, float]]  # jobs that have ended a moment ago
    accounting: bool  # whether sacct tells what past jobs took


def look(slurm: Slurm, partitions: frozenset[str], seen: Sequence[Past] = ()) -> Glance:
    """The GPU nodes of these partitions (of all) and the jobs there. `seen` is the past where sacct tells none."""
    nodes = gpu_nodes(slurm, partitions)
    cluster = read_cluster(slurm, partitions)
    try:
        records = read_jobs(slurm.jobs())
        now_s = time.time() + slurm.ahead_s()
    except Unreachable as error:
        raise InputError(f"Slurm does not answer ({error}); is slurmctld up, and SLURM_CONF the right file?") from None
    past = past_of(slurm.past())
    ours = [record for record in records if record.gpus and (not partitions or _in(record, partitions))]
    held = [record for record in records if record.running and record not in ours]  # other partitions, the same nodes
    ended = {
        record.key: (_past(record), record.end_s)
        for record in ours
        if record.ended and 0 < record.begin_s <= record.end_s <= now_s and record.nodes
    }
    bad = frozenset(s.id for s in cluster.servers if not any(n.name == s.name and n.usable for n in nodes))
    jobs = [*(r for r in ours if r.pending or r.running), *held]
    views = _views(cluster, nodes, sorted(jobs, key=lambda r: (r.submit_s, r.number, r.key)), now_s)
    limits = {record.key: record.time_limit_s for record in jobs if record.time_limit_s}
    known = tuple(past) or (*seen, *(one for one, _ in ended.values()))
    present = Present(cluster, now_s, tuple(views), limits, limits, known, bad)
    started = {r.key: r.begin_s for r in ours if (r.running or r.key in ended) and r.begin_s}
    return Glance(present, started, ended, bool(past))


def _in(record: Record, partitions: frozenset[str]) -> bool:
    return not partitions.isdisjoint(record.partition.split(","))


def _past(record: Record) -> Past:
    return Past(record.user, record.gpus, record.submit_s, record.time_limit_s, max(1.0, record.end_s - record.begin_s))


def past_of(rows: Sequence[Sequence[str]]) -> list[Past]:
    """What sacct's rows say of jobs with GPUs, in the order of their ends."""
    found: list[tuple[float, Past]] = []
    for _, user, tres, submit, end, ran, limit in rows:
        with suppress(ValueError):
            gpus, ran_s = gpu_count(tres)[0], float(ran)
            if gpus and ran_s > 0:
                claim = 60.0 * float(limit) if limit.isdecimal() else None
                at_s = datetime.fromisoformat(submit).timestamp()
                found.append((datetime.fromisoformat(end).timestamp(), Past(user, gpus, at_s, claim, ran_s)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _views(cluster: Cluster, nodes: Sequence[Node], records: Sequence[Record], now_s: float) -> list[JobView]:
    free = {server.name: list(server.gpus) for server in cluster.servers}
    views = []
    for record in records:
        if record.running:
            held = record.gpus_held or (record.gpus_per_node,) * len(record.nodes)
            gpus: list[int] = []
            for name, n in zip(record.nodes, held, strict=False):
                gpus += free.get(name, [])[:n]
                del free.get(name, [])[:n]
            if gpus:  # else it has none of these nodes' GPUs
                views.append(_running(record, tuple(gpus), min(record.begin_s, now_s)))
        else:
            views.append(_waiting(cluster, nodes, record, now_s))
    return views


def _running(record: Record, gpus: tuple[int, ...], since_s: float) -> JobView:
    n = len(gpus)
    job = Job(record.key, record.submit_s, n, _seconds(record), {n: unknown(n)}, user=record.user, resumes=False)
    return JobView(
        job, JobStatus.RUNNING, gpus, waiting_since_s=record.submit_s, started_s=since_s, first_start_s=since_s
    )


def _waiting(cluster: Cluster, nodes: Sequence[Node], record: Record, now_s: float) -> JobView:
    why, each = not_simulated(record, nodes, now_s), 0
    record = on_fewest_nodes(record, nodes)
    try:
        each = record.gpus_on_each_node
    except InputError as error:
        why = why or str(error)
    if not why and record.gpus > cluster.n_gpus:
        why = f"wants {record.gpus} GPUs, and there are {cluster.n_gpus}"
    n = record.gpus
    job = Job(
        record.key, record.submit_s, n, _seconds(record), {n: unknown(n)}, user=record.user, per_server=each,
        priority=record.priority, resumes=False,
    )  # fmt: skip
    return JobView(job, waiting_since_s=record.submit_s, barred=why)


def _seconds(record: Record) -> int:
    return max(1, round(record.time_limit_s or 86_400.0))


def not_simulated(record: Record, nodes: Sequence[Node], now_s: float) -> str:
    """Which option of a job that waits weft cannot simulate; "" if there is none. It is left out of the queue then."""
    if record.held:
        return "it is held (priority 0); scontrol release lets it go"
    if record.dependency:
        return f"it waits for other jobs (--dependency={record.dependency:.40}), which is not simulated"
    if record.eligible_s > now_s:
        return "its --begin has not come, which is not simulated"
    if record.het:
        return "it is part of a heterogeneous job, which is not simulated"
    if record.nodes_said:
        return f"it says {record.nodes_said}, which is not simulated"
    if record.array_limit:
        return f"its --array has a limit of %{record.array_limit} tasks at a time, which is not simulated"
    if record.reason.startswith(_LIMITS):
        return (
            f"Slurm keeps it back ({record.reason}: a limit of its QOS, account or partition), which is not simulated"
        )
    kinds = {node.gpu for node in nodes}
    if record.gpu and kinds != {record.gpu}:
        return f"it asks for GPUs of type {record.gpu}, and not all nodes have them; name a --partition that has"
    if record.partition and not all(_in_node(node, record) for node in nodes):
        return f"its partition {record.partition} has not all of the nodes looked at; name it with --partition"
    return ""


def _in_node(node: Node, record: Record) -> bool:
    return not node.partitions.isdisjoint(record.partition.split(","))
