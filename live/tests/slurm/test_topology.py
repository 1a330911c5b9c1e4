from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving
from testkit.sandbox import Sandbox
from weft.errors import InputError
from weft.model.reason import because
from weft.network.topologies import Machine, leaf_spine
from weft.network.topologies.files import parse_slurm_topology, read_topology
from weft_live.slurm.commands import Slurm
from weft_live.slurm.records import Node, Record
from weft_live.slurm.topology import gpu_nodes, read_cluster, refuse_cluster, refuse_plugin, topology_conf, unusable

SHOWN = """\
SwitchName=leaf1 Level=0 LinkSpeed=400 Nodes=n[1-4]
SwitchName=leaf2 Level=0 LinkSpeed=400 Nodes=n[5-8],login
SwitchName=cpu Level=0 LinkSpeed=1 Nodes=c[1-9]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-8],c[1-9],login Switches=leaf[1-2],cpu
"""


def test_what_is_shown_becomes_a_file_again() -> None:
    gpus = {f"n{i}": 8 for i in range(1, 8)}
    text = topology_conf(SHOWN, gpus)
    assert text == (
        "SwitchName=leaf1 Nodes=n[1-4] LinkSpeed=400\n"
        "SwitchName=leaf2 Nodes=n[5-7] LinkSpeed=400\n"
        "SwitchName=spine Switches=leaf[1-2]\n"
    )
    cluster = parse_slurm_topology(text, gpus=gpus)
    assert (cluster.n_gpus, cluster.n_racks) == (56, 2)
    assert {link.bytes_per_s for link in cluster.topology.links if link.tier == "nic"} == {50e9}


def test_nodes_on_no_switch_and_several_trees_are_joined() -> None:
    text = topology_conf(SHOWN.partition("SwitchName=spine")[0], {"n1": 8, "n5": 8, "n9": 4})
    cluster = parse_slurm_topology(text, gpus={"n1": 8, "n5": 8, "n9": 4})
    assert [(server.name, len(server.gpus)) for server in cluster.servers] == [("n1", 8), ("n5", 8), ("n9", 4)]
    assert cluster.n_racks == 3


# As 25.05 prints them: a tree from topology.yaml without speeds, and others.
NEWER_TREE = """\
SwitchName=top Level=1 LinkSpeed=0 Nodes=n[1-4] Switches=s[1-2]
SwitchName=s1 Level=0 LinkSpeed=0 Nodes=n[1-2]
SwitchName=s2 Level=0 LinkSpeed=0 Nodes=n[3-4]
"""
OTHERS = [
    "BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2",
    "AggregatedBlock=b[1-2] BlockIndex=4 Nodes=n[1-4] BlockSize=4",
    "RingName=r1 RingIndex=0 Nodes=n[1-4]",
    "TorusName=t1 Nodes=n[1-8]",
]


def test_a_tree_of_a_newer_version_has_no_speeds_and_is_read() -> None:
    gpus = {f"n{i}": 8 for i in range(1, 5)}
    cluster = parse_slurm_topology(topology_conf(NEWER_TREE, gpus), gpus=gpus)
    assert (cluster.n_racks, cluster.n_gpus) == (2, 32)
    plain = NEWER_TREE.replace(" Level=0", "").replace(" Level=1", "").replace("Nodes=n[1-4] ", "")
    assert parse_slurm_topology(plain).n_racks == 2, "a file with LinkSpeed=0 too"


@pytest.mark.parametrize("line", OTHERS)
def test_what_is_no_tree_of_switches_is_refused(line: str) -> None:
    """Starts that break the rules of blocks wait for ever, and Slurm gives no reason."""
    with pytest.raises(InputError, match=f"says {line.partition('=')[0]}=.*weft reads switches only"):
        topology_conf(f"{NEWER_TREE}{line}\n", {"n1": 8})
    with pytest.raises(InputError, match="weft reads switches only"):
        refuse_plugin({"TopologyPlugin": "topology/tree"}, line)


@pytest.mark.parametrize("plugin", ["none", "default", "flat", "tree"])
def test_plugins_without_rules(plugin: str) -> None:
    refuse_plugin({"TopologyPlugin": f"topology/{plugin}"}, NEWER_TREE if plugin == "tree" else "")


@pytest.mark.parametrize("plugin", ["block", "torus3d", "3d_torus", "ring"])
def test_plugins_with_rules_are_refused(plugin: str) -> None:
    with pytest.raises(InputError, match=f"TopologyPlugin is topology/{plugin}, whose rules"):
        refuse_plugin({"TopologyPlugin": f"topology/{plugin}"}, "")


YAML = """\
---
- topology: blocks
  cluster_default: false
  block:
    block_sizes: [2, 4]
    blocks:
    - block: b1
      nodes: n[1-2]
- topology: tree     # the one that counts
  cluster_default: true
  tree:
    switches:
      - switch: top
        children: s[1-2]
      - switch: s1
        nodes: n[1-2]
      - switch: "s2"
        nodes: "n[3-4]"
"""


