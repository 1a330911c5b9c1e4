"""Blueprint: a cluster as namespaces, bridges and cables, before anything is made of it.

Every server becomes a host with one interface and every switch a bridge. Rates and bytes are divided by the same
factor, so that times stay what they are on the real cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from weft.errors import InputError
from weft.model.cluster import Cluster

MOST_RATE = 100e6  # bytes per second of a link that two cores still carry faithfully (800 Mbit/s)
_MOST_HOSTS = 250
_NETWORK = "10.77"
Forwarding = Mapping[tuple[str, str], str]  # switch and MAC of a host: the neighbour that is next


@dataclass(frozen=True)
class Host:
    """A server: its address and the address of its interface."""

    server: int
    name: str
    address: str
    mac: str


@dataclass(frozen=True)
class Cable:
    """Two ends (a server's or a switch's name) and the rate in each direction, scaled."""

    a: str
    b: str
    a_to_b_bytes_per_s: float
    b_to_a_bytes_per_s: float


@dataclass(frozen=True)
class Blueprint:
    """See the module."""

    hosts: tuple[Host, ...]
    switches: tuple[str, ...]
    cables: tuple[Cable, ...]
    forwarding: Forwarding
    scale: float

    def host(self, server: int) -> Host:
        """The host of a server."""
        return self.hosts[server]

    @property
    def words(self) -> str:
        """What the factor means, in one sentence."""
        fastest = max(max(c.a_to_b_bytes_per_s, c.b_to_a_bytes_per_s) for c in self.cables)
        was, now = fastest * self.scale * 8 / 1e9, fastest * 8 / 1e6
        return f"rates and bytes are divided by {self.scale:g}: {was:g} Gbit/s is {now:g} Mbit/s here"


def blueprint(cluster: Cluster, scale: float | None = None) -> Blueprint:
    """The cluster divided by `scale`; by default so that its fastest link has 400 Mbit/s."""
    if not 2 <= len(cluster.servers) <= _MOST_HOSTS:
        raise InputError(f"testbed: the cluster has {len(cluster.servers)} servers; 2 to {_MOST_HOSTS} can be built")
    links = cluster.topology.links
    if not links:
        raise InputError("testbed: the cluster has no links between its servers")
    fastest = max(link.bytes_per_s for link in links)
    factor = scale if scale is not None else max(1.0, fastest / (MOST_RATE / 2))
    if factor <= 0 or fastest / factor > MOST_RATE * 1.001:
        need = math.ceil(fastest / MOST_RATE)
        raise InputError(
            f"testbed: divided by {factor:g} the fastest link has {fastest / factor * 8e-6:.0f} Mbit/s, more than two "
            f"cores can carry; --scale {need} or more makes it 800 Mbit/s or less"
        )
    hosts = tuple(
        Host(
            s.id,
            s.name,
            f"{_NETWORK}.{s.id // 250}.{s.id % 250 + 1}",
            f"02:57:00:00:{s.id // 256:02x}:{s.id % 256:02x}",
        )
        for s in cluster.servers
    )
    names = {host.name for host in hosts}
    rate: dict[tuple[str, str], float] = {}
    for link in links:  # parallel cables are one of their common rate: a bridge would not balance them
        rate[link.src, link.dst] = rate.get((link.src, link.dst), 0.0) + link.bytes_per_s / factor
    cables = tuple(
        Cable(a, b, forth, rate.get((b, a), forth)) for (a, b), forth in rate.items() if a < b or (b, a) not in rate
    )
    _refuse_rails(names, cables)
    switches = tuple(sorted({end for pair in rate for end in pair} - names))
    return Blueprint(hosts, switches, cables, _forwarding(cluster, hosts), factor)


def _refuse_rails(names: set[str], cables: tuple[Cable, ...]) -> None:
    """Raise unless every server has a cable, and to one neighbour only."""
    for name in sorted(names):
        others = sorted({c.b if c.a == name else c.a for c in cables if name in (c.a, c.b)})
        if len(others) != 1:
            told = f"cables to {' and '.join(others)}" if others else "no cable"
            raise InputError(
                f"testbed: server {name} has {told}; here a server has one interface, so join it to one switch"
            )


def _forwarding(cluster: Cluster, hosts: tuple[Host, ...]) -> dict[tuple[str, str], str]:
    """Where a switch sends a frame for a host: along the first route found through it.

    Bridges forward by destination alone. Every route is a shortest one, so that any mixture of them is free of loops.
    """
    links, found = cluster.topology.links, dict[tuple[str, str], str]()
    for dst in hosts:
        for src in hosts:
            for k in cluster.route(src.server, dst.server) if src != dst else ():
                found.setdefault((links[k].src, dst.mac), links[k].dst)
    return found
