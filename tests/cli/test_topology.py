"""`weft topology`: what it draws and what it says."""

import json
from pathlib import Path

import pytest

from weft.cli.main import run

WORKLOAD = '[workload]\nsource = "batch"\njobs = 1\niterations = [1, 1]\n'
Capture = pytest.CaptureFixture[str]


def draw(tmp_path: Path, cluster: str, *options: str) -> int:
    path = tmp_path / "c.toml"
    path.write_text(f"[cluster]\n{cluster}\n{WORKLOAD}")
    return run(["topology", str(path), *options])


def test_drawn_and_as_a_picture(tmp_path: Path, capsys: Capture) -> None:
    """4 servers of 10 Gbit/s under a leaf with 20 Gbit/s upwards: 2:1."""
    cluster = 'topology = "leaf-spine"\nracks = 2\nservers_per_rack = 4\ngpus_per_server = 2\noversubscription = 2.0'
    picture = tmp_path / "picture.svg"
    assert draw(tmp_path, cluster, "--svg", str(picture)) == 0
    out, err = capsys.readouterr()
    assert "leaf: 4 cables of 10 Gbit/s, 40 up in all, 2:1 oversubscribed" in out
    assert err == f"wrote {picture}\n"
    assert "<svg" in picture.read_text()


@pytest.mark.parametrize("turned", [False, True])
def test_groups_have_speeds_of_their_own(tmp_path: Path, capsys: Capture, turned: bool) -> None:
    groups = ['{ preset = "dgx-h100", count = 1 }', '{ gpu = "A100", count = 1 }']
    cluster = f'topology = "single-switch"\ngroup = [{", ".join(groups[::-1] if turned else groups)}]'
    assert draw(tmp_path, cluster) == 0
    assert "3600 Gbit/s to no limit inside a server" in " ".join(capsys.readouterr().out.split())
    assert draw(tmp_path, cluster, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    inside = [server["intra_server_gbps"] for rack in shown["racks"] for server in rack["servers"]]
    assert (shown["intra_server_gbps"], inside[::-1] if turned else inside) == (3600, [3600, None])


def test_json(tmp_path: Path, capsys: Capture) -> None:
    cluster = 'topology = "leaf-spine"\nracks = 3\nservers_per_rack = 2\noversubscription = 4.0'
    assert draw(tmp_path, cluster, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["gpus"], shown["servers"], len(shown["racks"])) == (6, 6, 3)
    assert [tier["oversubscription"] for tier in shown["tiers"]] == [None, 4.0]
    assert shown["intra_server_gbps"] is None


@pytest.mark.parametrize(
    "cluster",
    [
        'topology = "single-switch"\nservers = 20\ngpus_per_server = 16',
        'topology = "three-tier"\nracks = 100\nservers_per_rack = 10\nracks_per_edge = 10\nuplink_gbps = [20, 40]',
        'topology = "fat-tree"\nk = 8',
        'topology = "cassini"',
        'topology = "links"\nlinks = [{a = "[x]", b = "[/y]", gbps = 1}, {a = "z", b = "[/y]", gbps = 2}]',
    ],
)
def test_every_kind_is_drawn(cluster: str, tmp_path: Path, capsys: Capture) -> None:
    assert draw(tmp_path, cluster) == 0
    out, err = capsys.readouterr()
    assert "up in all" in out
    assert max(len(line) for line in out.splitlines()) <= 120
    assert err == ""


def test_a_cluster_from_a_file(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "nodes.csv").write_text("node,rack\nn1,r1\nn2,r1\nn3,r2\nn4,r2\n")
    cluster = 'topology = "file"\nfile = "nodes.csv"\ngpus_per_server = 8\noversubscription = 2.0'
    assert draw(tmp_path, cluster, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["gpus"] == 32
    assert [server["name"] for server in shown["racks"][1]["servers"]] == ["n3", "n4"]
    assert draw(tmp_path, cluster + "\nracks = 2") == 2
    assert "cluster.racks has no meaning beside a file; leave it out" in capsys.readouterr().err


def test_parallel_cables_are_one_of_their_speed_together(tmp_path: Path, capsys: Capture) -> None:
    cables = ", ".join(f'{{a = "{s}", b = "x", gbps = 400}}' for s in ("n0", "n1") for _ in range(8))
    cluster = f'topology = "links"\nservers = ["n0", "n1"]\nlinks = [{cables}]'
    assert draw(tmp_path, cluster) == 0
    out, err = capsys.readouterr()
    assert "nic: 2 cables of 3200 Gbit/s, 6400 up in all" in out
    assert err.startswith("note: parallel cables")
    assert draw(tmp_path, cluster, "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 1