def test_a_topology_yaml_is_read_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "topology.yaml").write_text(YAML)
    cluster = read_topology(tmp_path / "topology.yaml", Machine(gpus_per_server=8))
    assert [server.name for server in cluster.servers] == ["n1", "n2", "n3", "n4"]
    assert cluster.n_racks == 2
    (tmp_path / "topology.yaml").write_text(YAML.replace("cluster_default: true", "cluster_default: false"))
    assert len(read_topology(tmp_path / "topology.yaml").servers) == 2, "the first one, where none is the default"
    for text in ("", "- a", "tree:\n  x", "- topology: t\n  tree:\n    switches:\n      - switch: s", "- tree: [" * 50):
        (tmp_path / "topology.yaml").write_text(text)
        with pytest.raises(InputError, match=r"topology\.yaml: "):
            read_topology(tmp_path / "topology.yaml")


def test_no_switches_at_all() -> None:
    assert topology_conf("", {"n1": 8}) == ""


def test_a_scenario_must_be_made_of_slurms_nodes() -> None:
    cluster = leaf_spine(1, 2, Machine(gpus_per_server=4))
    names = [server.name for server in cluster.servers]
    refuse_cluster(cluster, [Node(name, True, 4) for name in names])
    with pytest.raises(InputError, match=f"Slurm has no GPU node {names[1]}, it has {names[0]}; use its names"):
        refuse_cluster(cluster, [Node(names[0], True, 4)])
    with pytest.raises(InputError, match=f"{names[1]} has 2 GPUs in Slurm, not 4"):
        refuse_cluster(cluster, [Node(names[0], True, 4), Node(names[1], True, 2)])


def test_servers_that_nothing_can_be_placed_on() -> None:
    """One is drained, one has lost GPUs, one is unknown, and of one somebody else has GPUs; our own job keeps nobody
    out, nor does a job without GPUs."""
    cluster = leaf_spine(1, 6, Machine(gpus_per_server=4))
    names = [server.name for server in cluster.servers]
    nodes = {name: Node(name, True, 4) for name in names}
    nodes[names[0]] = Node(names[0], False, 4, words="idle drain")
    nodes[names[1]] = Node(names[1], True, 2)
    del nodes[names[2]]
    jobs = {
        "7": Record("7", "7", "RUNNING", False, False, nodes=(names[3], names[4]), gpus_held=(2, 0)),
        "8": Record("8", "8", "RUNNING", False, False, nodes=(names[5],), gpus_held=(4,)),
    }
    assert unusable(cluster, nodes, jobs, {"8"}) == {
        0: because("slurm.node-state", state="idle drain"),
        1: because("slurm.node-gpus", gpus=2),
        2: because("slurm.node-unknown"),
        3: because("slurm.stranger", jobs=("7",)),
    }


def test_commands_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(InputError, match="squeue: not found; install Slurm's client commands"):
        read_cluster(Slurm(), frozenset())


@pytest.mark.engine
def test_a_real_slurm(serving: Serving, box: Sandbox) -> None:
    cluster = serving.cluster
    assert [server.name for server in cluster.servers] == box.names
    assert (cluster.n_gpus, cluster.n_racks) == (128, 4)
    assert {(link.tier, link.bytes_per_s) for link in cluster.topology.links} == {("nic", 12.5e9), ("leaf", 25e9)}
    assert len(gpu_nodes(box.slurm, frozenset({"train"}))) == 16
    assert box.slurm.config()["JobSubmitPlugins"] == "lua"
    with pytest.raises(InputError, match="--partition nosuch: Slurm has no such partition; it has train"):
        gpu_nodes(box.slurm, frozenset({"nosuch"}))
    noted: list[str] = []
    newer = Slurm(str(box.conf))
    newer.topology = lambda: NEWER_TREE  # type: ignore[method-assign]
    cluster = read_cluster(newer, frozenset(), Machine(nic_gbps=25.0), say=noted.append)
    assert noted == ["note: Slurm gives no link speeds; 25 Gbit/s to each node is assumed (--scenario)"]
    assert {link.bytes_per_s for link in cluster.topology.links if link.tier == "nic"} == {25e9 / 8}
    newer.partitions = lambda: "PartitionName=train AllowGroups=ALL Topology=blocks State=UP\n"  # type: ignore[method-assign]
    with pytest.raises(InputError, match=r"partition train has a topology of its own \(blocks\)"):
        read_cluster(newer, frozenset())


@pytest.mark.engine
def test_a_slurm_that_does_not_answer_is_told_in_one_line(box: Sandbox) -> None:
    box.pause("slurmctld")
    try:
        with pytest.raises(InputError, match=r"Slurm does not answer \(sinfo: no answer within 1 s\); is slurmctld up"):
            read_cluster(Slurm(str(box.conf), limit_s=1.0), frozenset())
    finally:
        box.pause("slurmctld", False)
