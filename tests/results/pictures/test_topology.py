import re
from io import StringIO
from xml.etree import ElementTree

import pytest
from rich.console import Console

from weft.model.cluster import Cluster
from weft.network.topologies import (
    Cable,
    Machine,
    build_cluster,
    cassini,
    fat_tree,
    from_cables,
    leaf_spine,
    single_switch,
    three_tier,
    tier_summary,
)
from weft.network.topologies.files import parse_rack_csv
from weft.results.pictures.topology import draw_topology, tier_sentence, topology_svg

CLUSTERS = {
    "single-switch": single_switch(5, Machine(16)),
    "leaf-spine": leaf_spine(6, 4, Machine(4, intra_server_gbps=300), oversubscription=2.0),
    "three-tier": three_tier(100, 10, Machine(8), racks_per_edge=10, uplink_gbps=(20, 40)),
    "fat-tree": fat_tree(8),
    "cassini": cassini(),
    "ring of switches": from_cables(
        [Cable("a", "x", 10), Cable("b", "y", 10), Cable("c", "z", 10), Cable("x", "y", 40), Cable("y", "z", 40)]
    ),
    "no switch": from_cables([Cable("a", "b", 10)]),
    "wide racks": leaf_spine(2, 40, Machine(2)),
    "odd names": parse_rack_csv("node,rack\n" + "\n".join(f'"a,{i}",{i}' for i in range(20))),
    "mixed racks": parse_rack_csv("node,rack,gpus\n" + "\n".join(f"n{i},{i // 2},{i % 5 + 1}" for i in range(90))),
}


def drawn(cluster: Cluster, width: int = 100) -> str:
    console = Console(width=width, file=StringIO(), record=True)
    console.print(draw_topology(cluster))
    return console.export_text()


def test_the_drawing_tells_racks_links_and_oversubscription() -> None:
    text = drawn(CLUSTERS["leaf-spine"])
    assert "leaf-spine: 6 racks, 24 servers, 96 V100 GPUs of 16 GB, 300 Gbit/s inside a server" in text
    assert "leaf: 12 cables of 10 Gbit/s, 120 up in all, 2:1 oversubscribed" in text
    assert "nic: 24 cables of 10 Gbit/s, 240 up in all" in text
    assert re.search(r"rack 0\b.*rack 5\b", text)
    assert text.count("■") == 96
    order = [text.index(word) for word in ("spine0  spine1", "leaf: 12", "6 x leaf", "nic: 24", "24 servers of 4 GPUs")]
    assert order == sorted(order)  # from the top down


def test_a_large_cluster_is_summarised() -> None:
    text = drawn(CLUSTERS["three-tier"])
    assert "edge: 10 cables of 40 Gbit/s, 400 up in all, 5:1 oversubscribed" in text
    assert re.search(r"0 to 99\s+10\s+80 \(10 x 8\)\s+s\[0-999\]", text)
    assert len(text.splitlines()) < 20


def test_racks_of_different_shapes_get_rows_of_their_own_up_to_a_limit() -> None:
    text = drawn(CLUSTERS["mixed racks"])
    assert "3 (1 to 2 per server)" in text
    assert "racks more" in text


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("width", [80, 120])
def test_drawings_stay_readable(name: str, width: int) -> None:
    lines = drawn(CLUSTERS[name], width).splitlines()
    assert 4 <= len(lines) <= 60
    assert max(len(line) for line in lines) <= width


@pytest.mark.parametrize("racks", [2, 16, 17, 100])
def test_two_to_a_hundred_racks_fit_on_a_screen(racks: int) -> None:
    assert len(drawn(leaf_spine(racks, 8, Machine(8))).splitlines()) <= 60


def test_tier_sentences() -> None:
    uneven = parse_rack_csv("node,rack,nic_gbps\na,1,10\nb,1,40\n", oversubscription=0.5, spines=1)
    assert [tier_sentence(t) for t in tier_summary(uneven)] == [
        "nic: 2 cables of 10 to 40 Gbit/s, 50 up in all",
        "leaf: 1 cable of 100 Gbit/s, 100 up in all, not oversubscribed",
    ]


@pytest.mark.parametrize("name", CLUSTERS)
def test_svg_stands_alone(name: str) -> None:
    svg = topology_svg(CLUSTERS[name])
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    refs = [value for node in root.iter() for key, value in node.attrib.items() if key.endswith("href")]
    assert all(ref.startswith("#") for ref in refs)
    words = {node.text for node in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {tier.tier for tier in tier_summary(CLUSTERS[name])} <= words


def test_svg_is_the_same_every_time_and_bounded() -> None:
    assert topology_svg(cassini()) == topology_svg(cassini())
    assert len(topology_svg(CLUSTERS["three-tier"])) < 300_000


def test_rails_domains_and_unequal_servers_are_named() -> None:
    trays = build_cluster("rails", racks=4, servers_per_rack=36, racks_per_pod=2, preset="gb200-nvl72")
    text = " ".join(drawn(trays).split())
    assert "2 pods, 4 rail groups, 8 NVLink domains, 144 servers, 576 GB200 GPUs of 186 GB, 576 NICs" in text
    assert "NVLink domain 7" in text
    mixed = [{"preset": "dgx-h100", "count": 2}, {"gpu": "A100", "gpu_memory_gb": 40, "count": 2}]
    unequal = build_cluster("leaf-spine", servers_per_rack=2, gpus_per_server=4, group=mixed)
    assert "16 H100 GPUs of 80 GB and 8 A100 GPUs of 40 GB" in " ".join(drawn(unequal).split())
    assert topology_svg(trays).count("NVLink domain") == 1 + 8  # the headline, and each
