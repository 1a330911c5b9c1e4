import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weft.errors import InputError
from weft.results.run import SEGMENTS, RunResult
from weft.results.timeline import timeline, write_timeline

Event = dict[str, Any]


def slices(trace: dict[str, Any]) -> dict[tuple[int, int], list[Event]]:
    tracks: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def processes(trace: dict[str, Any]) -> dict[str, int]:
    return {e["args"]["name"]: e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name"}


def test_a_track_per_job_with_its_states(run: RunResult) -> None:
    trace = timeline(run)
    tracks, names = slices(trace), processes(trace)
    for job in run.jobs.iter_rows(named=True):
        pid = names[f"{job['job_id']} ({job['model']}, {job['gpus']} GPUs)"]
        states = tracks[pid, 0]
        total = {s: sum(e["dur"] for e in states if e["name"] == s) / 1e6 for s in ("queued", "running")}
        assert total["queued"] == pytest.approx(job["queueing_s"], abs=1e-6)
        assert total["running"] == pytest.approx(job["run_s"], abs=1e-6)
        assert states[0]["ts"] == pytest.approx(job["submit_s"] * 1e6)


def test_slices_of_a_track_do_not_overlap(run: RunResult) -> None:
    # compute and transfer of one job overlap, and so may two transfers: each gets a track of its own
    doubled = replace(run, segments=pl.concat([run.segments, run.segments]))
    trace = timeline(doubled)
    for track in slices(trace).values():
        ordered = sorted(track, key=lambda e: e["ts"])
        for before, after in pairwise(ordered):
            assert before["ts"] + before["dur"] <= after["ts"] + 0.01
    tasks = [e for e in trace["traceEvents"] if e.get("cat") in ("compute", "transfer")]
    assert len(tasks) == doubled.segments.height > 0
    threads = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {"state", "compute", "compute 2", "transfer", "transfer 2"} <= threads


def test_link_counters_integrate_to_the_bytes_carried(run: RunResult) -> None:
    counters: dict[str, list[Event]] = defaultdict(list)
    for event in timeline(run)["traceEvents"]:
        if event["ph"] == "C":
            counters[event["name"]].append(event)
    for name, speed, size in run.links.filter(pl.col("bytes") > 0).select("name", "bytes_per_s", "bytes").iter_rows():
        points = [(e["ts"] / 1e6, e["args"]["value"] / 100) for e in counters[name]]
        carried = sum(u * speed * (t1 - t0) for (t0, u), (t1, _) in pairwise(points))
        assert carried == pytest.approx(size, rel=1e-3)  # counters are rounded
        assert points[-1][1] == 0
    assert max(e["args"]["value"] for e in counters["busy GPUs"]) == run.n_gpus


def test_without_a_series_a_link_shows_its_mean(make_run: Any) -> None:
    run = make_run(n_jobs=12, series=False)
    busiest = run.links.sort("utilisation", descending=True).row(0, named=True)
    events = [e for e in timeline(run)["traceEvents"] if e["name"] == f"{busiest['name']} (mean)"]
    assert events[0]["args"]["value"] == pytest.approx(100 * busiest["utilisation"], abs=1e-3)


def test_every_track_is_named_and_times_are_finite(run: RunResult) -> None:
    trace = json.loads(json.dumps(timeline(run), allow_nan=False))
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] in ("thread_name", "process_name")}
    for event in trace["traceEvents"]:
        assert event["ph"] in ("M", "X", "C")
        if event["ph"] != "M":
            assert event["ts"] >= 0
            assert (event["pid"], event["tid"]) in named


def test_long_runs_say_what_they_leave_out(run: RunResult) -> None:
    trace = timeline(run, most_jobs=10)
    assert trace["otherData"]["note"] == f"first 10 of {run.jobs.height} jobs"
    assert len(processes(trace)) == 12  # cluster, links, ten jobs
    assert "note" not in timeline(run)["otherData"]


def test_a_job_that_never_ran_is_queued_to_the_end(stuck_run: RunResult) -> None:
    trace = timeline(replace(stuck_run, segments=pl.DataFrame(schema=SEGMENTS)))
    events = [e for track in slices(trace).values() for e in track]
    assert {e["name"] for e in events} == {"queued"}
    assert len(events) == 2  # the third arrives at the run's last instant


def test_writing(run: RunResult, tmp_path: Path) -> None:
    path = write_timeline(tmp_path / "a" / "timeline.json", run)
    assert json.loads(path.read_text())["otherData"]["stack"] == "fifo"
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write the timeline"):
        write_timeline(tmp_path / "file" / "timeline.json", run)
