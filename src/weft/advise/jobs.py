"""What an operator's file says: jobs, their sizes and lengths, recorded waits, load over time, and what is unknown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from weft.kernels import cache_root
from weft.workload.traces.columns import read_table
from weft.workload.traces.reading import is_known, read, write
from weft.workload.traces.rows import Problem, Trace

DAY_S = 86_400.0
RARE = 0.01  # of the time: if fewer jobs find too few GPUs, hardly any waits
DECADES_S = 20 * 365 * DAY_S


@dataclass(frozen=True)
class JobLog:
    """The jobs of a file that can be simulated, the copy of them that simulations read, and how the file was
    understood."""

    trace: Trace
    file: Path  # a copy in weft's own columns
    mapping: Mapping[str, str] = field(default_factory=dict)  # field: column, if the file was a table of unknown format
    unit_said: bool = True  # whether the file or the operator says what unit lengths have
    replayed_s: Mapping[str, float] = field(default_factory=dict)  # waits of jobs in the replay, where none is recorded

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The jobs in the order of their submission."""
        return self.trace.frame.sort("submit_s")

    @property
    def span_s(self) -> float:
        """From the first submission to the last."""
        submit = self.trace.frame["submit_s"].to_numpy()
        return float(submit.max() - submit.min())

    @property
    def has_waits(self) -> bool:
        """Whether the file says how long jobs waited."""
        return self.trace.frame["wait_s"].null_count() < self.trace.frame.height / 2

    @property
    def has_models(self) -> bool:
        """Whether it names models."""
        return self.trace.frame["model"].null_count() < self.trace.frame.height

    def gpu_seconds(self) -> float:
        """GPU time of all jobs."""
        return float((self.trace.frame["gpus"] * self.trace.frame["duration_s"]).sum())

    def most_busy(self) -> int:
        """The most GPUs that were busy at once, as far as starts are recorded. The cluster had at least as many."""
        known = self.trace.frame.filter(pl.col("wait_s").is_not_null())
        begin = (known["submit_s"] + known["wait_s"]).to_numpy()
        end = begin + known["duration_s"].to_numpy()
        gpus = known["gpus"].to_numpy()
        times, steps = np.concatenate([begin, end]), np.concatenate([gpus, -gpus])
        order = np.lexsort((steps, times))  # at one moment jobs end before others begin
        return int(np.cumsum(steps[order]).max(initial=0))

    def crowded(self, n_gpus: int) -> tuple[float, int]:
        """If every job started when it was submitted: for which share of the time up to the last submission they would
        hold more than so many GPUs, and how many would be enough for all but `RARE` of the time."""
        begin, lasts, gpus = (self.trace.frame[name].to_numpy() for name in ("submit_s", "duration_s", "gpus"))
        times, steps = np.concatenate([begin, begin + lasts]), np.concatenate([gpus, -gpus])
        order = np.argsort(times, kind="stable")
        held = np.cumsum(steps[order])[:-1]
        for_s = np.diff(np.minimum(times[order], begin.max()))
        above = for_s[held > n_gpus].sum() / max(for_s.sum(), 1e-9)
        levels = np.argsort(held, kind="stable")
        enough = held[levels][np.searchsorted(np.cumsum(for_s[levels]), (1.0 - RARE) * for_s.sum())]
        return float(above), int(enough)

    @cached_property
    def _begun(self) -> pl.DataFrame:
        """The jobs with the time at which each began."""
        frame = self.frame
        replayed = pl.Series([self.replayed_s.get(name, 0.0) for name in frame["job_id"]], dtype=pl.Float64)
        waits = frame["wait_s"].zip_with(frame["wait_s"].is_not_null(), replayed)
        return frame.with_columns(began=frame["submit_s"] + waits)

    def window(self, start_s: float, end_s: float) -> pl.DataFrame:
        """The jobs submitted in a stretch of the log. Before them come those that were running at its start, with what
        was left of them, and those that were waiting. Where no wait is recorded, that of the replay counts; a job that
        was not replayed is taken to have started at once."""
        frame = self._begun
        began = pl.col("began")
        left = began + pl.col("duration_s") - start_s
        at_start = pl.lit(start_s).alias("submit_s")
        running = frame.filter((began < start_s) & (left > 0)).with_columns(left.alias("duration_s"), at_start)
        waiting = frame.filter((pl.col("submit_s") < start_s) & (began >= start_s)).with_columns(at_start)
        inside = frame.filter(pl.col("submit_s").is_between(start_s, end_s, closed="left"))
        return pl.concat([running, waiting, inside]).drop("began")

    def copy(self, jobs: pl.DataFrame) -> Path:
        """A file with these jobs."""
        return _copy(Trace(jobs, self.trace.format, (), jobs.height, self.trace.path))

    def load_by_day(self, n_gpus: int) -> list[float]:
        """GPU time that jobs take on each day over what the cluster has, from the first submission to the last. A job
        whose start is not recorded counts from its submission on."""
        frame = self.frame
        begin = (frame["submit_s"] - frame["submit_s"].min() + frame["wait_s"].fill_null(0.0)).to_numpy()
        gpus, lasts = (frame[name].to_numpy().astype(float) for name in ("gpus", "duration_s"))
        edges = DAY_S * np.arange(int(self.span_s // DAY_S) + 2)
        done = [float(gpus @ np.clip(edge - begin, 0.0, lasts)) for edge in edges]
        return [float(share) for share in np.diff(done) / (n_gpus * DAY_S)]


def read_jobs(path: Path, said: Mapping[str, str], name_format: str | None = None) -> JobLog:
    """The jobs of a file, which has a known format or is a table with a header."""
    mapping: dict[str, str] = {}
    if said or (name_format is None and not is_known(path)):
        trace, mapping = read_table(path, said)
    else:
        trace = read(path, name_format)
    trace = _sound(trace)
    return JobLog(trace, _copy(trace), mapping, unit_said=not mapping or ":" in said.get("duration", ""))


def _sound(trace: Trace) -> Trace:
    """The trace with one name for each job (sacct may list a requeued job twice), without jobs that have no length and
    without rows that lie decades from the others or last for decades: a time that is not known is often written as 0.
    """
    named = pl.when(pl.col("job_id").is_duplicated()).then(pl.format("{}#{}", "job_id", "line")).otherwise("job_id")
    frame = trace.frame.with_columns(named.alias("job_id"))
    short = frame.select(pl.col("duration_s").fill_null(0.0) <= 0.0).to_series()
    away = (pl.col("submit_s") - pl.col("submit_s").median()).abs()
    far = frame.select((away > DECADES_S) | (pl.col("duration_s") > DECADES_S)).to_series() & ~short
    problems = [
        Problem(line, "", "is decades away from other jobs, or lasts for decades") for line in frame["line"].filter(far)
    ]
    problems += [Problem(line, "", "has no length", left_out=True) for line in frame["line"].filter(short)]
    return replace(trace, frame=frame.filter(~(short | far)), problems=(*trace.problems, *problems))


def first_problem(trace: Trace) -> str:
    """The first row that is damaged, or else left out, and why; empty if every row is a job."""
    found = sorted(trace.problems, key=lambda problem: problem.left_out)[:1]
    return "".join(str(one._replace(file="" if one.file == trace.path else Path(one.file).name)) for one in found)


def _copy(trace: Trace) -> Path:
    """The jobs in weft's own columns, in its cache, named after their content."""
    rows: Any = trace.frame.hash_rows(seed=1).to_numpy()
    name = hashlib.sha256(rows.tobytes()).hexdigest()[:16]
    target = cache_root() / "advise" / f"{name}.parquet"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write(trace, target)
    return target
