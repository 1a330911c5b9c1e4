"""Loads of links, as route policies count them, and the path of least load."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt

from weft.model.plan import Parts
from weft.model.routes import Flow, RoutedJob, RouteView

Floats = npt.NDArray[np.float64]
Weigh = Callable[[RoutedJob, Flow], float]  # what a flow adds to the load of each of its links


def of_flows(job: RoutedJob, flow: Flow) -> float:
    """Each flow counts as one, idle or not."""
    return 1.0


def offered(job: RoutedJob, flow: Flow) -> float:
    """Bytes per second that a flow offers: those of an iteration over how long one takes alone."""
    return flow.bytes / job.iteration_s if job.iteration_s > 0.0 else 0.0


class Loads:
    """The load of every link, of flows on their present paths. `scale` is what each link counts against: ones, or the
    capacities."""

    def __init__(self, view: RouteView, weigh: Weigh, scale: Floats | None = None) -> None:
        self.view, self.weigh = view, weigh
        self.scale = np.ones(len(view.capacity)) if scale is None else scale
        self.load = np.zeros(len(view.capacity))

    def add(self, jobs: Iterable[RoutedJob], sign: float = 1.0) -> None:
        """Count the flows of jobs that have paths (or count them no longer)."""
        for job in jobs:
            for flow, parts in zip(job.flows, self.view.routes[job.id], strict=True):
                self.put(job, flow, parts, sign)

    def put(self, job: RoutedJob, flow: Flow, parts: Parts, sign: float = 1.0) -> None:
        """Count one flow on these paths (or count it no longer)."""
        self.shift(flow, parts, sign * self.weigh(job, flow))

    def shift(self, flow: Flow, parts: Parts, weight: float) -> None:
        """Add so much to the load of these paths, by their shares."""
        for number, share in parts:
            for link in self.view.path(flow, number):
                self.load[link] += weight * share

    def worst(self, flow: Flow, number: int) -> float:
        """The load of a path: that of its worst link."""
        return max((float(self.load[link] / self.scale[link]) for link in self.view.path(flow, number)), default=0.0)

    def least(self, flow: Flow) -> int:
        """The path of least load, the first of several."""
        return min(range(self.view.n_paths(flow)), key=lambda number: (self.worst(flow, number), number))
