"""Choices: the links among which the paths of a flow differ, as arrays. Links that all paths share decide nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.routes import Flow, RoutedJob, RouteView

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def choices(view: RouteView, flow: Flow) -> Ints:
    """Links by path and hop, without those that are on every path; one empty row for a flow with one path."""
    known: dict[tuple[int, int], Ints] = view.cluster.known["choices of paths"]
    found = known.get((flow.src, flow.dst))
    if found is None:
        paths = np.array(view.paths(flow), np.int64)
        found = known[flow.src, flow.dst] = paths[:, (paths != paths[0]).any(axis=0)]
    return found


def worst_first(load: Floats, paths: Ints) -> int:
    """The path whose busiest link is least busy; of equals the one whose next is, and then the first."""
    loads = np.sort(load[paths], axis=1)[:, ::-1]
    return int(np.lexsort((*loads.T[::-1],))[0]) if loads.shape[1] else 0


def workers(job: RoutedJob) -> int:
    """GPUs that a job has, or will have."""
    return len(job.view.gpus) or job.view.job.gpus


def busiest_s(view: RouteView, job: RoutedJob) -> float:
    """Seconds that an iteration of a job keeps its busiest link busy, as far as that is known before paths are chosen:
    of links that it may or may not use, each has an equal part."""
    need: dict[int, float] = {}
    for flow in job.flows:
        paths = view.paths(flow)
        for path in paths:
            for link in path:
                need[link] = need.get(link, 0.0) + flow.bytes / len(paths)
    return max((amount / float(view.capacity[link]) for link, amount in need.items()), default=0.0)


def no_load(cluster: Cluster) -> Floats:
    """Nothing on any link."""
    return np.zeros(len(cluster.topology.links))
