"""Machine, Fabric: what every builder needs to put a Cluster together, with the routes between its servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import inf, isfinite

from weft.errors import InputError, ScenarioError
from weft.model.cluster import Cluster, Link, Route, Server, Topology
from weft.model.units import GB, gbps_to_bytes_per_s

MAX_SERVERS = 100_000  # more is surely a typing error: the largest public clusters have a tenth of it


def check_count(field: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`, or a ScenarioError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ScenarioError(f"cluster.{field} is {value!r}; give a whole number of at least {least}")
    return value


def check_positive(field: str, value: object) -> float:
    """A number from 1e-9 to 1e9, so that a product of a few cannot overflow, or a ScenarioError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1e-9 <= value <= 1e9:
        raise ScenarioError(f"cluster.{field} is {value!r}; give a number above 0 (1e-9 to 1e9)")
    return float(value)


def check_not_negative(field: str, value: object) -> float:
    """A finite number of at least zero, or a ScenarioError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not (value >= 0 and isfinite(value)):
        raise ScenarioError(f"cluster.{field} is {value!r}; give a number of at least 0")
    return float(value)


def check_total(servers: int, fields: str) -> None:
    """Refuse a cluster that is larger than anybody can have meant."""
    if servers > MAX_SERVERS:
        raise ScenarioError(f"cluster.{fields} make {servers} servers; give at most {MAX_SERVERS}")


_MASK = (1 << 64) - 1
_LANE = 0x632BE59BD9B4E019  # keeps the queue pairs of a flow apart
_KEEP = 100_000  # pairs of switches, and paths, that are remembered: some 100 MB at most


def flow_hash(seed: int, src: int, dst: int, flow: int) -> int:
    """64 bits that depend on nothing but the four numbers: the same in every process and on every machine.

    (An odd-weighted sum through the finaliser of splitmix64; Python's own hash() promises no such thing.)
    """
    x = (
        seed * 0x9E3779B97F4A7C15 + src * 0xD1B54A32D192ED03 + dst * 0x8CB92BA72F3D8DD7 + flow * 0xDB4F0B9175AE2165
    ) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


_Hops = Sequence[Sequence[tuple[int, int]]]  # by node: (link, node at its other end)


class _Between:
    """All shortest paths from one node to another, as the graph of the nodes and links that lie on one.

    The search goes out from both ends at once and stops where they meet: two leaf switches meet at the spines, however
    many racks there are. Servers do not forward.
    """

    __slots__ = ("_next_hops", "_paths", "_start", "count")

    def __init__(self, start: int, end: int, outgoing: _Hops, incoming: _Hops, is_server: Sequence[bool]) -> None:
        self._start = start
        ahead, behind = [{start}], [{end}]  # nodes by their distance from the start, and to the end
        seen, known = {start}, {end}
        while not ahead[-1] & behind[-1] and ahead[-1] and behind[-1]:
            if _degree(ahead[-1], outgoing) <= _degree(behind[-1], incoming):  # a spine has a link to every rack
                ahead.append(_neighbours(ahead[-1], outgoing, is_server, seen, end))
            else:
                behind.append(_neighbours(behind[-1], incoming, is_server, known, start))
        self._paths = {end: 1}  # number of shortest paths from a node to the end
        self._next_hops: dict[int, list[tuple[int, int]]] = {end: []}
        met, last = len(behind) - 1, {end}
        for nodes in [*behind[1:met], ahead[-1] & behind[-1] if met else set(), *reversed(ahead[:-1])]:
            closer: dict[int, list[tuple[int, int]]] = {node: [] for node in nodes}
            if _degree(nodes, outgoing) < _degree(last, incoming):
                closer = {node: [hop for hop in outgoing[node] if hop[1] in last] for node in nodes}
            else:
                for after in last:
                    for link, node in incoming[after]:
                        if node in closer:
                            closer[node].append((link, after))
            last = {node for node, hops in closer.items() if hops} or last
            self._next_hops.update({node: sorted(hops) for node, hops in closer.items() if hops})
            self._paths.update({n: sum(self._paths[after] for _, after in hops) for n, hops in closer.items() if hops})
        self.count = self._paths.get(start, 0)

    def path(self, index: int) -> Route:
        """The path number `index`, in the order of link ids."""
        links: list[int] = []
        node = self._start
        while self._next_hops[node]:
            for link, after in self._next_hops[node]:
                if index < self._paths[after]:
                    links.append(link)
                    node = after
                    break
                index -= self._paths[after]
        return tuple(links)


def _degree(nodes: set[int], hops: _Hops) -> int:
    return sum(len(hops[node]) for node in nodes)


def _neighbours(nodes: set[int], hops: _Hops, is_server: Sequence[bool], seen: set[int], goal: int) -> set[int]:
    """Nodes one hop further that were not seen yet; the goal is the only server among them."""
    found = {
        other
        for node in nodes
        for _, other in hops[node]
        if other not in seen and (other == goal or not is_server[other])
    }
    seen |= found
    return found


class EcmpRouter:
    """(source NIC, destination NIC, flow) -> link ids, over all paths with the fewest hops.

    Paths are numbered, never listed, so that fabrics with very many of them cost nothing; what was asked once is kept.
    Servers do not forward traffic. `fixed` overrides single pairs with given routes (several: one is chosen by hash).
    `nics` are the links from and to each NIC; without them, each server is one NIC, whatever cables it has.
    """

    def __init__(
        self,
        links: Sequence[Link],
        servers: Sequence[str],
        seed: int = 0,
        fixed: Mapping[tuple[int, int], Sequence[Route]] | None = None,
        nics: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._links = tuple(links)
        self._nics = tuple(nics)
        self._servers = tuple(servers)
        self._seed = seed
        self._fixed = {pair: tuple(routes) for pair, routes in (fixed or {}).items()}
        number: dict[str, int] = {name: i for i, name in enumerate(self._servers)}
        for link in self._links:
            number.setdefault(link.src, len(number))
            number.setdefault(link.dst, len(number))
        outgoing: list[list[tuple[int, int]]] = [[] for _ in number]
        incoming: list[list[tuple[int, int]]] = [[] for _ in number]
        for link in self._links:
            src, dst = number[link.src], number[link.dst]
            outgoing[src].append((link.id, dst))
            incoming[dst].append((link.id, src))
        n = len(self._servers)
        self._is_server = [i < n for i in range(len(number))]
        self._outgoing, self._incoming = outgoing, incoming
        # Traffic of a server with one cable always takes that cable. What remains is a path between two switches, which
        # all servers of a rack share.
        self._heads = [self._end(i, outgoing[i]) for i in range(n)]
        self._tails = [self._end(i, incoming[i]) for i in range(n)]
        if self._nics:
            self._heads = [((up,), number[self._links[up].dst]) for up, _ in self._nics]
            self._tails = [((down,), number[self._links[down].src]) for _, down in self._nics]
        self._between: dict[tuple[int, int], _Between] = {}
        self._middles: dict[tuple[int, int, int], Route] = {}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled without what it has found so far."""
        return EcmpRouter, (self._links, self._servers, self._seed, self._fixed, self._nics)

    def _end(self, server: int, links: list[tuple[int, int]]) -> tuple[Route, int]:
        if len(links) == 1 and not self._is_server[links[0][1]]:
            return (links[0][0],), links[0][1]
        return (), server

    def __call__(self, src: int, dst: int, flow: int = 0) -> Route:
        """Links from NIC `src` to NIC `dst`, in order."""
        return self.path(src, dst, self.number(src, dst, flow))

    def count(self, src: int, dst: int) -> int:
        """How many paths there are."""
        if self._fixed and (src, dst) in self._fixed:
            return len(self._fixed[src, dst])
        start, end = self._heads[src][1], self._tails[dst][1]
        return (self._between.get((start, end)) or self._search(src, dst, start, end)).count

    def number(self, src: int, dst: int, flow: int, lane: int = 0) -> int:
        """The path that the hash chooses for a flow, or for one of its queue pairs."""
        count = self.count(src, dst)
        return flow_hash(self._seed + _LANE * lane, src, dst, flow) % count if count > 1 else 0

    def path(self, src: int, dst: int, number: int) -> Route:
        """Links of one of the paths, in order."""
        if self._fixed and (src, dst) in self._fixed:
            return self._fixed[src, dst][number]
        head, start = self._heads[src]
        tail, end = self._tails[dst]
        key = (start, end, number)
        middle = self._middles.get(key)
        if middle is None:
            between = self._between.get((start, end)) or self._search(src, dst, start, end)
            if len(self._middles) >= _KEEP:
                self._middles.clear()
            middle = self._middles[key] = between.path(number)
        return head + middle + tail

    def _search(self, src: int, dst: int, start: int, end: int) -> _Between:
        found = _Between(start, end, self._outgoing, self._incoming, self._is_server)
        if found.count == 0:
            nodes = (self._links[self._nics[a][0]].src if self._nics else self._servers[a] for a in (src, dst))
            names = " to ".join(nodes)
            raise InputError(f"topology: no path from {names} over switches; add a cable or an explicit route")
        if len(self._between) >= _KEEP:
            self._between.clear()
        self._between[start, end] = found
        return found


@dataclass(frozen=True, slots=True)
class Machine:
    """What a server is like: GPUs, NICs, the fabric between its GPUs, and the servers that NVLink joins it to."""

    gpus_per_server: int = 1
    nic_gbps: float = 10.0  # of each NIC
    gpu: str = "V100"
    gpu_memory_gb: float = 16.0
    intra_server_gbps: float | None = None  # per GPU and direction; None: no limit
    latency_us: float = 0.0  # one message between servers
    intra_latency_us: float = 0.0  # one message inside a server
    nics_per_server: int = 1
    nvlink_domain: int = 1  # servers that NVLink joins
    nvlink_gbps: float | None = None  # per GPU and direction, to other servers of its domain
    nvlink_latency_us: float = 0.0  # one message between them

    def __post_init__(self) -> None:
        check_count("gpus_per_server", self.gpus_per_server)
        check_positive("nic_gbps", self.nic_gbps)
        check_positive("gpu_memory_gb", self.gpu_memory_gb)
        if self.intra_server_gbps is not None:
            check_positive("intra_server_gbps", self.intra_server_gbps)
        for name in ("latency_us", "intra_latency_us", "nvlink_latency_us"):
            check_not_negative(name, getattr(self, name))
        if check_count("nics_per_server", self.nics_per_server) > self.gpus_per_server:
            raise ScenarioError(
                f"cluster.nics_per_server is {self.nics_per_server}, more than the GPUs of a server "
                f"({self.gpus_per_server}); give the speed of a GPU's NICs together as nic_gbps"
            )
        if check_count("nvlink_domain", self.nvlink_domain) > 1 and self.nvlink_gbps is None:
            raise ScenarioError("cluster.nvlink_gbps is missing; an NVLink domain needs it (Gbit/s of a GPU, one way)")
        if self.nvlink_gbps is not None:
            check_positive("nvlink_gbps", self.nvlink_gbps)

    def with_gpus(self, n: int) -> Machine:
        """The same with so many GPUs, and no more NICs than these."""
        return replace(self, gpus_per_server=n, nics_per_server=min(self.nics_per_server, n))

    @property
    def uplink_gbps(self) -> float:
        """Its NICs together."""
        return self.nics_per_server * self.nic_gbps

    @property
    def inside_bytes_per_s(self) -> float:
        """Bytes per second of a GPU's port inside the server."""
        return inf if self.intra_server_gbps is None else gbps_to_bytes_per_s(self.intra_server_gbps)


class Fabric:
    """A cluster under construction. Cables are full duplex: each is two directed links, the one upwards first."""

    def __init__(self, name: str, machine: Machine, seed: int = 0, level_names: tuple[str, ...] = ("rack",)) -> None:
        self.name = name
        self.machine = machine
        self.level_names = level_names
        self.seed = check_count("seed", seed, least=0)
        self.links: list[Link] = []
        self.servers: list[Server] = []
        self.machines: list[Machine] = []  # of each server
        self._nics: dict[str, list[tuple[int, int]]] = {}  # by server: the links from and to its NICs
        self._names: dict[str, int] = {}
        self._n_gpus = 0

    def server(
        self, name: str, rack: int, domains: Sequence[str], gpus: int | None = None, machine: Machine | None = None
    ) -> int:
        """Add a server; its GPUs are numbered on from the last one's. Returns its id."""
        made = machine or self.machine
        n = made.gpus_per_server if gpus is None else gpus
        server = Server(len(self.servers), name, tuple(range(self._n_gpus, self._n_gpus + n)), rack, tuple(domains))
        if (made.gpu, made.gpu_memory_gb, made.intra_server_gbps) != (
            self.machine.gpu, self.machine.gpu_memory_gb, self.machine.intra_server_gbps
        ):  # fmt: skip
            memory, inside = made.gpu_memory_gb * GB, made.inside_bytes_per_s
            server = replace(server, gpu=made.gpu, gpu_memory_bytes=memory, intra_bytes_per_s=inside)
        self._n_gpus += n
        self.servers.append(server)
        self.machines.append(made)
        return server.id

    def cable(self, lower: str, upper: str, gbps: float, tier: str) -> None:
        """Add both directions between two nodes, `gbps` each."""
        for src, dst in ((lower, upper), (upper, lower)):
            name = f"{src}->{dst}"
            seen = self._names[name] = self._names.get(name, 0) + 1
            if seen > 1:  # parallel cables
                name = f"{name}#{seen}"
            self.links.append(Link(len(self.links), name, src, dst, gbps_to_bytes_per_s(gbps), tier))

    def nics(self, server: int, *switches: str, gbps: float | None = None) -> None:
        """Join every NIC of a server to its switch: the only one, or the one with the NIC's number."""
        machine, name = self.machines[server], self.servers[server].name
        for i in range(machine.nics_per_server):
            self._nics.setdefault(name, []).append((len(self.links), len(self.links) + 1))
            switch = switches[0] if len(switches) == 1 else switches[i]
            self.cable(name, switch, machine.nic_gbps if gbps is None else gbps, "nic")

    def cluster(self, fixed: Mapping[tuple[int, int], Sequence[Route]] | None = None, pxn: bool = False) -> Cluster:
        """The finished cluster, routed over shortest paths except where `fixed` says otherwise."""
        if not self.servers:
            raise InputError(f"topology {self.name}: it has no servers; give at least one")
        names, nics = [s.name for s in self.servers], list[tuple[int, int]]()
        if any(machine.nics_per_server > 1 for machine in self.machines):
            for i, server in enumerate(self.servers):
                own = self._nics.get(server.name, ())
                self.servers[i] = replace(server, nics=tuple(range(len(nics), len(nics) + len(own))))
                nics += own
        router = EcmpRouter(tuple(self.links), names, self.seed, fixed, nics)
        nvlinks = self._join() if any(machine.nvlink_domain > 1 for machine in self.machines) else ()
        machine = self.machine
        return Cluster(
            servers=tuple(self.servers),
            topology=Topology(self.name, tuple(self.links), router, self.seed),
            gpu=machine.gpu,
            gpu_memory_bytes=max(made.gpu_memory_gb for made in self.machines) * GB,
            intra_server_bytes_per_s=machine.inside_bytes_per_s,
            latency_s=machine.latency_us * 1e-6,
            intra_latency_s=machine.intra_latency_us * 1e-6,
            level_names=self.level_names,
            nvlinks=nvlinks,
            nvlink_latency_s=machine.nvlink_latency_us * 1e-6,
            pxn=pxn,
        )

    def _join(self) -> tuple[tuple[int, int], ...]:
        """NVLink domains, each of so many servers one after another; they come before racks from now on. Returns the
        links from and to each GPU."""
        nvlinks = [(-1, -1)] * self._n_gpus
        domains, racks = 0, dict[object, int]()
        for (rack, made), group in groupby(
            range(len(self.servers)), lambda i: (self.servers[i].rack, self.machines[i])
        ):
            members, size = list(group), made.nvlink_domain
            if len(members) % size:
                raise ScenarioError(
                    f"cluster.nvlink_domain is {size}, and {len(members)} such servers stand in one rack; "
                    f"make it a multiple of {size}"
                )
            for n, i in enumerate(members):
                server, own = self.servers[i], size > 1
                domain = domains + n // size
                number = racks.setdefault(("domain", domain) if own else rack, len(racks))
                first = f"nvlink{domain}" if own else server.domains[0]
                self.servers[i] = replace(
                    server, rack=number, domains=(first, *server.domains), nvlink=domain if own else -1
                )
                for gpu in server.gpus if own else ():
                    nvlinks[gpu] = (len(self.links), len(self.links) + 1)
                    self.cable(server.name, first, made.nvlink_gbps or 0.0, "nvlink")
            domains += len(members) // size if size > 1 else 0
        self.level_names = ("NVLink domain", *self.level_names)
        return tuple(nvlinks)
