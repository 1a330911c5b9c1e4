"""How far answers can be trusted: a trace is replayed, and at random moments somebody asks when a queued job starts.

What comes is known, since the replay went on. Claims are made up where a trace has none, as Slurm's users make them: a
job claims what 19 of 20 recent jobs of its queue (of its size, where there are no queues) stayed below, and at least
what it takes, rounded up to a usual limit. The control is a start from those claims alone, which is how
`squeue --start` computes it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from weft.advise.forward import Ahead, Present, Starts, claimed, samples, unknown
from weft.advise.spread import Past
from weft.core.cycle import Core
from weft.core.loop import advance
from weft.core.stack import Stack
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.view import JobStatus, JobView
from weft.network.estimates import Estimates
from weft.sim import few_collections
from weft.workload.traces.reading import read
from weft_live.ahead import Range, cluster_of

USUAL_H = (1, 2, 4, 8, 12, 24, 48, 72, 168, 336, 720, 1440, 2880)  # limits that users choose among
_RECENT = 50  # jobs of a queue from which a user guesses
_PAST = 4000  # ended jobs that an answer is given with
LOAD = 0.9
_TRIES = 20_000  # moments that are looked at for some at which a job waits


@dataclass(frozen=True)
class Asked:
    """One answer, and what came of it; seconds from the moment of the question."""

    at_s: float
    job: str
    queued: int
    said: Range
    came: float
    control: float  # what claims alone say

    @property
    def inside(self) -> bool:
        """Whether the start lies in the range."""
        return self.said.low <= self.came <= self.said.high


@dataclass(frozen=True)
class Replay:
    """A trace as it ran under a stack."""

    cluster: Cluster
    jobs: Sequence[Job]  # by submission
    took: np.ndarray[Any, np.dtype[np.float64]]
    claims: Sequence[float]
    starts: np.ndarray[Any, np.dtype[np.float64]]
    places: Sequence[tuple[int, ...]]

    def present(self, at_s: float) -> Present:
        """The cluster at a moment, as somebody then could know it."""
        submit = np.array([job.submit_s for job in self.jobs])
        ends = self.starts + self.took
        there = np.flatnonzero((submit <= at_s) & (ends > at_s))
        over = np.flatnonzero(ends <= at_s)
        ended = over[np.argsort(ends[over], kind="stable")][-_PAST:]
        views = tuple(self._view(int(i), at_s) for i in there)
        past = tuple(
            Past(self.jobs[i].user, self.jobs[i].gpus, self.jobs[i].submit_s, self.claims[i], float(self.took[i]))
            for i in ended.tolist()
        )
        known = {self.jobs[i].id: self.claims[i] for i in there.tolist()}
        return Present(self.cluster, at_s, views, known, known, past)

    def _view(self, i: int, at_s: float) -> JobView:
        job, start = self.jobs[i], float(self.starts[i])
        if start > at_s:
            return JobView(job, waiting_since_s=job.submit_s)
        return JobView(
            job, JobStatus.RUNNING, self.places[i], waiting_since_s=job.submit_s, started_s=start, first_start_s=start
        )


def replayed(trace: Path, stack: Stack, jobs: int, gpus: int | None) -> Replay:
    """Run jobs from the middle of a trace under a stack; without `gpus`, on so many that they are busy for 90 % of the
    time."""
    frame = read(trace).frame.sort("submit_s")
    frame = frame.filter((pl.col("gpus") > 0) & (pl.col("duration_s") > 0))
    frame = frame.slice(max(0, (frame.height - jobs) // 2), jobs)
    if frame.height < 1000:
        raise InputError(f"--replay {trace}: {frame.height} jobs are too few to calibrate with; name a longer trace")
    sizes, took = frame["gpus"].to_list(), frame["duration_s"].to_numpy().astype(float)
    submit = (frame["submit_s"] - frame["submit_s"][0]).to_list()
    busy = float((np.array(sizes) * took).sum()) / max(submit[-1], 1.0)
    nodes = math.ceil(max(gpus or busy / LOAD, max(sizes)) / 8)
    cluster = cluster_of([(f"n{i}", 8, i // 8) for i in range(nodes)])
    queues = [vc or f"{n}" for vc, n in zip(frame["vc"].to_list(), sizes, strict=True)]
    claims = _claims(queues, took.tolist())
    made = [
        Job(str(i), at_s, n, max(1, round(claim)), {n: unknown(n)}, user=vc or "")
        for i, (at_s, n, claim, vc) in enumerate(zip(submit, sizes, claims, frame["vc"].to_list(), strict=True))
    ]
    journal = Starts([job.id for job in made])
    world = Ahead(Present(cluster, 0.0, ()), {}, iter(zip(made, took.tolist(), strict=True)), Estimates(cluster))
    core = Core(stack, world, 0, journal)
    with few_collections():
        while journal.missing and advance(core, world) is not None:
            pass
    starts = np.array([journal.starts.get(job.id, math.inf) for job in made])
    return Replay(cluster, made, took, claims, starts, [journal.places.get(job.id, ()) for job in made])


def _claims(queues: Sequence[str], took: Sequence[float]) -> list[float]:
    recent: dict[str, deque[float]] = {}
    claims = []
    for queue, seconds in zip(queues, took, strict=True):
        known = recent.setdefault(queue, deque(maxlen=_RECENT))
        guess = sorted(known)[int(0.95 * len(known))] if known else 0.0
        hours = max(guess, seconds) / 3600.0
        claims.append(3600.0 * USUAL_H[min(bisect_left(USUAL_H, hours), len(USUAL_H) - 1)])
        claims[-1] = max(claims[-1], seconds)
        known.append(seconds)
    return claims


def calibrate(
    run: Replay, stack: Stack, n: int = 200, times: int | None = None, seed: int = 1,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> list[Asked]:  # fmt: skip
    """Ask at `n` random moments at which jobs wait, about one of them each."""
    found: list[Asked] = []
    for at_s, i, queued in _moments(run, n, seed):
        present, job = run.present(at_s), run.jobs[i].id
        drawn = samples(present, stack, [job], times, seed=seed + len(found))
        said = Range.of([one.starts.get(job, math.inf) - at_s for one in drawn])
        control = claimed(present, stack, [job]).starts.get(job, math.inf) - at_s
        found.append(Asked(at_s, job, queued, said, float(run.starts[i]) - at_s, control))
        tell(len(found), n)
    return found


def _moments(run: Replay, n: int, seed: int) -> Iterator[tuple[float, int, int]]:
    """Moments in the last four fifths of the submissions, each with a job that waits then."""
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    submit = np.array([job.submit_s for job in run.jobs])
    for _ in range(_TRIES):
        at_s = float(submit[-1] * (0.2 + 0.8 * rng.random()))
        waiting = np.flatnonzero((submit <= at_s) & (run.starts > at_s) & np.isfinite(run.starts))
        if len(waiting):
            yield at_s, int(rng.choice(waiting)), len(waiting)
            n -= 1
        if n == 0:
            return
    raise InputError("--replay: hardly any job waits in this replay; give fewer --gpus")


def summary(found: Sequence[Asked]) -> dict[str, Any]:
    """The share of starts inside their range, and how wide ranges are beside the error of the control."""
    width = [one.said.high - one.said.low for one in found]
    error = [abs(one.control - one.came) for one in found]
    return {
        "asked": len(found), "inside": sum(one.inside for one in found) / len(found),
        "below": sum(one.came < one.said.low for one in found) / len(found),
        "above": sum(one.came > one.said.high for one in found) / len(found),
        "median_wait_s": float(np.median([one.came for one in found])), "median_width_s": float(np.median(width)),
        "median_error_s": float(np.median([abs(one.said.middle - one.came) for one in found])),
        "median_error_of_claims_s": float(np.median(error)),
        "median_queue": float(np.median([one.queued for one in found])),
        "samples": float(np.median([one.said.samples for one in found])),
    }  # fmt: skip
