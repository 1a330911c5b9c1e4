import json
from pathlib import Path

import pytest

from weft.cli.main import run
from weft_evidence.measured import nccl

PLAIN = {"gpus_per_server": 4, "gpu": "A100", "intra_server_gbps": 2400, "nics_per_server": 4, "nic_gbps": 200}


@pytest.mark.parametrize("servers", [2, 3])
def test_a_ring_has_the_bandwidth_of_its_nics(servers: int) -> None:
    """4 NICs of 25 GB/s carry a ring each: 100 GB/s, whatever the number of servers. Inside one, the GPU's port."""
    run_ = {"servers": servers, "collective": "ring", "machine": PLAIN}
    assert nccl.bus_gb_s(run_, 1 << 30) == pytest.approx(100.0)
    assert nccl.bus_gb_s({**run_, "servers": 1}, 1 << 30) == pytest.approx(300.0)


def test_two_servers_of_a_tree_send_the_message_once() -> None:
    """A ring over two servers of 4 sends 2 x 7/8 of the message, a tree sends it once: the smaller is taken."""
    assert nccl.bus_gb_s({"servers": 2, "machine": PLAIN}, 1 << 30) == pytest.approx(100.0 * 2 * 7 / 8)


def test_every_run_is_sourced_and_none_is_fitted() -> None:
    rows = list(nccl.rows(None, print))
    assert len(rows) == 37
    assert not any(row.fitted for row in rows)
    assert len({row.id for row in rows}) == len(rows)
    assert nccl.SOURCE
    assert all(run_["source"] for where, text in nccl._texts(None) for run_ in nccl._runs(where, text))


def test_the_command_takes_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "nccl", "--data", str(tmp_path)]) == 2
    (tmp_path / "mine.toml").write_text(
        '[[run]]\nid = "mine"\nsource = "here"\nservers = 2\ncollective = "ring"\nrows = [[1073741824, 80]]\n'
        'machine = { gpus_per_server = 4, gpu = "A100", nics_per_server = 4, nic_gbps = 200 }\n'
    )
    capsys.readouterr()
    assert run(["validate", "nccl", "--data", str(tmp_path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["id"], row["measured"]) == ("mine.1024MiB", 80)
    assert row["predicted"] == pytest.approx(100.0)


@pytest.mark.parametrize("text", ["", "[[run]]\nid = 1\n", "run = [", '[[run]]\nid = "a"\nmachine = { speed = 1 }\n'])
def test_what_are_no_runs_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.toml").write_text(text)
    assert run(["validate", "nccl", "--data", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
