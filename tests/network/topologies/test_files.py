from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.network.topologies import Machine, tier_summary
from weft.network.topologies.files import parse_rack_csv, parse_slurm_topology, read_topology
from weft.network.topologies.hostlist import compress

FAST = settings(max_examples=examples(100), deadline=None)

TREE = """\
# two racks of four, one of two
SwitchName=leaf1 Nodes=n[1-4] LinkSpeed=100
switchname=leaf2 NODES=n[5,6-8]   # keys in any case
SwitchName=leaf3 \\
    Nodes="n[09-10]"

SwitchName=spine Switches=leaf[1-3] LinkSpeed=200
"""


def names(cluster: Cluster, route: tuple[int, ...]) -> list[str]:
    return [cluster.topology.links[i].name for i in route]


def test_slurm_tree() -> None:
    cluster = parse_slurm_topology(TREE, machine=Machine(8, nic_gbps=50))
    assert [s.name for s in cluster.servers] == ["n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n09", "n10"]
    assert [s.rack for s in cluster.servers] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert cluster.servers[0].domains == ("leaf1", "spine")
    assert cluster.n_gpus == 80
    speeds = {link.name: link.bytes_per_s * 8 / 1e9 for link in cluster.topology.links}
    assert speeds["n1->leaf1"] == 100  # LinkSpeed of its line
    assert speeds["n5->leaf2"] == 50  # the machine's NIC
    assert speeds["leaf1->spine"] == speeds["spine->leaf2"] == 200
    assert names(cluster, cluster.topology.route(0, 9)) == ["n1->leaf1", "leaf1->spine", "spine->leaf3", "leaf3->n10"]
    assert tier_summary(cluster)[1].oversubscription == 2.0  # 4 x 100 over 200


def test_slurm_uplinks_without_speed_follow_the_oversubscription() -> None:
    text = "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\nSwitchName=top Switches=a,b\n"
    cluster = parse_slurm_topology(text, machine=Machine(nic_gbps=10), oversubscription=4.0)
    assert [t.up_bytes_per_s * 8 / 1e9 for t in tier_summary(cluster)] == [80, 20]
    assert tier_summary(cluster)[1].oversubscription == 4.0


def test_slurm_nested_tree_has_a_tier_per_level() -> None:
    text = """SwitchName=core Switches=s[0-1]
SwitchName=s0 Switches=l[0-1]
SwitchName=s1 Switches=l2
SwitchName=l0 Nodes=a[0-1]
SwitchName=l1 Nodes=b[0-1]
SwitchName=l2 Nodes=c0
"""
    cluster = parse_slurm_topology(text)
    assert [t.tier for t in tier_summary(cluster)] == ["nic", "leaf", "spine"]
    assert cluster.servers[0].domains == ("l0", "s0", "core")
    assert len(cluster.topology.route(0, 4)) == 6
    assert len(cluster.topology.route(0, 2)) == 4


def test_slurm_switch_with_two_parents_has_two_paths() -> None:
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=x Switches=a,b\nSwitchName=y Switches=a,b\n"
    cluster = parse_slurm_topology(text, machine=Machine(nic_gbps=10))
    assert len({cluster.topology.route(0, 1, f) for f in range(50)}) == 2
    assert tier_summary(cluster)[1].oversubscription == 1.0  # both uplinks together


def test_slurm_blocks_become_racks() -> None:
    text = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2,4\n"
    cluster = parse_slurm_topology(text, machine=Machine(4), gpus={"n3": 2}, spines=1)
    assert [s.rack for s in cluster.servers] == [0, 0, 1, 1]
    assert [len(s.gpus) for s in cluster.servers] == [4, 4, 2, 4]
    assert cluster.servers[0].domains[0] == "b1"
    assert len(cluster.topology.links) == 8 + 4


