"""What the route layer sees and says: flows between NICs, the equal paths of each, and parts of a flow on paths.

The paths of a flow are those with the fewest hops between its NICs. They are numbered from 0, in the order of the ids
of their links.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.cluster import Route as Links
from weft.model.plan import Routes
from weft.model.view import JobView


@dataclass(frozen=True, slots=True)
class Flow:
    """All that a worker of a job sends from one NIC to a worker behind another NIC in one iteration."""

    src: int  # NIC
    dst: int  # NIC
    key: int  # of the job and the two workers: what ECMP hashes
    bytes: float  # per iteration


@dataclass(frozen=True)
class RoutedJob:
    """A job on its GPUs, with what it sends between NICs. `iteration_s` and `compute_s` are of an iteration alone."""

    view: JobView
    flows: tuple[Flow, ...]
    iteration_s: float
    compute_s: float

    @property
    def id(self) -> str:
        """The job's id."""
        return self.view.id


@dataclass(frozen=True)
class RouteView:
    """What a route policy sees. `jobs` run or start now, in order of submission; `routes` are the present ones, without
    those of jobs that start now. `carried` counts the bytes that each link has carried."""

    now: float
    cluster: Cluster
    jobs: Mapping[str, RoutedJob]
    routes: Mapping[str, Routes]
    count_bytes: Callable[[], npt.NDArray[np.float64]] = field(repr=False, default=lambda: np.zeros(0))
    news: bool = True  # whether a job has come or gone since the last time; if not, only time has passed

    @cached_property
    def carried(self) -> npt.NDArray[np.float64]:
        """Bytes that each link has carried so far."""
        return self.count_bytes()

    @property
    def capacity(self) -> npt.NDArray[np.float64]:
        """Bytes per second of each link."""
        return self.cluster.topology.capacity

    def n_paths(self, flow: Flow) -> int:
        """How many equal paths a flow has."""
        return self.cluster.topology.router.count(flow.src, flow.dst)

    def path(self, flow: Flow, number: int) -> Links:
        """The links of one of them, from the source on."""
        return self.cluster.topology.router.path(flow.src, flow.dst, number)

    def paths(self, flow: Flow) -> tuple[Links, ...]:
        """The links of all of them."""
        return tuple(self.path(flow, i) for i in range(self.n_paths(flow)))

    def hashed(self, flow: Flow, lane: int = 0) -> int:
        """The path that ECMP's hash gives a flow, or one of its queue pairs."""
        return self.cluster.topology.router.number(flow.src, flow.dst, flow.key, lane)

    def rack(self, nic: int) -> int:
        """The rack of a NIC."""
        return int(self.cluster.rack_of_server[self.cluster.server_of_nic[nic]])
