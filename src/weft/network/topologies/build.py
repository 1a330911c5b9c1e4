"""build_cluster: a topology by the fields of a scenario's [cluster] section, or cable by cable."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from inspect import signature
from itertools import pairwise, product
from typing import Any

from weft.errors import ScenarioError
from weft.model.cluster import Cluster, Link, Route
from weft.network.topologies.clos import (
    CASSINI_MACHINE,
    Group,
    cassini,
    fat_tree,
    leaf_spine,
    single_switch,
    three_tier,
)
from weft.network.topologies.direct import dragonfly, torus
from weft.network.topologies.fabric import Fabric, Machine, check_count, check_positive, check_total
from weft.network.topologies.rails import rails


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
    links: Sequence[Cable],
    machine: Machine | None = None,
    *,
    servers: Sequence[str] | None = None,
    routes: Sequence[Via] = (),
    seed: int = 0,
) -> Cluster:
    """Servers and switches as the cables join them; pairs without an explicit route take shortest paths.

    `servers` are the nodes with GPUs, in order of their ids; without it, the nodes that have exactly one cable.
    A server's rack is the switch that it is joined to (its first, if several). Servers do not forward traffic. Parallel
    cables between a server and one other node count as one of their speed together; the cluster's notes say so.
    """
    _check_cables(links)
    names = _server_names(links, servers)
    check_total(len(names), "servers")
    fabric = Fabric("links", machine or Machine(), seed)
    is_server = set(names)
    switch_of = _first_switches(links, is_server)
    racks: dict[str, int] = {}
    for name in names:
        switch = switch_of.get(name, name)
        fabric.server(name, racks.setdefault(switch, len(racks)), (switch,))
    joined, bundled = _bundled(links, is_server)
    for cable in joined:
        lower, upper = (cable.b, cable.a) if cable.b in is_server else (cable.a, cable.b)
        tier = cable.tier or ("nic" if lower in is_server else "fabric")
        fabric.cable(lower, upper, cable.gbps, tier)
    fixed = _fixed_routes(routes, names, fabric.links)
    _check_joined(names, links, fixed)
    cluster = fabric.cluster(fixed)
    notes = _notes(joined, bundled, is_server)
    return replace(cluster, topology=replace(cluster.topology, notes=notes)) if notes else cluster


def _bundled(cables: Sequence[Cable], servers: set[str]) -> tuple[list[Cable], int]:
    """The cables, those between a server and one other node as one, and at how many places there were several."""
    found: dict[object, list[Cable]] = {}
    for i, cable in enumerate(cables):
        at_server = not servers.isdisjoint((cable.a, cable.b))
        found.setdefault(frozenset((cable.a, cable.b)) if at_server else i, []).append(cable)
    joined = [replace(some[0], gbps=sum(cable.gbps for cable in some)) for some in found.values()]
    return joined, sum(len(some) > 1 for some in found.values())


def _notes(joined: Sequence[Cable], bundled: int, servers: set[str]) -> tuple[str, ...]:
    """What the reader must know about servers with several NICs, which the simulation does not have."""
    notes = []
    if bundled:
        notes.append(
            f"parallel cables at servers count as one cable of their speed together ({bundled} times); a transfer "
            "spreads over them without loss"
        )
    uplinks = Counter(
        node for cable in joined for node in (cable.a, cable.b) if node in servers and {cable.a, cable.b} - servers
    )
    if several := sum(n > 1 for n in uplinks.values()):
        notes.append(
            f"servers that are joined to several switches ({several} of {len(servers)}) send each transfer through one "
            "of them: a single job may leave the other cables idle"
        )
    return tuple(notes)


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
    if isinstance(servers, int | str):
        raise ScenarioError(f"cluster.servers is {servers!r}; for links give the servers' names, or leave it out")
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


TOPOLOGIES: dict[str, Callable[..., Cluster]] = {
    "single-switch": single_switch, "leaf-spine": leaf_spine, "three-tier": three_tier, "fat-tree": fat_tree,
    "rails": rails, "torus": torus, "dragonfly": dragonfly, "cassini": cassini, "links": from_cables,
}  # fmt: skip
_MACHINE = tuple(field.name for field in fields(Machine))
_ONE_NIC = ("fat-tree", "cassini", "links", "torus")  # whose cables say what NICs there are
_ALL_ALIKE = ("latency_us", "intra_latency_us", "nvlink_latency_us")


@cache
def presets() -> dict[str, dict[str, Any]]:
    """Machines by name, with the source of their figures."""
    return tomllib.loads((files("weft.network.topologies") / "machines.toml").read_text(encoding="utf-8"))


def machine_of(given: dict[str, Any], usual: Machine, where: str = "cluster") -> Machine:
    """A machine by the fields of Machine, or a preset with such fields in place of its own. They are taken out of
    `given`."""
    found: dict[str, Any] = {}
    if (name := given.pop("preset", None)) is not None:
        if name not in presets():
            raise ScenarioError(f'{where}.preset is "{name}"; choose one of {", ".join(presets())}')
        found = {key: value for key, value in presets()[name].items() if key != "source"}
        if given.get("gpu") not in (None, found["gpu"]) and given.get("gpu_memory_gb") is None:
            raise ScenarioError(
                f'{where}.gpu is "{given["gpu"]}", and the memory of preset "{name}" is that of a {found["gpu"]}; '
                "give gpu_memory_gb, too"
            )
    found |= {name: given.pop(name) for name in _MACHINE if given.get(name) is not None}
    if found.get("gpus_per_server", 0) and "nics_per_server" not in found:
        found["nics_per_server"] = min(usual.nics_per_server, found["gpus_per_server"])
    return replace(usual, **found)


def check_nvlinks(cluster: Cluster, given: Mapping[str, Any]) -> Cluster:
    """The cluster; refuses the figures of an NVLink domain that it does not have (a domain of 1 says so itself)."""
    for name in ("nvlink_gbps", "nvlink_latency_us"):
        if given.get(name) and given.get("nvlink_domain") is None and not cluster.nvlinks:
            raise ScenarioError(f"cluster.{name} has no meaning without an NVLink domain; give nvlink_domain, too")
    return cluster


def _groups(rows: Sequence[Mapping[str, Any]], machine: Machine) -> list[Group]:
    """The groups of unequal servers; what a group does not say is as in the cluster."""
    found = []
    for i, row in enumerate(rows):
        given, where = dict(row), f"cluster.group[{i}]"
        count = check_count(f"group[{i}].count", given.pop("count", None))
        if "preset" not in given and ("gpu" in given) != ("gpu_memory_gb" in given):
            raise ScenarioError(f"{where} has one of gpu and gpu_memory_gb; give both, or a preset")
        usual = replace(machine, nvlink_domain=1, nvlink_gbps=None) if "preset" in given else machine
        made = machine_of(given, usual, where)
        if row.get("nvlink_gbps") is not None and row.get("nvlink_domain") is None and made.nvlink_domain == 1:
            raise ScenarioError(f"{where}.nvlink_gbps has no meaning without an NVLink domain; give nvlink_domain, too")
        found.append(Group(count, made))
        for name in given:
            raise ScenarioError(f"{where}.{name} has no meaning for a group; leave it out")
    return found


def build_cluster(kind: str, *, seed: int = 0, **given: Any) -> Cluster:
    """The cluster that a [cluster] section describes by the parameters of its kind's builder and the fields of Machine.

    None means "not given": the kind's own default, if it has one. A field that the kind does not know is refused (an
    oversubscription of 1 says nothing and passes everywhere). The `cassini` kind is the 24-server testbed; with
    `servers=6` the two-GPU variant of its section 5.6.
    """
    if kind not in TOPOLOGIES:
        raise ScenarioError(f'cluster.topology is "{kind}"; choose one of {", ".join(TOPOLOGIES)}')
    build = TOPOLOGIES[kind]
    takes = signature(build).parameters
    given = {name: value for name, value in given.items() if value is not None}
    usual = CASSINI_MACHINE if kind == "cassini" else Machine()
    if kind == "cassini" and given.get("servers") == 6:
        usual = replace(usual, gpus_per_server=2)
    asked = dict(given)
    machine = machine_of(given, usual)
    if machine.nics_per_server > 1 and kind in _ONE_NIC:
        raise ScenarioError(f"cluster.nics_per_server is {machine.nics_per_server}; a {kind} topology has one NIC each")
    if "group" in given and "groups" in takes:
        given["groups"] = _groups(given.pop("group"), machine)
        machine = replace(given["groups"][0].machine, **{name: getattr(machine, name) for name in _ALL_ALIKE})
    ratio = given.get("oversubscription")
    if "oversubscription" not in takes and ratio == 1:
        del given["oversubscription"]
    elif isinstance(ratio, list) and kind != "rails":
        raise ScenarioError(f"cluster.oversubscription is a list; a {kind} topology takes one number")
    for name in given:
        if name not in takes:
            raise ScenarioError(f"cluster.{name} has no meaning in a {kind} topology; leave it out")
    for name, parameter in takes.items():
        if parameter.default is parameter.empty and name not in given:
            raise ScenarioError(f"cluster.{name} is missing; a {kind} topology needs it")
    return check_nvlinks(build(machine=machine, seed=seed, **given), asked)