BAD_CONF = [
    ("", "no SwitchName or BlockName"),
    ("SwitchName=a", "line 1: switch a needs either Nodes or Switches"),
    ("SwitchName=a Nodes=n1 Switches=b", "exactly one of them"),
    ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2", "line 2: 'a' is there already on line 1"),
    ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "line 2: 'n1' is there already on line 1"),
    ("SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=a", "'a' is there already"),
    ("SwitchName=a Nodes=n[1-", "line 1: hostlist"),
    ("SwitchName=a[1-2] Nodes=n1", "name one per line"),
    ("SwitchName=a Switches=b", "switch 'b' has no line of its own"),
    ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "above itself"),
    ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2", "line 2: no path joins a (line 1) and b"),
    ("SwitchName=a Nodes=n1\nSwitchName=t Switches=a,a", "lists a child twice"),
    ("SwitchName=a Nodes=n1 LinkSpeed=fast", "line 1: LinkSpeed is 'fast'"),
    ("SwitchName=a Nodes=n1 Colour=red", "'Colour' is unknown"),
    ("SwitchName=a Nodes=n1 Nodes=n2", "Nodes is there twice"),
    ("SwitchName=a Nodes", "'Nodes' is not Name=value"),
    ("Include other.conf", "is not Name=value"),
    ("Nodes=n1", "neither SwitchName"),
    ("BlockName=b Nodes=n1 LinkSpeed=3", "block b needs Nodes and nothing else"),
    ("BlockName=b Nodes=n1\nBlockSizes=two", "BlockSizes has 'two'"),
    ("BlockName=b Nodes=n1\nSwitchName=a Nodes=n2", "switches and blocks in one file"),
    ("\n\n# x\nSwitchName=a Nodes=n1 \\\n  What=1", "line 4: 'What' is unknown"),
]


def test_rack_csv() -> None:
    text = "node,rack,gpus,nic_gbps\n# a comment\na,r1,4,100\nb,r2,,\n\nc,r1,8,50\n"
    cluster = parse_rack_csv(text, machine=Machine(2, nic_gbps=25), oversubscription=2.0, spines=1)
    assert [(s.name, s.rack, len(s.gpus)) for s in cluster.servers] == [("a", 0, 4), ("c", 0, 8), ("b", 1, 2)]
    speeds = {link.name: link.bytes_per_s * 8 / 1e9 for link in cluster.topology.links}
    assert speeds["a->rack r1"] == 100
    assert speeds["b->rack r2"] == 25
    assert speeds["rack r1->spine0"] == 75  # (100 + 50) / 2
    assert speeds["rack r2->spine0"] == 12.5


def test_rack_csv_needs_only_two_columns_in_any_order() -> None:
    cluster = parse_rack_csv("Rack , Node\n1,1\n1,2\n2,3\n", machine=Machine(4))
    assert [s.rack for s in cluster.servers] == [0, 0, 1]
    assert cluster.n_gpus == 12


BAD_CSV = [
    ("", "lists no nodes"),
    ("node,rack\n", "lists no nodes"),
    ("node\na\n", "line 1: column 'rack' is missing"),
    ("node,rack,colour\n", "column 'colour' is unknown"),
    ("node,rack,rack\n", "column 'rack' is unknown or there twice"),
    ("node,rack\na\n", "line 2: it has 1 cells; give 2"),
    ("node,rack\na,\n", "line 2: node or rack is empty"),
    ("node,rack\na,1\na,2\n", "line 3: node 'a' is there already on line 2"),
    ("node,rack\na b,1\n", "has blanks"),
    ("node,rack,gpus\na,1,0\n", "gpus is '0'"),
    ("node,rack,gpus\na,1,many\n", "gpus is 'many'"),
    ("node,rack,gpus\na,1,4.5\n", "gpus is '4.5'"),
    ("node,rack,nic_gbps\na,1,-1\n", "nic_gbps is '-1'"),
    ("node,rack,nic_gbps\na,1,nan\n", "nic_gbps is 'nan'"),
    ("node,rack,nic_gbps\na,1,1e400\n", "nic_gbps is '1e400'"),
]


