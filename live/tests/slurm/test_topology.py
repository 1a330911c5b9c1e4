import re
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving
from testkit.engines import missing_engine
from testkit.sandbox import Sandbox, missing, release
from weft.errors import InputError
from weft.model.reason import because
from weft.network.topologies import Machine, leaf_spine
from weft.network.topologies.files import parse_slurm_topology, read_topology
from weft_live.slurm.commands import Slurm
from weft_live.slurm.engine import SlurmEngine
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
    newer.topology = lambda name="": NEWER_TREE  # type: ignore[method-assign]
    cluster = read_cluster(newer, frozenset(), Machine(nic_gbps=25.0), say=noted.append)
    assert noted == ["note: Slurm gives no link speeds; weft assumes 25 Gbit/s to each node"]
    assert {link.bytes_per_s for link in cluster.topology.links if link.tier == "nic"} == {25e9 / 8}


class OtherTopology(Sandbox):
    """Four nodes with another topology: a topology.yaml, or a plugin with its topology.conf."""

    def __init__(self, folder: Path, more: str, file: str, text: str) -> None:
        self._file, self._text = file, text
        super().__init__(folder, 4, prolog=False, more=more)

    def _write(self) -> None:
        super()._write()
        (self.conf.parent / self._file).write_text(self._text)


PLUGINS = [
    ("none", "", 0, 23, 1),
    ("default", "", 24, 25, 1),
    ("flat", "", 25, 99, 1),
    ("block", "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n", 24, 99, "TopologyPlugin is"),
    ("tree", "SwitchName=s1 Nodes=n[1-2]\n", 0, 99, 3),  # nodes on no switch have one each
]


@pytest.mark.engine
@pytest.mark.parametrize(("plugin", "conf", "since", "until", "becomes"), PLUGINS, ids=[row[0] for row in PLUGINS])
def test_a_slurm_that_runs_with_another_plugin(
    plugin: str, conf: str, since: int, until: int, becomes: int | str, tmp_path: Path
) -> None:
    if why := missing():
        missing_engine(f"Slurm ({why})")
    if not since <= release()[0] < until:
        pytest.skip(f"this Slurm has no topology/{plugin}")
    with OtherTopology(tmp_path / "slurm", f"TopologyPlugin=topology/{plugin}\n", "topology.conf", conf) as box:
        assert what_becomes(box) == becomes


SEVERAL = """\
- {topology: top, cluster_default: true, tree: {switches: [
    {switch: spine, children: "s[1-2]"}, {switch: s1, nodes: "n[1-2]"}, {switch: s2, nodes: "n[3-4]"}]}}
- {topology: low, cluster_default: false, tree: {switches: [{switch: s, nodes: "n[1-4]"}]}}
- {topology: even, cluster_default: false, flat: true}
- {topology: blocks, cluster_default: false, block: {block_sizes: [2], blocks: [
    {block: b1, nodes: "n[1-2]"}, {block: b2, nodes: "n[3-4]"}]}}
- {topology: rings, cluster_default: false, ring: {rings: [{ring: r1, nodes: "n[1-4]"}]}}
- {topology: torus, cluster_default: false, torus3d: {toruses: [{name: t1, dims: {x: 2, y: 2, z: 1}, nodes: "n[1-4]"}]}}
"""


@pytest.mark.engine
def test_a_slurm_that_runs_with_a_topology_for_each_partition(tmp_path: Path) -> None:
    """Trees are read, and no switches at all; what has rules of its own is refused, with a [cluster] too."""
    if why := missing():
        missing_engine(f"Slurm ({why})")
    if release() < (26, 5):
        pytest.skip("this Slurm has one topology for all partitions, or no rings and tori")
    names = ("top", "low", "even", "blocks", "rings", "torus")
    more = "".join(f"PartitionName=p-{name} Nodes=n[1-4] Topology={name}\n" for name in names)
    with OtherTopology(tmp_path / "slurm", more, "topology.yaml", SEVERAL) as box:
        assert {name: what_becomes(box, f"p-{name}") for name in names} == {
            "top": 2, "low": 1, "even": 1, "blocks": "says BlockName=", "rings": "says RingName=",
            "torus": "says TorusName=",
        }  # fmt: skip
        assert what_becomes(box, "train") == 2
        assert what_becomes(box, "train", "p-low") == what_becomes(box) == "have different topologies"


def what_becomes(box: Sandbox, *partitions: str) -> int | str:
    """The racks of the cluster that weft reads, or how it refuses it, whether the cluster is read or given."""
    words = r"TopologyPlugin is|says \w+=|have different topologies"
    gpus = dict.fromkeys(box.names, 8)
    given = parse_slurm_topology(topology_conf(NEWER_TREE, gpus), gpus=gpus)
    engine = SlurmEngine(box.slurm, frozenset(partitions))
    try:
        engine.refuse(given, box.folder / "run")
    except InputError as refused:
        with pytest.raises(InputError) as again:
            read_cluster(box.slurm, engine.partitions)
        found = [re.findall(words, str(error)) for error in (refused, again.value)]
        assert found[0] == found[1]
        return str(found[0][0])
    return read_cluster(box.slurm, engine.partitions).n_racks


@pytest.mark.engine
def test_a_slurm_that_does_not_answer_is_told_in_one_line(box: Sandbox) -> None:
    box.pause("slurmctld")
    try:
        with pytest.raises(InputError, match=r"Slurm does not answer \(sinfo: no answer within 1 s\); is slurmctld up"):
            read_cluster(Slurm(str(box.conf), limit_s=1.0), frozenset())
    finally:
        box.pause("slurmctld", False)
