import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import weft
from weft.cli.main import run as cli
from weft.errors import InputError, StackError

Capture = pytest.CaptureFixture[str]
SUMMARY = {
    "scenario", "stack", "seed", "jobs", "finished", "makespan_s", "jct_s", "queueing_s", "comm_s", "iteration_s",
    "gpu_utilisation", "foreign_gbps", "preemptions", "iterations", "events", "exact", "wall_s",
}  # fmt: skip


def scenario(**run: Any) -> dict[str, Any]:
    return {
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 4, "nic_gbps": 10,
            "oversubscription": 2.0, "intra_server_gbps": 300,
        },
        "workload": {
            "source": "poisson", "jobs": 20, "load": 0.9, "models": ["vgg16", "resnet50"],
            "gpus": {1: 0.5, 4: 0.25, 8: 0.25}, "iterations": [20, 60],
        },
        "stack": {"name": "srsf"},
        "run": {"seed": 1, **run},
    }  # fmt: skip


def write(path: Path, data: dict[str, Any]) -> Path:
    """The dict as TOML: values of these scenarios are all JSON, and so inline TOML but for the equals signs."""
    lines = []
    for section, keys in data.items():
        lines.append(f"[{section}]")
        for key, value in keys.items():
            inner = ", ".join(f"{k} = {v}" for k, v in value.items()) if isinstance(value, dict) else ""
            lines.append(f"{key} = {{{inner}}}" if inner else f"{key} = {json.dumps(value)}")
    path.write_text("\n".join(lines))
    return path


def same(a: weft.RunResult, b: weft.RunResult) -> None:
    for name in ("jobs", "iterations", "links", "decisions", "spans"):
        assert_frame_equal(getattr(a, name), getattr(b, name), check_exact=True)
    assert (a.stack, a.seed, a.events) == (b.stack, b.seed, b.events)


def test_one_seed_one_result() -> None:
    first, again = weft.simulate(scenario()), weft.simulate(scenario())
    same(first, again)
    assert first.jobs["status"].unique().to_list() == ["finished"]
    assert first.jobs.height == 20
    assert "<table" in first._repr_html_()


def test_another_seed_is_another_workload() -> None:
    first, other = weft.simulate(scenario()), weft.simulate(scenario(), seed=2)
    assert other.seed == 2
    assert first.jobs["submit_s"].to_list() != other.jobs["submit_s"].to_list()


def test_a_layer_can_be_replaced() -> None:
    run = weft.simulate(scenario(), stack="fifo", place="first-fit")
    assert run.stack == "fifo[place=first-fit]"
    with pytest.raises(StackError, match="there is no place nowhere"):
        weft.simulate(scenario(), place="nowhere")


def test_every_stack_sees_the_same_workload_and_workers_change_nothing() -> None:
    one = weft.compare(scenario(), ["fifo", "srsf"], seeds=2, workers=1)
    two = weft.compare(scenario(), ["fifo", "srsf"], seeds=2, workers=2)
    assert [(r.stack, r.seed) for r in one.runs] == [("fifo", 1), ("srsf", 1), ("fifo", 2), ("srsf", 2)]
    for a, b in zip(one.runs, two.runs, strict=True):
        same(a, b)
    for fifo, srsf in (one.runs[:2], one.runs[2:]):
        columns = ["job_id", "model", "gpus", "submit_s", "iterations"]
        assert_frame_equal(fifo.jobs.select(columns).sort("job_id"), srsf.jobs.select(columns).sort("job_id"))
    assert {k: v for k, v in one.to_dict().items() if k != "wall_s"} == two.to_dict()
    assert one.jobs.group_by("stack", "seed").len()["len"].to_list() == [20] * 4
    assert "<table" in one._repr_html_()


def test_comparison_counts_progress_and_refuses_nothing_to_compare() -> None:
    seen: list[tuple[int, int]] = []
    weft.compare(scenario(), ["fifo"], seeds=[3, 5], workers=1, on_progress=lambda *p: seen.append(p))
    assert seen == [(0, 2), (1, 2), (2, 2)]
    with pytest.raises(InputError, match="there are no seeds"):
        weft.compare(scenario(), ["fifo"], seeds=[])


def test_an_error_in_a_worker_is_the_same_error_here() -> None:
    data = scenario()
    data["workload"] = {"source": "jobs", "job": [{"model": "vgg16", "gpus": 99, "iterations": 5}]}
    with pytest.raises(InputError, match="99 GPUs, the cluster has 16"):
        weft.compare(data, ["fifo", "srsf"], seeds=2, workers=2)


