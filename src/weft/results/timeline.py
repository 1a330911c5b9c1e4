"""The run as Chrome-trace JSON, for ui.perfetto.dev or chrome://tracing: a track per job, a counter per link.

Times are microseconds of the run. Every job is a process with a "state" track (queued, running), and tracks of its
recorded compute and transfer tasks; tasks that overlap get tracks side by side, because slices of one track must nest.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from weft.results.files import write_text
from weft.results.run import RunResult
from weft.results.series import Steps, busy_gpus, extent_s, spans_until, thin, waiting_jobs

Event = dict[str, Any]

_CLUSTER, _LINKS, _FIRST_JOB = 1, 2, 10  # process ids
_MOST_JOBS = 5_000  # beyond this a viewer no longer opens the file
_POINTS = 4_000  # points of one counter


def timeline(run: RunResult, most_jobs: int = _MOST_JOBS) -> dict[str, Any]:
    """The trace as a JSON-able object. Of a larger run the first `most_jobs` submitted are there; the trace says so."""
    jobs = run.jobs.sort(["submit_s", "job_id"]).head(most_jobs)
    events = [*_cluster_events(run), *_link_events(run), *_job_events(run, jobs)]
    about: dict[str, Any] = {"scenario": run.scenario, "stack": run.stack, "seed": run.seed, "weft": run.version}
    if jobs.height < run.jobs.height:
        about["note"] = f"first {jobs.height} of {run.jobs.height} jobs"
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def write_timeline(path: str | Path, run: RunResult, most_jobs: int = _MOST_JOBS) -> Path:
    """Write the trace to `path`."""
    target = Path(path)
    text = json.dumps(timeline(run, most_jobs), allow_nan=False, separators=(",", ":"))
    write_text(target, text, "timeline")
    return target


def _cluster_events(run: RunResult) -> Iterator[Event]:
    yield from _process(_CLUSTER, "cluster", 0)
    yield from _counter(_CLUSTER, "busy GPUs", thin(busy_gpus(run), _POINTS))
    yield from _counter(_CLUSTER, "waiting jobs", thin(waiting_jobs(run), _POINTS))


def _link_events(run: RunResult) -> Iterator[Event]:
    """Utilisation in percent of the links that were used: over time where recorded, else the mean of the run."""
    yield from _process(_LINKS, "links (utilisation, %)", 1)
    begin, end = extent_s(run)
    series = {int(part["link"][0]): part for part in run.link_series.sort(["link", "start_s"]).partition_by("link")}
    used = run.links.filter((pl.col("bytes") > 0) & (pl.col("bytes_per_s") > 0))
    for link, name, speed, mean in used.select("link", "name", "bytes_per_s", "utilisation").iter_rows():
        if link in series:
            yield from _counter(_LINKS, name, _utilisation(series[link], speed))
        elif mean is not None:
            yield from _counter(_LINKS, f"{name} (mean)", Steps(np.array([begin, end]), np.array([100.0 * mean, 0.0])))


def _utilisation(series: pl.DataFrame, bytes_per_s: float) -> Steps:
    start, end = series["start_s"].to_numpy(), series["end_s"].to_numpy()
    value = 100.0 * series["bytes"].to_numpy() / (bytes_per_s * np.maximum(end - start, 1e-12))
    closes = np.append(start[1:] > end[:-1], True)  # back to zero where no bin follows at once
    times, values = np.concatenate([start, end[closes]]), np.concatenate([value, np.zeros(int(closes.sum()))])
    order = np.argsort(times, kind="stable")
    return Steps(times[order], values[order])


def _job_events(run: RunResult, jobs: pl.DataFrame) -> Iterator[Event]:
    end_of_run = extent_s(run)[1]
    kept = pl.col("job_id").is_in(jobs["job_id"].to_list())
    spans: dict[str, list[tuple[float, float, list[int], str]]] = {}
    for job, start, end, gpus, why in spans_until(run).filter(kept).sort(["job_id", "start_s"]).iter_rows():
        spans.setdefault(job, []).append((start, end, gpus or [], why or ""))
    tasks: dict[str, list[tuple[str, str, float, float]]] = {}
    for job, task, kind, start, end in run.segments.filter(kept).sort(["job_id", "start_s", "end_s"]).iter_rows():
        if start is not None and end is not None:
            tasks.setdefault(job, []).append((task, kind, start, end))
    for i, row in enumerate(jobs.iter_rows(named=True)):
        job, pid = row["job_id"], _FIRST_JOB + i
        model = f"{row['model']}, " if row["model"] else ""
        yield from _process(pid, f"{job} ({model}{row['gpus']} GPUs)", 2 + i)
        yield _name("thread", pid, 0, "state")
        yield from _states(pid, row, spans.get(job, []), end_of_run)
        yield from _tasks(pid, tasks.get(job, []))


def _states(
    pid: int, job: dict[str, Any], spans: list[tuple[float, float, list[int], str]], end_of_run: float
) -> Iterator[Event]:
    """Queued and running, one after the other, from submission until the job finished (or the run ended)."""
    at = job["submit_s"]
    for start, end, gpus, why in spans:
        if start > at:
            yield _slice(pid, 0, "queued", "state", at, start, {})
        yield _slice(pid, 0, "running", "state", start, end, {"gpus": " ".join(map(str, gpus)), "end": why})
        at = end
    if job["finish_s"] is None and end_of_run > at:
        yield _slice(pid, 0, "queued", "state", at, end_of_run, {})


def _tasks(pid: int, tasks: list[tuple[str, str, float, float]]) -> Iterator[Event]:
    free: dict[str, list[tuple[float, int]]] = {}  # per kind: when each of its tracks is free again
    tracks = 0
    for task, kind, start, end in tasks:
        heap = free.setdefault(kind, [])
        if heap and heap[0][0] <= start:
            _, tid = heapq.heappop(heap)
        else:
            tracks += 1
            tid = tracks
            yield _name("thread", pid, tid, kind if not heap else f"{kind} {len(heap) + 1}")
        heapq.heappush(heap, (end, tid))
        yield _slice(pid, tid, task, kind, start, end, {})


def _slice(pid: int, tid: int, name: str, kind: str, start_s: float, end_s: float, args: dict[str, Any]) -> Event:
    start, end = _us(start_s), _us(end_s)
    event: Event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": kind, "ts": start}
    event["dur"] = round(max(end - start, 0.0), 3)
    if args:
        event["args"] = args
    return event


def _counter(pid: int, name: str, steps: Steps) -> Iterator[Event]:
    for time, value in zip(steps.time_s.tolist(), steps.value.tolist(), strict=True):
        yield {"ph": "C", "pid": pid, "tid": 0, "name": name, "ts": _us(time), "args": {"value": round(value, 3)}}


def _process(pid: int, name: str, order: int) -> Iterator[Event]:
    yield _name("process", pid, 0, name)
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": order}}


def _name(what: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": f"{what}_name", "args": {"name": name}}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
