"""A simulation of what happened: how far its waits are from the recorded ones, and whether the queue keeps growing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.advise.jobs import JobLog
from weft.advise.lengths import fit, run_over_recorded, shortened, to_fit
from weft.advise.site import Site
from weft.results.display import duration
from weft.results.run import RunResult
from weft.results.series import waiting_jobs
from weft.runs.run import Task, run_grid, run_task
from weft.scenario.build import Layers
from weft.scenario.changes import changed

TODAY = ("fifo-backfill", "fifo")  # what a site is assumed to run if it does not say
MOST_JOBS = 4000  # most jobs that are replayed; of a longer log, only the middle
ALIKE = 0.3  # rank correlation of simulated and recorded waits below which the replay is another queue
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Replayed:
    """The log under what the site runs today."""

    stack: str
    jobs: int
    of: int  # jobs in the log
    load: float  # GPU time asked for over GPU time there was, while jobs were submitted
    grows: bool
    waits: dict[str, Any] | None  # simulated and recorded waits, where the log has them
    run_over_recorded: float  # GPU time in the replay over that in the log, after lengths were fitted
    queue: tuple[float, ...]  # waiting jobs, on average, in each fifth of the log
    waits_s: Mapping[str, float] = field(default_factory=dict)  # of each job, simulated

    @property
    def trust(self) -> str:
        """How far simulated waits are from recorded ones, in words."""
        return (
            "no waits are recorded" if self.waits is None else f"simulated beside recorded waits: {self.waits['trust']}"
        )

    def sentences(self) -> list[str]:
        """In words."""
        lines = []
        if self.waits is None:
            lines.append("The log records no waits, so the simulation cannot be compared with what happened.")
        else:
            simulated, recorded = self.waits["simulated"], self.waits["recorded"]
            lines.append(
                f"Under {self.stack} {self._replayed()} wait {duration(simulated['mean'])} on average "
                f"(median {duration(simulated['median'])}); the log records {duration(recorded['mean'])} (median "
                f"{duration(recorded['median'])}), rank correlation {self.waits['correlation']:.2f}: "
                f"{self.waits['trust']}."
            )
        lines.append(
            "Recorded lengths contain the communication that there was, so jobs are shortened until the replay runs "
            f"them as long as recorded: {100 * self.run_over_recorded:.0f} % of the recorded GPU time was reached."
        )
        lines.append(
            f"{self._replayed()} ask for {100 * self.load:.0f} % of the GPU time there is"
            + (
                ": the queue keeps growing, so completion times depend on the length of the log."
                if self.grows
                else f"; {self.queue[-1]:.0f} jobs wait on average in the last fifth of that time."
            )
        )
        return lines

    def _replayed(self) -> str:
        most = min(self.of, MOST_JOBS)  # fewer are replayed if some ask for more GPUs than there are
        part = "" if most == self.of else f" in the middle of the log's {self.of:,}"
        return f"{self.jobs:,} jobs{part}" if self.jobs == most else f"{self.jobs:,} of {most:,} jobs{part}"


def replay(
    log: JobLog, site: Site, today: str | None, workers: int | None, tell: Callable[[int, int], None] | None = None
) -> Replayed:
    """Simulate the log (or its middle, if it is long) under today's stack, with lengths fitted to it. If today's stack
    is not known, it is the candidate whose waits are nearest to the recorded ones."""
    stretch = _middle(log.frame, MOST_JOBS)
    stacks = (today,) if today else TODAY if log.has_waits else TODAY[:1]
    scenario = changed(site.middle, {"workload.trace": str(log.copy(stretch))})
    say = tell or (lambda done, total: None)
    say(0, 1 + len(stacks))
    (parts,) = run_grid([to_fit(scenario, stacks[0], 1)], workers, fit)
    scenario = changed(scenario, {"workload.trace": str(log.copy(shortened(stretch, parts)))})
    tasks = [Task(scenario, Layers(stack), 1) for stack in stacks]
    found = run_grid(tasks, workers, run_task, lambda done, total: say(1 + done, 1 + total))
    recorded = dict(zip(stretch["job_id"], stretch["wait_s"], strict=True))
    compared = [_waits(found[i], recorded) if log.has_waits else None for i in range(len(stacks))]
    off = [0.0 if waits is None else waits["off"] for waits in compared]
    best = off.index(min(off))
    queue = _queue(found[best])
    low, high = (float(stretch["submit_s"][i]) for i in (0, -1))
    load = float((stretch["gpus"] * stretch["duration_s"]).sum()) / (site.n_gpus * max(high - low, 1.0))
    return Replayed(
        stacks[best], found[best].jobs.height, log.frame.height, load, _grows(queue, load), compared[best],
        run_over_recorded(found[best].jobs, stretch), queue, _waits_of(found[best]),
    )  # fmt: skip


def _middle(frame: pl.DataFrame, most: int) -> pl.DataFrame:
    return frame if frame.height <= most else frame.slice((frame.height - most) // 2, most)


def _waits_of(run: RunResult) -> dict[str, float]:
    started = run.jobs.filter(pl.col("start_s").is_not_null())
    return dict(zip(started["job_id"], started["start_s"] - started["submit_s"], strict=True))


def _waits(run: RunResult, recorded: dict[str, float | None]) -> dict[str, Any] | None:
    pairs = [(wait_s, recorded.get(name)) for name, wait_s in _waits_of(run).items()]
    known = np.array([(a, b) for a, b in pairs if b is not None], dtype=float)
    if len(known) < 2:
        return None
    simulated, real = _spread(known[:, 0]), _spread(known[:, 1])
    correlation = _rank_correlation(known[:, 0], known[:, 1])
    off, words = trust(simulated["mean"], real["mean"], correlation)
    return {
        "jobs": len(known), "simulated": simulated, "recorded": real, "correlation": correlation, "off": off,
        "trust": words,
    }  # fmt: skip


def trust(simulated_s: float, recorded_s: float, correlation: float = 1.0) -> tuple[float, str]:
    """How far mean waits are apart, whichever is longer, and what that means. Waits under a minute count as one. Where
    the rank correlation is low, other jobs wait than in the log: equal means are then a coincidence, or come from the
    network."""
    low, high = sorted((max(simulated_s, 60.0), max(recorded_s, 60.0)))
    off = high / low - 1.0
    if high > 60.0 and correlation < ALIKE:
        return off, (
            "the replay does not resemble the record: other jobs wait in it than in the record, so the race compares "
            "stacks on a queue that this site does not have; give the site's partitions one by one, or its own stack "
            "with --today"
        )
    if off < 0.3:
        return off, "close enough to compare stacks"
    return off, "of the same order" if off < 1.0 else "far off, so take differences between stacks as a hint only"


def _spread(values: Floats) -> dict[str, float]:
    return {"mean": float(values.mean()), "median": float(np.median(values)), "p95": float(np.quantile(values, 0.95))}


def _rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's; 0 where one of them is constant."""
    from scipy.stats import rankdata

    ranks = rankdata(a), rankdata(b)
    if ranks[0].std() == 0 or ranks[1].std() == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])


def _queue(run: RunResult, parts: int = 5) -> tuple[float, ...]:
    """Waiting jobs in each fifth of the time in which jobs were submitted."""
    steps = waiting_jobs(run)
    edges = np.linspace(float(run.jobs["submit_s"].min()), float(run.jobs["submit_s"].max()), parts + 1)  # type: ignore[arg-type]
    grid = np.linspace(edges[0], edges[-1], parts * 200)
    at = np.maximum(np.searchsorted(steps.time_s, grid, side="right") - 1, 0)
    return tuple(float(part.mean()) for part in np.split(steps.value[at], parts))


def _grows(queue: Sequence[float], load: float) -> bool:
    """Whether the queue keeps growing: more jobs wait in each part of the log than in the one before, and many at the
    end."""
    rising = all(b > a for a, b in pairwise(queue))
    return (load > 1.02 and queue[-1] > queue[0] + 5) or (rising and queue[-1] > 2 * queue[1] + 5 and load > 0.95)
