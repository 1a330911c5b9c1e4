"""The cluster that Slurm itself describes: its GPU nodes, and the switches of `scontrol show topology`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.reason import Why, because
from weft.network.topologies import Machine
from weft.network.topologies.clos import Node as Row
from weft.network.topologies.clos import racks_of_nodes
from weft.network.topologies.files import parse_slurm_topology
from weft.network.topologies.hostlist import compress, expand
from weft.workload.zoo.timings import find_gpu
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.records import Node, Record, read_nodes

_FIELD = re.compile(r"(\w+)=(\S*)")
_PLUGINS = ("", "(null)", "none", "tree", "flat", "default")  # flat was called none up to 23.02, and default in 24.11
_OWN = re.compile(r"^PartitionName=(\S+) .*\bTopology=(?!\(null\))(\S+)", re.MULTILINE)  # since 25.05


def gpu_nodes(slurm: Slurm, partitions: Set[str]) -> list[Node]:
    """Nodes with GPUs in these partitions (in any, if none is named); raises if there are none, or no Slurm."""
    slurm.refuse_if_missing()
    try:
        nodes = read_nodes(slurm.nodes())
    except Unreachable as error:
        raise InputError(f"Slurm does not answer ({error}); is slurmctld up, and SLURM_CONF the right file?") from None
    known = frozenset[str]().union(*(node.partitions for node in nodes))
    for name in sorted(partitions - known):
        raise InputError(f"--partition {name}: Slurm has no such partition; it has {', '.join(sorted(known))}")
    found = [node for node in nodes if node.gpus and (not partitions or partitions & node.partitions)]
    if not found:
        raise InputError("Slurm has no GPU nodes there; set Gres=gpu:N in slurm.conf, or name another --partition")
    return found


def read_cluster(
    slurm: Slurm, partitions: Set[str], machine: Machine | None = None, seed: int = 0,
    say: Callable[[str], None] = lambda _: None,
) -> Cluster:  # fmt: skip
    """The cluster: link speeds where topology.conf gives LinkSpeed (in Gbit/s), else the machine's.

    Where Slurm knows no switches all nodes hang on one.
    """
    nodes = gpu_nodes(slurm, partitions)
    machine = machine or _machine(nodes)
    gpus = {node.name: node.gpus for node in nodes}
    try:
        text = topology_conf(shown_topology(slurm, partitions, nodes), gpus)
    except Unreachable as error:
        raise InputError(f"Slurm does not answer ({error}); try again, or give a scenario with a [cluster]") from None
    if "LinkSpeed" not in text:
        say(f"note: Slurm gives no link speeds; weft assumes {machine.nic_gbps:g} Gbit/s to each node")
    if not text:
        rows = [[Row(node.name, machine.with_gpus(node.gpus)) for node in nodes]]
        return racks_of_nodes("slurm", rows, ["switch"], machine, spines=1, seed=seed)
    return parse_slurm_topology(text, "scontrol show topology", machine, gpus=gpus, seed=seed)


def unusable(cluster: Cluster, nodes: Mapping[str, Node], jobs: Mapping[str, Record], ours: Set[str]) -> dict[int, Why]:
    """Servers that nothing can be placed on now, each with the reason: Slurm does not offer them, or somebody else
    has GPUs there."""
    bad: dict[int, Why] = {}
    servers = {server.name: server for server in cluster.servers}
    for name, server in servers.items():
        node = nodes.get(name)
        if node is None or not node.usable:
            bad[server.id] = because("slurm.node-state", state=node.words) if node else because("slurm.node-unknown")
        elif node.gpus < len(server.gpus):
            bad[server.id] = because("slurm.node-gpus", gpus=node.gpus)
    others: dict[int, list[str]] = {}
    for key, record in jobs.items():
        if record.running and key not in ours:
            for name, gpus in zip(record.nodes, record.gpus_held, strict=False):
                if gpus and name in servers:
                    others.setdefault(servers[name].id, []).append(key)
    return {server: because("slurm.stranger", jobs=tuple(keys)) for server, keys in others.items()} | bad


def refuse_cluster(cluster: Cluster, nodes: Sequence[Node]) -> None:
    """Raise if a cluster from a scenario is not made of Slurm's nodes."""
    gpus = {node.name: node.gpus for node in nodes}
    for server in cluster.servers:
        if server.name not in gpus:
            some = compress(sorted(gpus))
            raise InputError(f"[cluster]: Slurm has no GPU node {server.name}, it has {some:.60}; use its names")
        if len(server.gpus) > gpus[server.name]:
            n = gpus[server.name]
            raise InputError(f"[cluster]: {server.name} has {n} GPUs in Slurm, not {len(server.gpus)}; give that")


