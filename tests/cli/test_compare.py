"""`weft compare` on the command line: settings, sweeps, and the question before hours of runs."""

import json
from pathlib import Path

import pytest

from weft.cli import common
from weft.cli.main import run

Capture = pytest.CaptureFixture[str]
DEMO = str(Path(__file__).resolve().parents[2] / "examples" / "demo.toml")
SMALL = ["--set", "workload.jobs=12", "--seeds", "2", "--workers", "1"]


def test_a_sweep_compares_at_every_value(tmp_path: Path, capsys: Capture) -> None:
    report = tmp_path / "r.html"
    args = ["compare", DEMO, "--stack", "fifo", "--stack", "srsf/delay", *SMALL, "--set", "nic_gbps=50,5"]
    assert run([*args, "--json", "--report", str(report)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [point["set"] for point in found["sweep"]] == [
        {"workload.jobs": 12, "cluster.nic_gbps": value} for value in (50, 5)
    ]
    wide, narrow = (point["stacks"][0]["metrics"]["comm_mean_s"]["mean"] for point in found["sweep"])
    assert wide < narrow  # slower NICs, more waiting for the network
    assert "cluster.nic_gbps=5" in report.read_text()
    assert run(["compare", DEMO, "--stack", "fifo", *SMALL, "--set", "nic_gbps=5", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["stacks"][0]["metrics"] == found["sweep"][1]["stacks"][0]["metrics"]
    assert run(args) == 0
    assert "mean JCT over that of fifo at the same setting" in capsys.readouterr().out


def test_one_run_takes_one_value(capsys: Capture) -> None:
    assert run(["simulate", DEMO, "--set", "workload.jobs=8", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 8
    assert run(["simulate", DEMO, "--set", "workload.jobs=8,9"]) == 2
    assert capsys.readouterr().err == "error: simulate: --set takes one value here; weft compare takes several\n"


def test_hours_are_asked_about(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """The estimate comes from runs that were made: with an hour of 10 ms, these take hours."""
    args = ["compare", DEMO, "--all", "--order", "fifo,srsf,sjf,las,fifo:backfill", "--interleave", "none", "--pace",
            "fair,tcp:ideal", "--place", "first-fit,best-fit,ls", *SMALL, "--json"]  # fmt: skip
    assert run(args) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)["combinations"]) == 30
    assert "this will take about" in err
    monkeypatch.setattr(common, "LONG_S", 0.01)
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "this would take about" in err
    assert "add --yes to run it" in err
    assert run([*args, "--yes"]) == 0
    assert "would take" not in capsys.readouterr().err


def test_a_recorded_workload_has_windows(tmp_path: Path, capsys: Capture) -> None:
    rows = "".join(f"{i},{i * 1800},{1 + i % 4},{600 + 97 * (i % 7)},resnet50\n" for i in range(480))
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s,model\n" + rows)
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 2\ngpus_per_server = 4\n'
        '[workload]\nsource = "trace"\ntrace = "t.csv"\n'
    )
    assert run(["compare", str(scenario), "--stack", "fifo", "--stack", "srsf", "--seeds", "2", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "intervals over 10 windows of 24.0 h; the 2 seeds gave the same result" in " ".join(out.split())
    chosen = ["--order", "fifo,srsf", "--place", "best-fit", "--pace", "fair", "--interleave", "none"]
    assert run(["compare", str(scenario), "--all", *chosen, "--seeds", "1", "--workers", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["intervals"]["windows"] == 10
    assert found["combinations"][1]["ratio_to_best"]["ci95"][0] is not None
