"""`weft compare --all`: what may run does, what may not is said; the same jobs for everybody; ranked and drawn."""

import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.cli.main import run
from weft.errors import InputError, StackError
from weft.policies.pace.flow import FlowRule
from weft.runs.cross import admissible, cross
from weft.scenario import Scenario

TINY: dict[str, Any] = {
    "cluster": {"topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 2, "nic_gbps": 10.0},
    "workload": {
        "source": "poisson", "jobs": 4, "load": 0.9, "gpus": {"2": 1, "4": 1}, "iterations": [2, 5],
        "models": ["resnet50", "vgg16[parallel=parameter-server]"],
    },
    "stack": {"order": "srsf", "place": "first-fit"},
}  # fmt: skip


def test_ranked_with_reasons() -> None:
    plans: list[tuple[int, int, int]] = []
    found = cross(
        TINY, [3, 4], order=["fifo,srsf"], place=["first-fit", "lwf"], interleave=["none,cassini"],
        pace=["fair,adadual,flow"], workers=1, on_plan=lambda *n: plans.append(n),
    )  # fmt: skip
    ranked = found.to_dict()
    # of 2 x 2 x 2 x 3: cassini with lwf (6, 2 of them with adadual) and with adadual on first-fit (2)
    assert plans == [(16, 8, 32)]
    assert sum(group["count"] for group in ranked["skipped"]) == 8
    assert [group["count"] for group in ranked["skipped"]] == [4, 4]
    assert any("GPU has one job" in group["reason"] for group in ranked["skipped"])
    entries = ranked["combinations"]
    assert [e["rank"] for e in entries] == list(range(1, 17))
    means = [e["metrics"]["jct_mean_s"]["mean"] for e in entries]
    assert means == sorted(means)
    assert ranked["reference"] == "srsf/first-fit/none/fair"  # the scenario's own
    assert entries[0]["ratio_to_best"] == {"mean": 1.0, "ci95": [1.0, 1.0]}
    alone = weft.simulate(TINY, order="fifo", place="first-fit", pace="flow", seed=4)
    mine = next(e for e in entries if e["stack"] == "fifo/first-fit/none/flow")
    both = [
        weft.simulate(TINY, order="fifo", place="first-fit", pace="flow", seed=s).jobs["jct_s"].mean() for s in (3, 4)
    ]
    assert mine["metrics"]["jct_mean_s"]["mean"] == pytest.approx(sum(both) / 2)  # type: ignore[arg-type]
    assert alone.jobs.height == 4
    assert {row["policy"] for row in ranked["layers"]["pace"]} == {"fair", "adadual", "flow"}
    assert "notes" not in ranked  # one engine for all of them: nothing to be told about two models of a job


def test_what_the_scenario_does_not_allow() -> None:
    """k-way sharing: no rates, no shifts. A joint planner stands beside; a bound does not."""
    given = Scenario.load({**TINY, "network": {"sharing": "k-way"}})
    chosen = {"order": ["fifo"], "place": ["first-fit"], "planners": ["themis", "ideal"], "pace": ["fair", "flow"]}
    fits, skipped = admissible(given, chosen, 1)
    assert [one.name for one in fits] == ["fifo/first-fit/none/fair", "themis/none/fair"]
    reasons = " ".join(left.reason for left in skipped)
    assert "traffic on links" in reasons
    assert 'network.sharing "k-way"' in reasons
    assert "a bound" in reasons
    with pytest.raises(StackError, match="no combination can run here"):
        cross(given, 1, order=["fifo"], place=["first-fit"], interleave=["none"], pace=["flow"])


def test_too_much_is_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"compare --all: \d+ combinations and 5 seeds are \d+ runs, more than 100;"):
        cross(TINY, most_runs=100)
    with pytest.raises(InputError, match="there is no metric speed"):
        cross(TINY, by="speed")


def test_a_run_that_fails_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowRule, "begin", out_of_order)
    found = cross(TINY, 1, order=["fifo"], place=["first-fit"], interleave=["none"], pace=["fair,flow"], workers=1)
    assert [one.pace for one in found.summaries] == ["fair"]
    assert found.skipped[0].reason == "flow is out of order"


def out_of_order(*_: object, **__: object) -> None:
    raise StackError("flow is out of order")


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, report = tmp_path / "tiny.toml", tmp_path / "report.html"
    file.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 3\ngpus_per_server = 1\n[workload]\nsource = "batch"\n'
        'jobs = 2\nmodels = ["resnet50"]\ngpus = {2 = 1}\niterations = [2, 2]\n'
    )
    args = ["compare", str(file), "--all", "--seeds", "1", "--workers", "1", "--interleave", "none", "--place", "rand"]
    assert run([*args, "--order", "fifo,sjf", "--pace", "fair", "--json", "--report", str(report)]) == 0
    out, err = capsys.readouterr()
    assert "2 combinations, 2 runs; 0 combinations are left out" in err
    assert len(json.loads(out)["combinations"]) == 2
    page = report.read_text(encoding="utf-8")
    assert "<svg" in page
    assert "fifo/rand" in page
    assert run([*args, "--order", "fifo", "--pace", "fair", "--stack", "fifo"]) == 2
    assert "use one of them" in capsys.readouterr().err
    assert run(["compare", str(file), "--stack", "fifo", "--order", "fifo", "--order", "sjf"]) == 2
    assert "--order is given 2 times" in capsys.readouterr().err
    assert run(["compare", str(file), "--stack", "fifo", "--by", "makespan_s"]) == 2
    assert "belong to --all" in capsys.readouterr().err
