"""Machine, Fabric: what every builder needs to put servers, switches and cables together into a Cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import InputError
from weft.model.cluster import Cluster, Link, Route, Server, Topology
from weft.model.topologies.checks import check_count, check_not_negative, check_positive
from weft.model.topologies.routing import EcmpRouter
from weft.model.units import GB, gbps_to_bytes_per_s

__all__ = ["Fabric", "Machine"]


@dataclass(frozen=True, slots=True)
class Machine:
    """What the servers of a cluster are like: GPUs, one NIC, and the fabric between the GPUs of one server."""

    gpus_per_server: int = 1
    nic_gbps: float = 10.0
    gpu: str = "V100"
    gpu_memory_gb: float = 16.0
    intra_server_gbps: float | None = None  # per GPU and direction; None: no limit
    latency_us: float = 0.0  # one message between servers
    intra_latency_us: float = 0.0  # one message inside a server

    def __post_init__(self) -> None:
        check_count("gpus_per_server", self.gpus_per_server)
        check_positive("nic_gbps", self.nic_gbps)
        check_positive("gpu_memory_gb", self.gpu_memory_gb)
        if self.intra_server_gbps is not None:
            check_positive("intra_server_gbps", self.intra_server_gbps)
        check_not_negative("latency_us", self.latency_us)
        check_not_negative("intra_latency_us", self.intra_latency_us)


class Fabric:
    """A cluster under construction. Cables are full duplex: each is two directed links, the one upwards first."""

    def __init__(self, name: str, machine: Machine, seed: int = 0) -> None:
        self.name = name
        self.machine = machine
        self.seed = check_count("seed", seed, least=0)
        self.links: list[Link] = []
        self.servers: list[Server] = []
        self._names: dict[str, int] = {}
        self._n_gpus = 0

    def server(self, name: str, rack: int, domains: Sequence[str], gpus: int | None = None) -> int:
        """Add a server; its GPUs are numbered on from the last one's. Returns its id."""
        n = self.machine.gpus_per_server if gpus is None else gpus
        server = Server(len(self.servers), name, tuple(range(self._n_gpus, self._n_gpus + n)), rack, tuple(domains))
        self._n_gpus += n
        self.servers.append(server)
        return server.id

    def cable(self, lower: str, upper: str, gbps: float, tier: str) -> None:
        """Add both directions between two nodes, `gbps` each."""
        for src, dst in ((lower, upper), (upper, lower)):
            name = f"{src}->{dst}"
            seen = self._names[name] = self._names.get(name, 0) + 1
            if seen > 1:  # parallel cables
                name = f"{name}#{seen}"
            self.links.append(Link(len(self.links), name, src, dst, gbps_to_bytes_per_s(gbps), tier))

    def cluster(self, fixed: Mapping[tuple[int, int], Sequence[Route]] | None = None) -> Cluster:
        """The finished cluster, routed over shortest paths except where `fixed` says otherwise."""
        if not self.servers:
            raise InputError(f"topology {self.name}: it has no servers; give at least one")
        links = tuple(self.links)
        router = EcmpRouter(links, [s.name for s in self.servers], self.seed, fixed)
        machine = self.machine
        intra = machine.intra_server_gbps
        return Cluster(
            servers=tuple(self.servers),
            topology=Topology(self.name, links, router, self.seed),
            gpu=machine.gpu,
            gpu_memory_bytes=machine.gpu_memory_gb * GB,
            intra_server_bytes_per_s=float("inf") if intra is None else gbps_to_bytes_per_s(intra),
            latency_s=machine.latency_us * 1e-6,
            intra_latency_s=machine.intra_latency_us * 1e-6,
        )
