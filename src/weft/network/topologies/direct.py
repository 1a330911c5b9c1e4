"""Direct networks: a torus, in which every server has a router of its own, and a dragonfly of router groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies.clos import Node, add_servers
from weft.network.topologies.fabric import Fabric, Machine, check_count, check_total


def torus(dims: Sequence[int], machine: Machine | None = None, *, seed: int = 0) -> Cluster:
    """Servers on a grid that closes on itself, each on a router with a cable at NIC speed to each neighbour.

    A server reaches its router as fast as these cables are together, so that only they can be the bottleneck. Two
    routers that are neighbours both ways (a dimension of 2) have one cable. Paths are shortest, and equal ones are
    chosen by hash. Servers that differ in their last coordinate only are a rack.
    """
    machine = machine or Machine()
    if not dims:
        raise ScenarioError("cluster.dims is empty; give the servers along each dimension, such as [4, 4, 4]")
    for size in dims:
        check_count("dims", size)
    check_total(prod(dims), "dims")
    fabric = Fabric("torus", machine, seed)
    points = list(product(*map(range, dims)))
    names = {point: "router" + ".".join(map(str, point)) for point in points}
    pairs: list[tuple[str, str]] = []
    for point in points:
        for axis, size in enumerate(dims):
            other = (*point[:axis], (point[axis] + 1) % size, *point[axis + 1 :])
            if size > 2 or (size == 2 and point[axis] == 0):
                pairs.append((names[point], names[other]))
    degree = sum(2 if size > 2 else size - 1 for size in dims)
    for i, point in enumerate(points):
        add_servers(fabric, [Node(f"s{i}", machine)], i // dims[-1], (names[point],))
    for i, point in enumerate(points):
        fabric.nics(i, names[point], gbps=machine.nic_gbps * max(1, degree))
    for a, b in pairs:
        fabric.cable(a, b, machine.nic_gbps, "torus")
    cluster = fabric.cluster()
    return replace(cluster, topology=replace(cluster.topology, sums=False))


def dragonfly(
    router_groups: int,
    routers_per_group: int,
    servers_per_router: int,
    machine: Machine | None = None,
    *,
    global_links: int = 1,
    seed: int = 0,
) -> Cluster:
    """Groups of routers that are all joined to each other, and groups that are all joined to each other.

    Each router has `global_links` cables to other groups, at NIC speed like all others. Port q of a group, counted
    router by router, leads q mod (groups - 1) + 1 groups further. Routing takes the fewest hops; what adaptive or
    Valiant routing would spread over other groups stays on the direct cables.
    """
    machine = machine or Machine()
    groups, routers = check_count("router_groups", router_groups), check_count("routers_per_group", routers_per_group)
    each = check_count("servers_per_router", servers_per_router)
    ports = routers * check_count("global_links", global_links)
    check_total(groups * routers * each, "servers_per_router")
    if groups - 1 > ports:
        raise ScenarioError(
            f"cluster.router_groups is {groups}; {routers} routers with {global_links} global links reach "
            f"{ports} other groups: give at most {ports + 1} groups"
        )
    if groups == 1 and global_links > 1:
        raise ScenarioError(f"cluster.global_links is {global_links}, and there is one group of routers; leave it out")
    fabric = Fabric("dragonfly", machine, seed, ("router", "router group"))
    where = [(group, router) for group in range(groups) for router in range(routers)]
    for rack, (group, router) in enumerate(where):
        nodes = [Node(f"s{rack * each + i}", machine) for i in range(each)]
        for server in add_servers(fabric, nodes, rack, (f"r{group}.{router}", f"group{group}")):
            fabric.nics(server, f"r{group}.{router}")
    for group, router in where:
        for other in range(router + 1, routers):
            fabric.cable(f"r{group}.{router}", f"r{group}.{other}", machine.nic_gbps, "local")
    for group in range(groups):
        for port in range(ports // (groups - 1) * (groups - 1) if groups > 1 else 0):
            turn, step = divmod(port, groups - 1)
            other = (group + step + 1) % groups
            if group < other:  # the other end: the same turn, the steps that are left to come round again
                back = turn * (groups - 1) + groups - 2 - step
                lower, upper = f"r{group}.{port // global_links}", f"r{other}.{back // global_links}"
                fabric.cable(lower, upper, machine.nic_gbps, "global")
    cluster = fabric.cluster()
    note = "a dragonfly routes over the fewest hops; adaptive routing would spread load over other groups"
    return replace(cluster, topology=replace(cluster.topology, notes=(note,), sums=False))
