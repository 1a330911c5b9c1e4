"""Cluster, Topology, Link, Server: what there is to share. Built by `weft.network.topologies`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Route = tuple[int, ...]  # link ids from source to destination
Ints = npt.NDArray[np.int64]


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
    """A machine with GPUs. `domains` is its path of switches from the nearest (its rack) outwards; `rack` numbers the
    nearest. Where servers are joined by NVLink, their NVLink domain is the nearest.

    What is empty or 0 is as the cluster says. GPU number g of n uses NIC number g x NICs // n.
    """

    id: int
    name: str
    gpus: tuple[int, ...]
    rack: int
    domains: tuple[str, ...] = ()
    nics: tuple[int, ...] = ()  # their numbers in the cluster; empty: one, with the number of the server
    nvlink: int = -1  # the NVLink domain that it is in with other servers; -1: none
    gpu: str = ""
    gpu_memory_bytes: float = 0.0
    intra_bytes_per_s: float = 0.0


@dataclass(frozen=True, eq=False)
class Level:
    """One level of the tree of a cluster: servers, NVLink domains, racks, pods, ..., the whole cluster."""

    name: str
    of_server: Ints  # the group of this level that each server is in
    gpus: Ints  # of each group

    @cached_property
    def largest(self) -> int:
        """GPUs of the group that has most."""
        return int(self.gpus.max())

    def sums(self, per_server: Ints) -> npt.NDArray[Any]:
        """For each group the sum of a number that each server has."""
        return np.bincount(self.of_server, weights=per_server)


class Router(Protocol):
    """The equal paths between NICs, numbered from 0, and which of them the hash of a flow chooses."""

    def __call__(self, src: int, dst: int, flow: int, /) -> Route:
        """Links of the path that the hash chooses."""
        ...

    def count(self, src: int, dst: int, /) -> int:
        """How many paths there are."""
        ...

    def number(self, src: int, dst: int, flow: int, lane: int = 0, /) -> int:
        """The path that the hash chooses for a flow, or for one of its queue pairs (lanes)."""
        ...

    def path(self, src: int, dst: int, number: int, /) -> Route:
        """Links of one of the paths, in order."""
        ...


@dataclass(frozen=True)
class CopiedRouter:
    """The routes within each of many copies of a network."""

    router: Router
    nics: int  # of one copy
    links: int

    def __call__(self, src: int, dst: int, flow: int, /) -> Route:
        """Links of the path that the hash chooses."""
        return self._there(src, self.router(src % self.nics, dst % self.nics, flow))

    def count(self, src: int, dst: int, /) -> int:
        """How many paths there are."""
        return self.router.count(src % self.nics, dst % self.nics)

    def number(self, src: int, dst: int, flow: int, lane: int = 0, /) -> int:
        """The path that the hash chooses."""
        return self.router.number(src % self.nics, dst % self.nics, flow, lane)

    def path(self, src: int, dst: int, number: int, /) -> Route:
        """Links of one of the paths, in order."""
        return self._there(src, self.router.path(src % self.nics, dst % self.nics, number))

    def _there(self, src: int, route: Route) -> Route:
        copy = src // self.nics
        return tuple(link + copy * self.links for link in route)


@dataclass(frozen=True)
class Topology:
    """Directed links and the routes between NICs. Equal-cost paths are chosen by a seeded hash of the flow.

    A server with one NIC and this NIC have the same number.
    """

    name: str
    links: tuple[Link, ...]
    router: Router = field(repr=False, compare=False)
    seed: int = 0
    notes: tuple[str, ...] = ()  # what the reader of results must know about it
    sums: bool = True  # whether there are switches between servers that could sum what passes (SHARP)

    def route(self, src: int, dst: int, flow: int = 0) -> Route:
        """Links from NIC `src` to NIC `dst` (empty when they are the same)."""
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
    gpu_memory_bytes: float = 16e9  # where servers differ, of the largest GPU
    intra_server_bytes_per_s: float = float("inf")  # per GPU port inside a server
    latency_s: float = 0.0  # one message between servers
    intra_latency_s: float = 0.0  # one message inside a server
    copies: int = 1  # identical parts without a connection between them (see `copied`)
    level_names: tuple[str, ...] = ("rack",)  # levels between the servers and the whole, as `domains` has them
    nvlinks: tuple[tuple[int, int], ...] = ()  # of each GPU, the link to its NVLink domain and back; (-1, -1): none
    nvlink_latency_s: float = 0.0  # one message between servers of an NVLink domain
    pxn: bool = False  # a message leaves by the NIC that is on its receiver's rail, if that NIC is the job's too

    def copied(self, n: int) -> Cluster:
        """n copies of this cluster that share nothing, so that each of n jobs can have a whole cluster to itself."""
        servers, links, gpus, racks = len(self.servers), len(self.topology.links), self.n_gpus, self.n_racks
        nics, domains = self.n_nics, max((s.nvlink for s in self.servers), default=-1) + 1
        topology = replace(
            self.topology,
            links=tuple(
                replace(x, id=x.id + c * links, name=f"{x.name}#{c}", src=f"{x.src}#{c}", dst=f"{x.dst}#{c}")
                for c in range(n)
                for x in self.topology.links
            ),
            router=CopiedRouter(self.topology.router, nics, links),
        )
        copies = tuple(
            replace(
                s, id=s.id + c * servers, name=f"{s.name}#{c}", gpus=tuple(g + c * gpus for g in s.gpus),
                rack=s.rack + c * racks, nics=tuple(nic + c * nics for nic in s.nics),
                nvlink=s.nvlink + c * domains if s.nvlink >= 0 else -1,
            )
            for c in range(n)
            for s in self.servers
        )  # fmt: skip
        nvlinks = tuple((a + c * links, b + c * links) if a >= 0 else (a, b) for c in range(n) for a, b in self.nvlinks)
        return replace(self, servers=copies, topology=topology, copies=n * self.copies, nvlinks=nvlinks)

    def shaped(self, each: int) -> Cluster:
        """This cluster for a job that must have `each` workers on each of its servers: every server has exactly that
        many GPUs, or none. The cluster itself for a job without a shape, or where no server is that large."""
        if not 0 < each <= self.largest_server:
            return self
        return self._reduced(each, np.where(self.gpus_per_server >= each, each, 0))

    def of_type(self, gpu: str) -> Cluster:
        """This cluster as if only the servers with that type of GPU had any; itself where all have it, or for any."""
        if not gpu or len(self.gpu_types) == 1:
            return self
        return self._reduced(gpu, np.where(np.array(self.type_of_server) == gpu, self.gpus_per_server, 0))

    def _reduced(self, key: int | str, gpus_per_server: Ints) -> Cluster:
        found: Cluster | None = self.known["reduced"].get(key)
        if found is None:
            found = self.known["reduced"][key] = replace(self)
            found.__dict__["gpus_per_server"] = gpus_per_server
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

    # Levels

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """The tree, from servers to the whole cluster."""
        n = len(self.servers)
        found = [Level("server", np.arange(n), self.gpus_per_server)]
        for i, name in enumerate(self.level_names):
            number: dict[object, int] = {}
            paths = [s.rack if i == 0 else s.domains[i] for s in self.servers]
            of = self.rack_of_server if i == 0 else np.array([number.setdefault(p, len(number)) for p in paths])
            if i and int(of.max()) == int(found[-1].of_server.max()):
                continue  # its groups are those of the level below
            found.append(Level(name, of, np.bincount(of, weights=self.gpus_per_server).astype(np.int64)))
        return (*found, Level("cluster", np.zeros(n, np.int64), np.array([self.gpus_per_server.sum()])))

    @cached_property
    def between(self) -> tuple[Level, ...]:
        """The levels between the servers and the whole: racks, and where there are more, NVLink domains, pods, ..."""
        return self.levels[1:-1]

    def closest(self, gpus: int) -> Level:
        """The closest level with a group of at least that many GPUs; the whole cluster if there is none."""
        return next((level for level in self.levels if level.largest >= gpus), self.levels[-1])

    # NICs and NVLink

    def route(self, src: int, dst: int, flow: int = 0) -> Route:
        """Links from server `src` to server `dst`, over one of their NICs."""
        a, b = (self.nics_of_server[server] for server in (src, dst))
        return () if src == dst else self.topology.router(a[flow % len(a)], b[flow % len(b)], flow)

    @cached_property
    def n_nics(self) -> int:
        """NICs in all."""
        return sum(len(s.nics) or 1 for s in self.servers)

    @cached_property
    def nics_of_server(self) -> tuple[tuple[int, ...], ...]:
        """The NICs of every server, by number."""
        return tuple(s.nics or (s.id,) for s in self.servers)

    @cached_property
    def server_of_nic(self) -> Ints:
        """The server of every NIC."""
        return np.array([i for i, nics in enumerate(self.nics_of_server) for _ in nics], dtype=np.int64)

    @cached_property
    def nic_of_gpu(self) -> Ints:
        """The NIC that each GPU uses."""
        found = np.zeros(self.n_gpus, np.int64)
        for server, nics in zip(self.servers, self.nics_of_server, strict=True):
            for i, gpu in enumerate(server.gpus):
                found[gpu] = nics[i * len(nics) // len(server.gpus)]
        return found

    @cached_property
    def rail_of_nic(self) -> Ints:
        """The place of every NIC among those of its server: on a rail-optimised fabric, its rail."""
        return np.array([rail for nics in self.nics_of_server for rail in range(len(nics))], dtype=np.int64)

    @cached_property
    def node_of_server(self) -> Ints:
        """Servers that NVLink joins are one node: its number is the id of the first of them."""
        first: dict[int, int] = {}
        return np.array(
            [s.id if s.nvlink < 0 else first.setdefault(s.nvlink, s.id) for s in self.servers], dtype=np.int64
        )

    @cached_property
    def plain(self) -> bool:
        """Whether every server has one NIC, and NVLink joins no servers."""
        return not self.nvlinks and all(not s.nics for s in self.servers)

    def ends(self, gpus: Sequence[int]) -> tuple[int, ...]:
        """What the network sees of a placement, rank by rank: the servers where each has one NIC, or else the GPUs."""
        if not self.plain:
            return tuple(gpus)
        known = self.known["ends"]
        if not known:
            known.update(enumerate(self.server_of_gpu.tolist()))
        return tuple([known[gpu] for gpu in gpus])

    # Unequal servers

    @cached_property
    def type_of_server(self) -> tuple[str, ...]:
        """The GPU type of every server."""
        return tuple(s.gpu or self.gpu for s in self.servers)

    @cached_property
    def gpu_types(self) -> tuple[str, ...]:
        """The GPU types that there are, in the order of the servers."""
        return tuple(dict.fromkeys(self.type_of_server)) or (self.gpu,)

    @cached_property
    def alike(self) -> bool:
        """Whether all GPUs are of one type and size."""
        return len(self.gpu_types) == 1 and len(set(self.memory_of_gpu.tolist())) <= 1

    def type_of(self, gpus: Sequence[int]) -> str:
        """The type of these GPUs: that of the first."""
        return self.type_of_gpu(gpus[0])

    def type_of_gpu(self, gpu: int) -> str:
        """The type of a GPU."""
        return self.type_of_server[int(self.server_of_gpu[gpu])]

    def suited(self, gpu: str, memory_bytes: float) -> npt.NDArray[np.bool_]:
        """By GPU, whether it is of that type (empty: any) and has so much memory."""
        found: npt.NDArray[np.bool_] | None = self.known["suited"].get((gpu, memory_bytes))
        if found is None:
            named = np.array([not gpu or name == gpu for name in self.type_of_server])[self.server_of_gpu]
            found = self.known["suited"][gpu, memory_bytes] = named & (self.memory_of_gpu >= memory_bytes)
        return found

    @cached_property
    def memory_of_gpu(self) -> npt.NDArray[np.float64]:
        """Bytes of memory of every GPU."""
        memory = np.array([s.gpu_memory_bytes or self.gpu_memory_bytes for s in self.servers], dtype=np.float64)
        return memory[self.server_of_gpu]

    @cached_property
    def intra_of_server(self) -> tuple[float, ...]:
        """Bytes per second of a GPU's port inside every server."""
        return tuple(s.intra_bytes_per_s or self.intra_server_bytes_per_s for s in self.servers)

    @cached_property
    def alike_inside(self) -> bool:
        """Whether GPUs are joined at one speed inside all servers."""
        return all(not s.intra_bytes_per_s for s in self.servers)
