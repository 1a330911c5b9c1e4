"""Cluster, Topology, Link, Server: what there is to share. Built by `weft.network.topologies`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Route = tuple[int, ...]  # link ids from source to destination
Router = Callable[[int, int, int], Route]  # (source server, destination server, flow hash) -> links


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable. `tier` says where it is: "nic", "leaf", "aggregation", ..."""

    id: int
    name: str
    src: str
    dst: str
    bytes_per_s: float
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """A machine with GPUs. `domains` is its path of switches from the nearest (its rack) outwards."""

    id: int
    name: str
    gpus: tuple[int, ...]
    rack: int
    domains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topology:
    """Directed links and the routes between servers. Equal-cost paths are chosen by a seeded hash of the flow."""

    name: str
    links: tuple[Link, ...]
    router: Router = field(repr=False, compare=False)
    seed: int = 0
    notes: tuple[str, ...] = ()  # what the reader of results must know about it

    def route(self, src: int, dst: int, flow: int = 0) -> Route:
        """Links from server `src` to server `dst` (empty when they are the same)."""
        return () if src == dst else self.router(src, dst, flow)

    @cached_property
    def capacity(self) -> npt.NDArray[np.float64]:
        """Bytes per second of every link."""
        return np.array([link.bytes_per_s for link in self.links], dtype=np.float64)

    @cached_property
    def fastest(self) -> float:
        """Bytes per second of the fastest link; 1 where there is none."""
        return float(self.capacity.max()) if len(self.capacity) else 1.0


@dataclass(frozen=True)
class Cluster:
    """Servers with GPUs, and the network between them."""

    servers: tuple[Server, ...]
    topology: Topology
    gpu: str = "V100"
    gpu_memory_bytes: float = 16e9
    intra_server_bytes_per_s: float = float("inf")  # per GPU port inside a server
    latency_s: float = 0.0  # one message between servers
    intra_latency_s: float = 0.0  # one message inside a server
    copies: int = 1  # identical parts without a connection between them (see `copied`)

    def copied(self, n: int) -> Cluster:
        """n copies of this cluster that share nothing, so that each of n jobs can have a whole cluster to itself."""
        servers, links, gpus, racks = len(self.servers), len(self.topology.links), self.n_gpus, self.n_racks
        router = self.topology.router

        def route(src: int, dst: int, flow: int) -> Route:
            copy = src // servers
            return tuple(link + copy * links for link in router(src % servers, dst % servers, flow))

        topology = replace(
            self.topology,
            links=tuple(
                replace(x, id=x.id + c * links, name=f"{x.name}#{c}", src=f"{x.src}#{c}", dst=f"{x.dst}#{c}")
                for c in range(n)
                for x in self.topology.links
            ),
            router=route,
        )
        copies = tuple(
            replace(
                s, id=s.id + c * servers, name=f"{s.name}#{c}", gpus=tuple(g + c * gpus for g in s.gpus),
                rack=s.rack + c * racks,
            )
            for c in range(n)
            for s in self.servers
        )  # fmt: skip
        return replace(self, servers=copies, topology=topology, copies=n * self.copies)

    def shaped(self, each: int) -> Cluster:
        """This cluster for a job that must have `each` workers on each of its servers: every server has exactly that
        many GPUs, or none. The cluster itself for a job without a shape, or where no server is that large."""
        if not 0 < each <= self.largest_server:
            return self
        found: Cluster | None = self.known["shaped"].get(each)
        if found is None:
            found = self.known["shaped"][each] = replace(self)
            found.__dict__["gpus_per_server"] = np.where(self.gpus_per_server >= each, each, 0)
        return found

    @property
    def n_gpus(self) -> int:
        """GPUs in all."""
        return len(self.server_of_gpu)

    @cached_property
    def server_of_gpu(self) -> npt.NDArray[np.int64]:
        """Server id of every GPU id."""
        pairs = sorted((g, s.id) for s in self.servers for g in s.gpus)
        return np.array([s for _, s in pairs], dtype=np.int64)

    def counts(self, gpus: Sequence[int]) -> Counter[int]:
        """How many of these GPUs are on each of their servers."""
        return Counter(self.server_of_gpu[list(gpus)].tolist())

    @cached_property
    def rack_of_server(self) -> npt.NDArray[np.int64]:
        """Rack index of every server id."""
        return np.array([s.rack for s in self.servers], dtype=np.int64)

    @cached_property
    def known(self) -> defaultdict[str, dict[Any, Any]]:
        """Answers about the cluster, kept by subject: there are few clusters, and many questions about each."""
        return defaultdict(dict)

    @cached_property
    def largest_server(self) -> int:
        """GPUs of the server that has most."""
        return int(self.gpus_per_server.max())

    @cached_property
    def largest_rack(self) -> int:
        """GPUs of the rack that has most."""
        return int(self.gpus_per_rack.max())

    @cached_property
    def n_racks(self) -> int:
        """Racks in all."""
        return int(self.rack_of_server.max()) + 1 if self.servers else 0

    @cached_property
    def gpus_per_server(self) -> npt.NDArray[np.int64]:
        """Number of GPUs of every server."""
        return np.array([len(s.gpus) for s in self.servers], dtype=np.int64)

    @cached_property
    def gpus_per_rack(self) -> npt.NDArray[np.int64]:
        """Number of GPUs of every rack."""
        return np.bincount(self.rack_of_server, weights=self.gpus_per_server).astype(np.int64)
