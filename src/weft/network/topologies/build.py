"""build_cluster: a topology by the fields of a scenario's [cluster] section, or cable by cable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any

from weft.errors import ScenarioError
from weft.model.cluster import Cluster, Link, Route
from weft.network.topologies.clos import (
    CASSINI_MACHINE,
    cassini,
    cassini_multi_gpu,
    fat_tree,
    leaf_spine,
    single_switch,
    three_tier,
)
from weft.network.topologies.fabric import Fabric, Machine, check_count, check_positive, check_total


@dataclass(frozen=True, slots=True)
class Cable:
    """Both directions between nodes `a` and `b`, `gbps` each. Without a tier: "nic" at a server, else "fabric"."""

    a: str
    b: str
    gbps: float
    tier: str = ""


@dataclass(frozen=True, slots=True)
class Via:
    """A route from server `src` to server `dst`: the nodes between them in order. One way only.

    Several routes for one pair are equal-cost paths; parallel cables between two nodes of a route multiply it.
    """

    src: str
    dst: str
    via: tuple[str, ...]


def from_cables(
    cables: Sequence[Cable],
    machine: Machine | None = None,
    *,
    servers: Sequence[str] | None = None,
    routes: Sequence[Via] = (),
    seed: int = 0,
) -> Cluster:
    """Servers and switches as the cables join them; pairs without an explicit route take shortest paths.

    `servers` are the nodes with GPUs, in order of their ids; without it, the nodes that have exactly one cable.
    A server's rack is the switch that it is joined to (its first, if several). Servers do not forward traffic.
    """
    _check_cables(cables)
    names = _server_names(cables, servers)
    check_total(len(names), "servers")
    fabric = Fabric("links", machine or Machine(), seed)
    is_server = set(names)
    switch_of = _first_switches(cables, is_server)
    racks: dict[str, int] = {}
    for name in names:
        switch = switch_of.get(name, name)
        fabric.server(name, racks.setdefault(switch, len(racks)), (switch,))
    for cable in cables:
        lower, upper = (cable.b, cable.a) if cable.b in is_server else (cable.a, cable.b)
        tier = cable.tier or ("nic" if lower in is_server else "fabric")
        fabric.cable(lower, upper, cable.gbps, tier)
    fixed = _fixed_routes(routes, names, fabric.links)
    _check_joined(names, cables, fixed)
    return fabric.cluster(fixed)


def _check_cables(cables: Sequence[Cable]) -> None:
    if not cables:
        raise ScenarioError("cluster.links is empty; give at least one cable with a, b and gbps")
    for i, cable in enumerate(cables):
        check_positive(f"links[{i}].gbps", cable.gbps)
        if not cable.a or not cable.b or cable.a == cable.b:
            raise ScenarioError(f"cluster.links[{i}] joins {cable.a!r} to {cable.b!r}; name two different nodes")


def _server_names(cables: Sequence[Cable], servers: Sequence[str] | None) -> list[str]:
    degree = Counter(node for cable in cables for node in (cable.a, cable.b))
    if servers is None:
        names = [node for node, n in degree.items() if n == 1]
        if not names:
            raise ScenarioError("cluster.links: no node has exactly one cable; name the servers")
        return names
    for i, name in enumerate(servers):
        if name not in degree:
            raise ScenarioError(f"cluster.servers[{i}] is {name!r}, which no cable touches; add its cable or remove it")
    if len(set(servers)) < len(servers):
        twice = next(name for i, name in enumerate(servers) if name in servers[:i])
        raise ScenarioError(f"cluster.servers names {twice!r} twice; name each server once")
    if not servers:
        raise ScenarioError("cluster.servers is empty; name at least one server")
    return list(servers)


def _first_switches(cables: Sequence[Cable], servers: set[str]) -> dict[str, str]:
    """The first switch that each server is joined to (none for a server that is joined to servers only)."""
    first: dict[str, str] = {}
    for cable in cables:
        for a, b in ((cable.a, cable.b), (cable.b, cable.a)):
            if a in servers and b not in servers:
                first.setdefault(a, b)
    return first


def _fixed_routes(
    routes: Sequence[Via], names: Sequence[str], links: Sequence[Link]
) -> dict[tuple[int, int], list[Route]]:
    between: dict[tuple[str, str], list[int]] = {}
    for link in links:
        between.setdefault((link.src, link.dst), []).append(link.id)
    ids = {name: i for i, name in enumerate(names)}
    fixed: dict[tuple[int, int], list[Route]] = {}
    for i, route in enumerate(routes):
        if route.src not in ids or route.dst not in ids or route.src == route.dst:
            both = f"{route.src!r} to {route.dst!r}"
            raise ScenarioError(f"cluster.routes[{i}] leads from {both}; name two different servers")
        nodes = (route.src, *route.via, route.dst)
        hops: list[list[int]] = []
        for a, b in pairwise(nodes):
            if (a, b) not in between:
                raise ScenarioError(
                    f"cluster.routes[{i}] passes from {a!r} to {b!r}, which no cable joins; add the cable"
                )
            hops.append(between[a, b])
        if len(set(nodes)) < len(nodes):
            raise ScenarioError(f"cluster.routes[{i}] passes a node twice; remove the loop")
        fixed.setdefault((ids[route.src], ids[route.dst]), []).extend(product(*hops))
    return fixed


def _check_joined(
    names: Sequence[str], cables: Sequence[Cable], fixed: Mapping[tuple[int, int], Sequence[Route]]
) -> None:
    """Refuse a cluster in which some server cannot reach another: jobs would fail hours later."""
    servers = set(names)
    parent: dict[str, str] = {}

    def root(node: str) -> str:
        parent.setdefault(node, node)
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for cable in cables:
        if cable.a not in servers and cable.b not in servers:
            parent[root(cable.a)] = root(cable.b)
    reach: dict[str, set[str]] = {name: set() for name in names}  # what a server is joined to: parts, and servers
    for cable in cables:
        for a, b in ((cable.a, cable.b), (cable.b, cable.a)):
            if a in servers:
                reach[a].add(b if b in servers else root(b))
    if set.intersection(*reach.values()) - servers:
        return
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            if i != j and b not in reach[a] and not reach[a] & reach[b] - servers and (i, j) not in fixed:
                raise ScenarioError(f"cluster.links: no path from {a} to {b} over switches; add a cable or a route")


Fields = dict[str, Any]


def build_cluster(
    kind: str,
    *,
    racks: int | None = None,
    servers_per_rack: int | None = None,
    servers: int | Sequence[str] | None = None,
    gpus_per_server: int | None = None,
    nic_gbps: float | None = None,
    oversubscription: float | None = None,
    uplink_gbps: tuple[float, float] | None = None,
    spines: int | None = None,
    racks_per_edge: int | None = None,
    k: int | None = None,
    cables: Sequence[Cable] | None = None,
    routes: Sequence[Via] | None = None,
    intra_server_gbps: float | None = None,
    gpu: str | None = None,
    gpu_memory_gb: float | None = None,
    latency_us: float = 0.0,
    intra_latency_us: float = 0.0,
    seed: int = 0,
) -> Cluster:
    """The cluster that a [cluster] section describes. None means "not given": the kind's own default, if it has one.

    A field that the kind does not know is refused (an oversubscription of 1 says nothing and passes everywhere). The
    `cassini` kind is the 24-server testbed; with `servers=6` the two-GPU variant of its section 5.6.
    """
    if kind not in TOPOLOGIES:
        raise ScenarioError(f'cluster.topology is "{kind}"; choose one of {", ".join(TOPOLOGIES)}')
    known, build = TOPOLOGIES[kind]
    fields: Fields = {
        "racks": racks, "servers_per_rack": servers_per_rack, "servers": servers, "oversubscription": oversubscription,
        "uplink_gbps": uplink_gbps, "spines": spines, "racks_per_edge": racks_per_edge, "k": k, "links": cables,
        "routes": routes,
    }  # fmt: skip
    for name, value in fields.items():
        if value is not None and name not in known and not (name == "oversubscription" and value == 1):
            raise ScenarioError(f"cluster.{name} has no meaning in a {kind} topology; leave it out")
    if kind == "cassini" and gpus_per_server is None and servers == 6:
        gpus_per_server = 2
    given: Fields = {
        "gpus_per_server": gpus_per_server, "nic_gbps": nic_gbps, "gpu": gpu, "gpu_memory_gb": gpu_memory_gb,
    }  # fmt: skip
    machine = replace(
        CASSINI_MACHINE if kind == "cassini" else Machine(),
        intra_server_gbps=intra_server_gbps,
        latency_us=latency_us,
        intra_latency_us=intra_latency_us,
        **{name: value for name, value in given.items() if value is not None},
    )
    return build({**fields, "oversubscription": 1.0 if oversubscription is None else oversubscription}, machine, seed)


def _single_switch(f: Fields, machine: Machine, seed: int) -> Cluster:
    if f["servers"] is None:
        _require(f, "single-switch", "servers_per_rack")
        racks = 1 if f["racks"] is None else check_count("racks", f["racks"])
        return single_switch(racks * check_count("servers_per_rack", f["servers_per_rack"]), machine, seed=seed)
    if f["racks"] is not None or f["servers_per_rack"] is not None:
        raise ScenarioError("cluster.servers excludes racks and servers_per_rack; remove one side")
    return single_switch(f["servers"], machine, seed=seed)


def _leaf_spine(f: Fields, machine: Machine, seed: int) -> Cluster:
    _require(f, "leaf-spine", "racks", "servers_per_rack")
    ratio, spines = f["oversubscription"], f["spines"]
    return leaf_spine(f["racks"], f["servers_per_rack"], machine, oversubscription=ratio, spines=spines, seed=seed)


def _three_tier(f: Fields, machine: Machine, seed: int) -> Cluster:
    _require(f, "three-tier", "racks", "servers_per_rack")
    if f["uplink_gbps"] is not None and f["oversubscription"] != 1:
        raise ScenarioError("cluster.uplink_gbps excludes oversubscription; remove one of them")
    return three_tier(
        f["racks"],
        f["servers_per_rack"],
        machine,
        racks_per_edge=f["racks_per_edge"],
        oversubscription=f["oversubscription"],
        uplink_gbps=f["uplink_gbps"],
        seed=seed,
    )


def _fat_tree(f: Fields, machine: Machine, seed: int) -> Cluster:
    k = f["k"]
    if k is None:
        if f["servers_per_rack"] is None:
            raise ScenarioError("cluster.k is missing; give the number of ports of a switch (k pods, k^3/4 servers)")
        k = 2 * check_count("servers_per_rack", f["servers_per_rack"])
    check_count("k", k, least=2)
    for name, right in (("servers_per_rack", k // 2), ("racks", k * k // 2)):
        if f[name] is not None and f[name] != right:
            raise ScenarioError(f"cluster.{name} is {f[name]}; a fat tree of k = {k} has {right}: leave it out")
    return fat_tree(k, machine, oversubscription=f["oversubscription"], seed=seed)


def _cassini(f: Fields, machine: Machine, seed: int) -> Cluster:
    if f["servers"] == 6:
        expected, build = {"racks": 3, "servers_per_rack": 2}, cassini_multi_gpu
    else:
        expected, build = {"racks": 6, "servers_per_rack": 4, "servers": 24}, cassini
    for name, right in expected.items():
        if f[name] is not None and f[name] != right:
            raise ScenarioError(f"cluster.{name} is {f[name]}; the CASSINI testbed has {right}: leave it out")
    if f["oversubscription"] not in (1.0, 2.0):
        raise ScenarioError(
            f"cluster.oversubscription is {f['oversubscription']}; the CASSINI testbed has 2: leave it out"
        )
    return build(machine, seed=seed)


def _links(f: Fields, machine: Machine, seed: int) -> Cluster:
    if f["links"] is None:
        raise ScenarioError("cluster.links is missing; give the cables, each with a, b and gbps")
    names = f["servers"]
    if isinstance(names, int | str):
        raise ScenarioError(
            f"cluster.servers is {names!r}; in a links topology give the servers' names, or leave it out"
        )
    return from_cables(f["links"], machine, servers=names, routes=f["routes"] or (), seed=seed)


def _require(f: Fields, kind: str, *names: str) -> None:
    for name in names:
        if f[name] is None:
            raise ScenarioError(f"cluster.{name} is missing; a {kind} topology needs it")


TOPOLOGIES: dict[str, tuple[frozenset[str], Callable[[Fields, Machine, int], Cluster]]] = {
    "single-switch": (frozenset({"racks", "servers_per_rack", "servers"}), _single_switch),
    "leaf-spine": (frozenset({"racks", "servers_per_rack", "oversubscription", "spines"}), _leaf_spine),
    "three-tier": (
        frozenset({"racks", "servers_per_rack", "oversubscription", "racks_per_edge", "uplink_gbps"}),
        _three_tier,
    ),
    "fat-tree": (frozenset({"k", "racks", "servers_per_rack", "oversubscription"}), _fat_tree),
    "cassini": (frozenset({"racks", "servers_per_rack", "servers", "oversubscription"}), _cassini),
    "links": (frozenset({"servers", "links", "routes"}), _links),
}