@pytest.mark.parametrize(
    ("parse", "name", "text", "message"),
    [(parse_slurm_topology, "my.conf", *bad) for bad in BAD_CONF]
    + [(parse_rack_csv, "my.csv", *bad) for bad in BAD_CSV],
)
def test_malformed_files_are_refused_with_file_and_line(
    parse: Callable[[str, str], Cluster], name: str, text: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        parse(text, name)
    assert message in str(caught.value)
    assert str(caught.value).startswith(name)
    assert "\n" not in str(caught.value)


def test_files_are_read_by_suffix(tmp_path: Path) -> None:
    conf, table = tmp_path / "topology.conf", tmp_path / "racks.csv"
    conf.write_text("\ufeff" + TREE, encoding="utf-8")
    table.write_text("node,rack\r\na,1\r\nb,2\r\n", encoding="utf-8")
    assert len(read_topology(conf).servers) == len(read_topology(str(conf)).servers) == 10
    assert len(read_topology(table).servers) == 2
    with pytest.raises(InputError, match="cannot be told from its name"):
        read_topology(tmp_path / "racks.txt")


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.conf: it cannot be read \(No such file"):
        read_topology(tmp_path / "none.conf")
    (tmp_path / "folder.conf").mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        read_topology(tmp_path / "folder.conf")
    bad = tmp_path / "bad.csv"
    bad.write_bytes(b"node,rack\n\xff\xfe,1\n")
    with pytest.raises(InputError, match="byte 10 is not UTF-8"):
        read_topology(bad)


@FAST
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.none() | st.integers(1, 800), st.floats(0.5, 8))
def test_slurm_tree_round_trip(sizes: list[int], speed: int | None, ratio: float) -> None:
    """What is written as a leaf-spine comes back with its racks, and every uplink keeps the ratio or the speed."""
    first, lines = 0, []
    for rack, size in enumerate(sizes):
        lines.append(f"SwitchName=leaf{rack} Nodes={compress(f'n{i:03d}' for i in range(first, first + size))}")
        first += size
    over = "" if speed is None else f" LinkSpeed={speed}"
    lines.append(f"SwitchName=top Switches={compress(f'leaf{r}' for r in range(len(sizes)))}{over}")
    cluster = parse_slurm_topology("\n".join(lines), machine=Machine(nic_gbps=10), oversubscription=ratio)
    assert [s.rack for s in cluster.servers] == [r for r, size in enumerate(sizes) for _ in range(size)]
    for rack, size in enumerate(sizes):
        (up,) = (link for link in cluster.topology.links if link.src == f"leaf{rack}" and link.dst == "top")
        assert up.bytes_per_s == pytest.approx((size * 10 / ratio if speed is None else speed) * 1e9 / 8)


def cluster_or_one_line(parse: Callable[[str], Cluster], text: str) -> Cluster | None:
    """Parse; a refusal must be one line, an acceptance a cluster whose tiers can be told. Any other error escapes."""
    refusal, cluster = "", None
    try:
        cluster = parse(text)
    except InputError as error:
        refusal = str(error)
    assert len(refusal.splitlines()) == (1 if cluster is None else 0)
    assert cluster is None or tier_summary(cluster)
    return cluster


FRAGMENT = st.sampled_from(
    ["SwitchName=", "Nodes=", "Switches=", "LinkSpeed=", "BlockName=", "BlockSizes=", "a", "b", "n[1-3]", "n[4-", "]",
     ",", " ", "\n", "\\\n", "#", '"', "=", "1", "-", "400", "\t", "\x00", "é"]
)  # fmt: skip


@FAST
@given(st.lists(FRAGMENT, max_size=25).map("".join) | st.text(max_size=40))
def test_any_topology_conf_gives_a_cluster_or_one_line(text: str) -> None:
    cluster = cluster_or_one_line(parse_slurm_topology, text)
    if cluster is not None:
        last = len(cluster.servers) - 1
        assert len(cluster.topology.route(0, last)) >= (2 if last else 0)


CELL = st.sampled_from(["node", "rack", "gpus", "nic_gbps", "a", "b", "1", "0", "-1", "x y", '"', "", "1e9", "é", "#"])


@FAST
@given(st.lists(st.lists(CELL, max_size=5).map(",".join), max_size=6).map("\n".join) | st.text(max_size=40))
def test_any_csv_gives_a_cluster_or_one_line(text: str) -> None:
    for content in (text, "node,rack,gpus\n" + text):
        cluster_or_one_line(parse_rack_csv, content)