def test_simulate_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "small.toml", scenario())
    assert cli(["simulate", str(path), "--json", "--out", str(tmp_path / "out")]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == SUMMARY
    assert (shown["scenario"], shown["stack"], shown["jobs"], shown["finished"]) == ("small", "srsf", 20, 20)
    run = weft.simulate(path)
    assert shown["jct_s"]["mean"] == pytest.approx(run.jobs["jct_s"].mean(), rel=1e-12)
    for name in ("jobs.parquet", "links.parquet", "decisions.parquet", "report.html", "timeline.json"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert_frame_equal(pl.read_parquet(tmp_path / "out" / "jobs.parquet"), run.jobs)
    assert cli(["simulate", str(path)]) == 0
    assert "makespan" in capsys.readouterr().out


def test_what_a_reader_must_know_goes_to_stderr(tmp_path: Path, capsys: Capture) -> None:
    data = scenario(until_s=3.0)
    data["workload"]["source"] = "bursty"
    assert cli(["simulate", str(write(tmp_path / "cut.toml", data)), "--json"]) == 0
    out, err = capsys.readouterr()
    shown = json.loads(out)
    left = shown["jobs"] - shown["finished"]
    assert left > 0
    first, last = err.splitlines()
    assert first.startswith("note: bursty arrivals: ")
    assert last == f"note: {left} of 20 jobs did not finish (srsf, seed 1)"


def test_compare_on_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    path = write(tmp_path / "small.toml", scenario())
    report = tmp_path / "report.html"
    options = ["--stack", "fifo", "--stack", "srsf", "--seeds", "2", "--workers", "1"]
    assert cli(["compare", str(path), *options, "--json", "--report", str(report)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == {"scenario", "seeds", "intervals", "stacks", "bound"}
    assert shown["seeds"] == [1, 2]
    first, second = shown["stacks"]
    assert first["ratio_to_first"]["jct_mean_s"] == {"mean": 1.0, "ci95": [1.0, 1.0]}
    low, high = second["metrics"]["jct_mean_s"]["ci95"]
    assert low <= second["metrics"]["jct_mean_s"]["mean"] <= high
    assert report.stat().st_size > 10_000
    assert cli(["compare", str(path), *options, "--place", "first-fit"]) == 0
    assert "fifo[place=first-fit]" in capsys.readouterr().out


def test_replay_takes_a_dict_and_a_file(tmp_path: Path, capsys: Capture) -> None:
    """Two equal jobs on one link: each gets half of it, so a transfer takes 2 bytes / capacity = 2 s."""
    job = {"iterations": 10, "phases": [{"compute_s": 1.0}, {"bytes": 1.25e9, "flows": {"l": 1}}]}
    data = {"links": {"l": {"gbps": 10}}, "jobs": [{"id": "a", **job}, {"id": "b", **job}]}
    result = weft.replay(data)
    assert result["makespan_s"] == pytest.approx(30.0)
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps(data))
    assert cli(["replay", str(path), "--json", "--no-skip"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == {"makespan_s", "events", "iterations", "exact", "wall_s", "jobs", "links"}
    assert shown["jobs"] == result["jobs"]
    assert set(shown["jobs"]["a"]["iteration_s"]) == {"mean", "p50", "p99", "max"}
    assert shown["links"]["l"]["utilisation"] == pytest.approx(2 / 3)
    assert cli(["replay", str(path)]) == 0
    assert "utilisation" in capsys.readouterr().out


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("file", ["two-jobs.json", "two-jobs-shifted.json"])
def test_iteration_times_add_up(file: str, skip: bool) -> None:
    """Iterations of a job follow each other without a gap: mean x number = finish - start."""
    path = Path(__file__).parent.parent / "examples" / file
    jobs = {job["id"]: job for job in json.loads(path.read_text())["jobs"]}
    for name, job in weft.replay(path, skip=skip)["jobs"].items():
        total_s = job["iteration_s"]["mean"] * jobs[name]["iterations"]
        assert total_s == pytest.approx(job["finish_s"] - job["start_s"], rel=1e-9)


def test_links_that_carry_more_than_they_can_are_pointed_out(tmp_path: Path, capsys: Capture) -> None:
    """k-way sharing goes by b alone (1 / 8e-10 s/B = 10 Gbit/s) and ideal by no one else: both can exceed a link."""
    job = {"iterations": 10, "phases": [{"compute_s": 1.0}, {"bytes": 1.25e9, "flows": {"l": 1}}]}
    path = tmp_path / "jobs.json"
    for gbps, network, beyond in (
        (10, {"sharing": "k-way", "b_s_per_byte": 8e-10}, False),
        (1, {"sharing": "k-way", "b_s_per_byte": 8e-10}, True),
        (10, "ideal", True),
        (10, {"sharing": "max-min"}, False),
    ):
        data = {"links": {"l": {"gbps": gbps}}, "network": network, "jobs": [{"id": i, **job} for i in "abc"]}
        path.write_text(json.dumps(data))
        assert cli(["replay", str(path), "--json"]) == 0
        out, err = capsys.readouterr()
        assert (json.loads(out)["links"]["l"]["utilisation"] > 1.0) is beyond
        assert ("note: link l carried " in err) is beyond
    for nic_gbps in (10, 1):
        data = scenario()
        data["cluster"]["nic_gbps"] = nic_gbps
        data["network"] = {"sharing": "k-way"}
        notes = " ".join(weft.simulate(data).notes)
        assert ("k-way sharing moves 9.35 Gbit/s" in notes) is (nic_gbps == 1)
