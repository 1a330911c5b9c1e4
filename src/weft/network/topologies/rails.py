"""Rail-optimised fabrics: NIC i of every server of a group on rail switch i, spines above, perhaps cores above them.

Such are NVIDIA's DGX SuperPODs (scalable units of 32 servers on 8 leaf switches). Traffic between GPUs of one group
that have the same number stays on one rail switch; with PXN, traffic for another rail goes to the GPU of that rail over
NVLink first, where the job has that GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.network.topologies.clos import Group, add_servers, rows_of
from weft.network.topologies.fabric import Fabric, Machine, check_count, check_positive, check_total


def rails(
    racks: int | None = None,
    servers_per_rack: int | None = None,
    machine: Machine | None = None,
    *,
    racks_per_pod: int | None = None,
    spines: int | None = None,
    oversubscription: float | Sequence[float] = 1.0,
    groups: Sequence[Group] = (),
    pxn: bool = True,
    seed: int = 0,
) -> Cluster:
    """`racks` rail groups of `servers_per_rack` servers, each group with a switch for every NIC of a server.

    Each rail switch has one uplink to every spine; these have, together, the bandwidth of its NICs divided by the
    (first) oversubscription. Without `spines`, there are as many as make an uplink about as fast as a NIC. With
    `racks_per_pod`, spines join the groups of one pod, and core j joins the spines j of all pods; their uplinks are
    divided by the second oversubscription (if there is one).
    """
    machine = machine or Machine()
    rows = rows_of(racks, servers_per_rack, machine, groups)
    ratios = [oversubscription] if isinstance(oversubscription, int | float) else list(oversubscription)
    per_pod = len(rows) if racks_per_pod is None else check_count("racks_per_pod", racks_per_pod)
    pods = ceil(len(rows) / per_pod)
    if len(ratios) not in (1, 1 + (pods > 1)):
        raise ScenarioError(
            f"cluster.oversubscription has {len(ratios)} numbers; give one for each tier of switches that has uplinks"
        )
    leaf_ratio, top_ratio = (check_positive("oversubscription", ratio) for ratio in (ratios[0], ratios[-1]))
    if len(ratios) == 1:
        top_ratio = 1.0
    if spines is None:
        spines = max(1, round(max(len(row) for row in rows) / leaf_ratio))
    check_total(check_count("spines", spines) * pods, "spines")
    deep = pods > 1
    fabric = Fabric("rails", machine, seed, ("rail group", "pod") if deep else ("rail group",))
    switches = [
        [f"rail{g}.{r}" for r in range(max(n.machine.nics_per_server for n in row))] for g, row in enumerate(rows)
    ]
    tops = [[f"spine{pod}.{j}" if deep else f"spine{j}" for j in range(spines)] for pod in range(pods)]
    members = [
        add_servers(fabric, row, g, (f"group{g}", f"pod{g // per_pod}", "fabric") if deep else (f"group{g}", "fabric"))
        for g, row in enumerate(rows)
    ]
    for g, ids in enumerate(members):
        for server in ids:
            fabric.nics(server, *switches[g])
    below = [0.0] * pods  # Gbit/s into each spine of a pod
    for g, row in enumerate(rows):
        for r, switch in enumerate(switches[g]):
            nics_gbps = sum(node.machine.nic_gbps for node in row if node.machine.nics_per_server > r)
            up_gbps = nics_gbps / leaf_ratio / spines
            below[g // per_pod] += up_gbps
            for top in tops[g // per_pod]:
                fabric.cable(switch, top, up_gbps, "rail")
    for pod in range(pods) if deep else ():
        for j in range(spines):
            fabric.cable(tops[pod][j], f"core{j}", below[pod] / top_ratio, "spine")
    cluster, rest = fabric.cluster(pxn=pxn), len(rows) % per_pod
    if not rest:
        return cluster
    note = f"racks_per_pod is {per_pod}, which {len(rows)} rail groups do not fill: the last pod has {rest}"
    return replace(cluster, topology=replace(cluster.topology, notes=(note,)))
