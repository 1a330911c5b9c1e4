"""Builders of regular fabrics: single switch, leaf-spine, three-tier tree, k-ary fat tree, the CASSINI testbed.

The tier of a link names its lower end: "nic" joins a server to its switch, "leaf" a leaf to a spine, and so on.
The oversubscription of a switch is its downlink bandwidth over its uplink bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, sqrt

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies.fabric import Fabric, Machine, check_count, check_positive, check_total

CASSINI_MACHINE = Machine(gpus_per_server=1, nic_gbps=50.0, gpu="A100", gpu_memory_gb=40.0)


@dataclass(frozen=True, slots=True)
class Node:
    """A server of its own kind, for clusters that are not all alike."""

    name: str
    machine: Machine


@dataclass(frozen=True, slots=True)
class Group:
    """Servers of one kind: so many, one after another."""

    count: int
    machine: Machine


def rows_of(
    racks: int | None, servers_per_rack: int | None, machine: Machine, groups: Sequence[Group] = ()
) -> list[list[Node]]:
    """Servers s0, s1, ... rack by rack, all of one kind or of the kinds of the groups."""
    if servers_per_rack is None:
        raise ScenarioError("cluster.servers_per_rack is missing; give the servers of a rack")
    per_rack = check_count("servers_per_rack", servers_per_rack)
    if groups:
        made = [group.machine for group in groups for _ in range(group.count)]
        needed = ceil(len(made) / per_rack)
        if racks not in (None, needed):
            raise ScenarioError(f"cluster.racks is {racks}; the groups fill {needed} racks of {per_rack}: leave it out")
    elif racks is None:
        raise ScenarioError("cluster.racks is missing; give the number of racks")
    else:
        check_total(check_count("racks", racks) * per_rack, "racks")
        made = [machine] * (racks * per_rack)
    check_total(len(made), "racks")
    return [
        [Node(f"s{i}", made[i]) for i in range(first, min(first + per_rack, len(made)))]
        for first in range(0, len(made), per_rack)
    ]


def single_switch(
    servers: int | None = None,
    machine: Machine | None = None,
    *,
    racks: int | None = None,
    servers_per_rack: int | None = None,
    groups: Sequence[Group] = (),
    seed: int = 0,
) -> Cluster:
    """All servers on one switch that never blocks: only NICs can be the bottleneck. It is one rack, also where their
    number is given as that of the servers in so many racks."""
    if groups and servers is None and servers_per_rack is None:
        servers = sum(group.count for group in groups)
    if servers is None:
        if servers_per_rack is None:
            raise ScenarioError("cluster.servers_per_rack is missing; a single-switch topology needs it")
        per_rack = check_count("servers_per_rack", servers_per_rack)
        servers = per_rack * check_count("racks", 1 if racks is None else racks)
    elif racks is not None or servers_per_rack is not None:
        raise ScenarioError("cluster.servers excludes racks and servers_per_rack; remove one side")
    check_total(check_count("servers", servers), "servers")
    if groups and sum(group.count for group in groups) != servers:
        raise ScenarioError(f"cluster.servers is {servers}, which the groups do not make; leave it out")
    fabric = Fabric("single-switch", machine or Machine(), seed)
    (row,) = rows_of(1, servers, fabric.machine, groups)
    add_servers(fabric, row, 0, ("switch",))
    for server in range(len(row)):
        fabric.nics(server, "switch")
    return fabric.cluster()


def add_servers(fabric: Fabric, nodes: Sequence[Node], rack: int, domains: tuple[str, ...]) -> list[int]:
    """The servers of a rack; returns their ids."""
    return [fabric.server(node.name, rack, domains, machine=node.machine) for node in nodes]


def leaf_spine(
    racks: int | None = None,
    servers_per_rack: int | None = None,
    machine: Machine | None = None,
    *,
    oversubscription: float = 1.0,
    spines: int | None = None,
    groups: Sequence[Group] = (),
    seed: int = 0,
) -> Cluster:
    """One leaf switch per rack, each with one uplink to every spine.

    The uplinks of a leaf have, together, the bandwidth of its NICs divided by `oversubscription`. Without `spines`,
    there are as many spines as make an uplink about as fast as a NIC.
    """
    machine = machine or Machine()
    rows = rows_of(racks, servers_per_rack, machine, groups)
    names = [f"leaf{r}" for r in range(len(rows))]
    return racks_of_nodes(
        "leaf-spine", rows, names, machine, oversubscription=oversubscription, spines=spines, seed=seed
    )


def racks_of_nodes(
    name: str,
    racks: Sequence[Sequence[Node]],
    leaves: Sequence[str],
    machine: Machine,
    *,
    oversubscription: float = 1.0,
    spines: int | None = None,
    seed: int = 0,
) -> Cluster:
    """A leaf-spine of given racks, each with servers of its own kinds under the leaf of that name."""
    ratio = check_positive("oversubscription", oversubscription)
    if spines is None:
        widest = max((len(nodes) for nodes in racks), default=1)
        spines = max(1, min(widest, round(widest / ratio)))
    check_count("spines", spines)
    check_total(spines, "spines")
    fabric = Fabric(name, machine, seed)
    taken = {node.name for nodes in racks for node in nodes} | set(leaves)
    tops = _free_names("spine", spines, taken)
    for rack, nodes in enumerate(racks):
        add_servers(fabric, nodes, rack, (leaves[rack], "spine"))
    for server, leaf in enumerate(leaf for leaf, nodes in zip(leaves, racks, strict=True) for _ in nodes):
        fabric.nics(server, leaf)
    for rack, nodes in enumerate(racks):
        up_gbps = sum(node.machine.uplink_gbps for node in nodes) / ratio / spines
        for top in tops:
            fabric.cable(leaves[rack], top, up_gbps, "leaf")
    return fabric.cluster()


def three_tier(
    racks: int,
    servers_per_rack: int,
    machine: Machine | None = None,
    *,
    racks_per_edge: int | None = None,
    oversubscription: float = 1.0,
    uplink_gbps: tuple[float, float] | None = None,
    seed: int = 0,
) -> Cluster:
    """A tree: racks under ToR switches, these under edge switches, these under one aggregation switch.

    `uplink_gbps` gives the speeds of ToR and edge uplinks; without it, the uplinks of each tier have the bandwidth
    below them divided by `oversubscription`. The simulation of the flow-scheduling paper has
    100 racks of 10 servers of 8 GPUs, 10 racks per edge, NICs at 10 and `uplink_gbps=(20, 40)`. Without
    `racks_per_edge` it is the square root of the racks, rounded up. Where that leaves fewer racks for the last edge
    switch, a note says so.
    """
    machine = machine or Machine()
    check_total(check_count("racks", racks) * check_count("servers_per_rack", servers_per_rack), "racks")
    per_edge = ceil(sqrt(racks)) if racks_per_edge is None else check_count("racks_per_edge", racks_per_edge)
    tor_gbps, edge_gbps = _uplinks(machine.uplink_gbps, servers_per_rack, per_edge, oversubscription, uplink_gbps)
    fabric = Fabric("three-tier", machine, seed)
    _racks(
        fabric, racks * servers_per_rack, servers_per_rack,
        lambda rack: (f"tor{rack}", f"edge{rack // per_edge}", "aggregation"),
    )  # fmt: skip
    for rack in range(racks):
        fabric.cable(f"tor{rack}", f"edge{rack // per_edge}", tor_gbps, "tor")
    for edge in range(ceil(racks / per_edge)):
        fabric.cable(f"edge{edge}", "aggregation", edge_gbps, "edge")
    cluster = fabric.cluster()
    if racks % per_edge == 0:
        return cluster
    note = f"the last edge switch has {racks % per_edge} racks, where the others have {per_edge}, and as fast an uplink"
    return replace(cluster, topology=replace(cluster.topology, notes=(note,)))


def fat_tree(
    k: int | None = None,
    machine: Machine | None = None,
    *,
    servers_per_rack: int | None = None,
    racks: int | None = None,
    pods: int | None = None,
    cores: int | None = None,
    oversubscription: float = 1.0,
    seed: int = 0,
) -> Cluster:
    """The k-ary fat tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 servers.

    All cables run at NIC speed; with `oversubscription`, cables between switches run at NIC speed divided by it. A rack
    is an edge switch; its servers may stand for k. With `pods` the tree need not be k-ary: `racks` are those of all
    pods, a pod has as many aggregation switches as edge switches, and each of the `cores` is joined to every pod once.
    Titan's has pods=64, racks=256, servers_per_rack=2, cores=64.
    """
    machine = machine or Machine()
    if pods is None:
        if cores is not None:
            raise ScenarioError("cluster.cores has no meaning without pods; give pods, racks and servers_per_rack, too")
        pods, half, cores, below = _k_ary(k, servers_per_rack, racks)
    else:
        pods, half, cores, below = _podded(k, pods, racks, servers_per_rack, cores)
    up_gbps = machine.nic_gbps / check_positive("oversubscription", oversubscription)
    fabric = Fabric("fat-tree", machine, seed)
    edges = [(pod, edge) for pod in range(pods) for edge in range(half)]
    above = [(f"edge{pod}.{edge}", f"pod{pod}", "core") for pod, edge in edges]
    _racks(fabric, len(edges) * below, below, above.__getitem__)
    for pod, edge in edges:
        for agg in range(half):
            fabric.cable(f"edge{pod}.{edge}", f"agg{pod}.{agg}", up_gbps, "edge")
    each = cores // half
    for pod, agg in edges:  # as many aggregation switches as edge switches
        for i in range(each):
            fabric.cable(f"agg{pod}.{agg}", f"core{agg * each + i}", up_gbps, "aggregation")
    return fabric.cluster()


def _k_ary(k: int | None, servers_per_rack: int | None, racks: int | None) -> tuple[int, int, int, int]:
    """Pods, edge switches of a pod, cores, and servers of an edge switch of the k-ary tree."""
    if k is None:
        if servers_per_rack is None:
            raise ScenarioError("cluster.k is missing; give the number of ports of a switch (k pods, k^3/4 servers)")
        k = 2 * check_count("servers_per_rack", servers_per_rack)
    check_count("k", k, least=2)
    _check_same(f"a fat tree of k = {k}", ("servers_per_rack", servers_per_rack, k // 2), ("racks", racks, k * k // 2))
    if k % 2:
        raise ScenarioError(f"cluster.k is {k}; a fat tree needs an even number of ports, such as {k + 1}")
    half = k // 2
    check_total(k * half * half, "k")
    return k, half, half * half, half


def _podded(
    k: int | None, pods: int, racks: int | None, servers_per_rack: int | None, cores: int | None
) -> tuple[int, int, int, int]:
    """The same of a tree whose pods, racks and cores are given."""
    if k is not None:
        raise ScenarioError("cluster.pods excludes k, which says the pods itself; remove one of them")
    for name, value in (("racks", racks), ("servers_per_rack", servers_per_rack), ("cores", cores)):
        if value is None:
            raise ScenarioError(f"cluster.{name} is missing; a fat tree with pods needs racks, servers_per_rack, cores")
    racks, below = check_count("racks", racks), check_count("servers_per_rack", servers_per_rack)
    check_total(racks * below, "racks")
    half, rest = divmod(racks, check_count("pods", pods))
    if rest or not half:
        raise ScenarioError(f"cluster.racks is {racks}; give a multiple of the {pods} pods, which have as many each")
    check_total(check_count("cores", cores), "cores")
    if cores % half:  # type: ignore[operator]
        raise ScenarioError(
            f"cluster.cores is {cores}; give a multiple of {half}, the aggregation switches of a pod, to which they go"
        )
    return pods, half, cores, below  # type: ignore[return-value]


def cassini(
    machine: Machine | None = None,
    *,
    servers: int = 24,
    racks: int | None = None,
    servers_per_rack: int | None = None,
    oversubscription: float = 2.0,
    seed: int = 0,
) -> Cluster:
    """The CASSINI testbed (section 5.1, Figure 10): 24 servers, 13 logical switches, 48 cables, 2:1 at the ToRs.

    6 ToRs with 4 servers and 2 uplinks each, 6 aggregation switches with 2 uplinks each, 1 core. The text does not
    say which ToR meets which aggregation switch: here two ToRs and two aggregation switches make a pod, fully meshed.
    """
    shape = (3, 2, 6) if servers == 6 else (6, 4, 24)
    given = (("racks", racks), ("servers_per_rack", servers_per_rack), ("servers", servers))
    _check_same("the CASSINI testbed", *((*pair, right) for pair, right in zip(given, shape, strict=True)))
    if oversubscription != 1:  # which says nothing
        _check_same("the CASSINI testbed", ("oversubscription", oversubscription, 2))
    if servers == 6:
        return cassini_multi_gpu(machine, seed=seed)
    machine = machine or CASSINI_MACHINE
    fabric = Fabric("cassini", machine, seed)
    _racks(fabric, 24, 4, lambda rack: (f"tor{rack}", f"pod{rack // 2}", "core"))
    for tor in range(6):
        for agg in (tor // 2 * 2, tor // 2 * 2 + 1):
            fabric.cable(f"tor{tor}", f"agg{agg}", machine.nic_gbps, "tor")
    for agg in range(6):
        for _ in range(2):
            fabric.cable(f"agg{agg}", "core", machine.nic_gbps, "aggregation")
    return fabric.cluster()


def cassini_multi_gpu(machine: Machine | None = None, *, seed: int = 0) -> Cluster:
    """The six servers with two GPUs each of CASSINI's section 5.6.

    Its Figure 16(a) is a drawing only; here, as in the testbed, 2:1: three ToRs with two servers and one uplink each
    to one core, all at NIC speed.
    """
    machine = machine or Machine(2, CASSINI_MACHINE.nic_gbps, CASSINI_MACHINE.gpu, CASSINI_MACHINE.gpu_memory_gb)
    fabric = Fabric("cassini-multi-gpu", machine, seed)
    _racks(fabric, 6, 2, lambda rack: (f"tor{rack}", "core"))
    for tor in range(3):
        fabric.cable(f"tor{tor}", "core", machine.nic_gbps, "tor")
    return fabric.cluster()


def _check_same(what: str, *rows: tuple[str, float | None, int]) -> None:
    """What is given must be what there is."""
    for name, value, right in rows:
        if value is not None and value != right:
            raise ScenarioError(f"cluster.{name} is {value}; {what} has {right}: leave it out")


def _racks(fabric: Fabric, servers: int, per_rack: int, above: Callable[[int], tuple[str, ...]]) -> None:
    """Servers s0, s1, ... in racks of `per_rack`, each on the first of the switches that are `above` its rack."""
    for i in range(servers):
        fabric.server(f"s{i}", i // per_rack, above(i // per_rack))
    for i in range(servers):
        fabric.nics(i, above(i // per_rack)[0])


def _uplinks(
    nic_gbps: float, servers: int, racks_per_edge: int, oversubscription: float, given: tuple[float, float] | None
) -> tuple[float, float]:
    ratio = check_positive("oversubscription", oversubscription)
    if given is not None and ratio != 1:
        raise ScenarioError("cluster.uplink_gbps excludes oversubscription; remove one of them")
    if given is None:
        tor = servers * nic_gbps / ratio
        return tor, racks_per_edge * tor / ratio
    if len(given) != 2:
        raise ScenarioError(f"cluster.uplink_gbps has {len(given)} speeds; give two: of ToR and of edge uplinks")
    return check_positive("uplink_gbps", given[0]), check_positive("uplink_gbps", given[1])


def _free_names(stem: str, n: int, taken: set[str]) -> list[str]:
    while any(f"{stem}{i}" in taken for i in range(n)):
        stem += "_"
    return [f"{stem}{i}" for i in range(n)]