def shown_topology(slurm: Slurm, partitions: Set[str], nodes: Sequence[Node]) -> str:
    """What `scontrol show topology` prints of the one that these partitions have (all of the nodes', if none is named);
    raises if they have several, or if it has rules that weft does not know."""
    own = dict(_OWN.findall(slurm.partitions()))
    served = sorted(partitions or frozenset[str]().union(*(node.partitions for node in nodes)))
    names = {own.get(partition, "") for partition in served}
    if len(names) > 1:
        raise InputError(
            f"partitions {', '.join(served)} have different topologies; serve those of one topology (--partition)"
        )
    name = names.pop()
    shown = slurm.topology(name)
    refuse_plugin({} if name else slurm.config(), shown)
    return shown


def refuse_plugin(config: Mapping[str, str], shown: str) -> None:
    """Raise if Slurm has rules about which nodes go together: starts that break them would wait for ever."""
    plugin = config.get("TopologyPlugin", "").removeprefix("topology/")
    if plugin not in _PLUGINS:
        raise InputError(
            f"Slurm's TopologyPlugin is topology/{plugin}, whose rules weft does not know; use topology/tree"
        )
    _switches(shown)


def _switches(shown: str) -> list[dict[str, str]]:
    """What `scontrol show topology` prints, a row for each switch; raises if it has anything else."""
    for line in shown.splitlines():
        if line.strip() and not re.match(r"\s*SwitchName=", line):
            raise InputError(
                f"scontrol show topology says {line.strip():.40}, and weft reads switches only; use topology/tree"
            )
    return [dict(_FIELD.findall(line)) for line in shown.splitlines() if line.strip()]


def topology_conf(shown: str, gpus: Mapping[str, int]) -> str:
    """What `scontrol show topology` prints, as the topology.conf it came from, without nodes that are not wanted.

    There every switch lists all nodes below it, and LinkSpeed=1 (0, in newer versions) stands for none given. A node
    that is on no switch gets one of its own, under the top.
    """
    switches = {row["SwitchName"]: row for row in _switches(shown) if _wanted(row, gpus)}
    lines = []
    for name, row in switches.items():
        speed = f" LinkSpeed={row['LinkSpeed']}" if row.get("LinkSpeed", "1") not in ("0", "1", "") else ""
        below = [child for child in expand(row["Switches"]) if child in switches] if row.get("Switches") else []
        what = f"Switches={compress(below)}" if below else f"Nodes={compress(_wanted(row, gpus))}"
        lines.append(f"SwitchName={name} {what}{speed}")
    missing = set(gpus) - {node for row in switches.values() for node in _wanted(row, gpus)}
    tops = set(switches) - {
        child for row in switches.values() if row.get("Switches") for child in expand(row["Switches"])
    }
    if switches and (missing or len(tops) > 1):
        alone = [f"weft-{node}" for node in sorted(missing)]
        lines += [f"SwitchName=weft-{node} Nodes={node}" for node in sorted(missing)]
        lines.append(f"SwitchName=weft-top Switches={','.join([*sorted(tops), *alone])}")
    return "".join(f"{line}\n" for line in lines)


def _wanted(row: Mapping[str, str], gpus: Mapping[str, int]) -> list[str]:
    return [node for node in expand(row["Nodes"]) if node in gpus] if row.get("Nodes") else []


def _machine(nodes: Sequence[Node]) -> Machine:
    """Machines with the GPU type that Slurm names, if the zoo knows it."""
    for node in nodes:
        if node.gpu:
            try:
                gpu = find_gpu(node.gpu)
            except InputError:
                continue
            return Machine(gpus_per_server=node.gpus, nic_gbps=100.0, gpu=gpu.name, gpu_memory_gb=gpu.memory_gb)
    return Machine(gpus_per_server=nodes[0].gpus, nic_gbps=100.0)
