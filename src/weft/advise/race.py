"""The search: stacks race over windows of the log, and those that are clearly behind drop out.

A *replicate* is a window of the log under one guess of what is unknown. A window begins at the submission of a job that
is drawn with replacement, so that busy times are seen as often as they concern jobs. All stacks see the same jobs and
routes in it, and what counts is the ratio of their mean completion times to that of today's stack. After each round the
worse half drops out (successive halving), and so does every stack that is behind the leader with confidence. The best
stack that stops no job and the best that needs no lengths always stay, since a site may be able to run only those.

A window starts with the jobs that were running at that moment (only their remaining work) and those that were waiting.
Jobs submitted in its first part settle the queue and those in its last part keep it full; only those between count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl

from weft.advise.jobs import JobLog
from weft.advise.lengths import elsewhere, fit, shortened, to_fit
from weft.advise.site import Site
from weft.errors import EngineError, StackError, WeftError
from weft.model.view import Fact
from weft.results.compare import mean_and_interval
from weft.results.display import duration
from weft.runs.cross import Objections
from weft.runs.run import Task, run_grid, run_task
from weft.scenario import Scenario
from weft.scenario.build import Layers
from weft.scenario.changes import changed
from weft.stacks import names, resolve
from weft.workload.streams import Stream

# What is worth trying anywhere: orders from simple to far-sighted, places from careless to careful, and papers' own. No
# stack here lets jobs share GPUs, because every iteration of jobs that share one is simulated, which takes minutes for
# days of jobs.
SHORTLIST = (
    "weft", "fifo", "fifo-backfill", "fifo:backfill/tight", "sjf", "srsf", "srsf/tight", "srsf-preemptive",
    "srsf-tight", "srsf:preemptive/delay", "srsf:preemptive/delay:consolidated", "las/delay", "tiresias", "dally",
)  # fmt: skip
ROUNDS = (3, 3, 6)  # replicates that each round adds
FINALISTS = 3
COUNTED_JOBS = 150  # that count in a window, on average
MOST_JOBS = 500  # most jobs in a window; a busier window ends earlier
BEFORE, AFTER = 0.25, 0.25  # lengths of the parts before and after the one that counts, relative to it
WINDOW_JOBS = COUNTED_JOBS * (1 + BEFORE + AFTER)
BOUND_S = 600.0  # shorter jobs count as this long in slowdowns
Place = tuple[int, str]  # a window's number and a guess
Tell = Callable[[int, int], None]  # how many runs are done, of how many


@dataclass(frozen=True)
class Replicate:
    """A window under one guess."""

    scenario: Scenario
    guess: str
    seed: int
    count_from_s: float  # after the window's first submission
    count_until_s: float

    def under(self, stack: str) -> Task:
        """The run of a stack."""
        return Task(self.scenario, Layers(stack), self.seed, part=(self.count_from_s, self.count_until_s))


@dataclass
class Entrant:
    """A stack in the race, and what became of it in each replicate so far."""

    stack: str
    blind: bool  # it does not use the lengths of jobs
    outcomes: list[dict[str, float]] = field(default_factory=list)
    out: str = ""  # why it dropped out

    @property
    def calm(self) -> bool:
        """Whether it has stopped no job."""
        return all(outcome["preemptions"] == 0 for outcome in self.outcomes)


@dataclass(frozen=True)
class Race:
    """All entrants, the reference first, and the replicates that were run."""

    entrants: tuple[Entrant, ...]
    replicates: tuple[Replicate, ...]
    refused: Mapping[str, str]  # stack: why it cannot run here


@dataclass(frozen=True)
class Windows:
    """Windows of a log, drawn once: `under` puts any of them under any guess, once its lengths are fitted."""

    log: JobLog
    spans: tuple[tuple[float, float], ...]  # start of a window, length of the part that counts
    side_by_side: int  # how many would fit into the log
    counted_s: float
    parts: dict[tuple[int, str], Mapping[str, float]] = field(default_factory=dict)  # own parts of recorded lengths

    def fit(self, site: Site, today: str, places: Sequence[Place], workers: int | None, tell: Tell) -> None:
        """Fit the lengths of jobs in windows under guesses, on today's cluster and under today's stack."""
        to_do = [place for place in places if place not in self.parts]
        tasks = [to_fit(self._scenario(site, i, guess, {}), today, 1 + i) for i, guess in to_do]
        self.parts.update(zip(to_do, run_grid(tasks, workers, fit, tell), strict=True))

    def under(self, site: Site, place: Place) -> Replicate:
        """One window under one guess."""
        (i, guess), (_, part) = place, self.spans[place[0]]
        counted = (0.0, part + 1) if self.side_by_side == 1 else (max(BEFORE * part, 1e-6), (1 + BEFORE) * part)
        return Replicate(self._scenario(site, i, guess, self.parts[place]), guess, 1 + i, *counted)

    def _scenario(self, site: Site, window: int, guess: str, parts: Mapping[str, float]) -> Scenario:
        start, part = self.spans[window]
        whole = self.side_by_side == 1
        jobs = self.log.frame if whole else self.log.window(start, start + part * (1 + BEFORE + AFTER))
        jobs = elsewhere(shortened(jobs, parts), site.faster.get(guess, {}))
        return changed(site.guesses[guess], {"workload.trace": str(self.log.copy(jobs))})

    def longer(self, n: int) -> Windows:
        """These windows and so many further ones, which are drawn as if all had been drawn at once."""
        return replace(windows(self.log, len(self.spans) + n), parts=self.parts)

    def words(self) -> str:
        """How the windows were drawn."""
        n = len(self.spans)
        if self.side_by_side == 1:
            return f"Windows: the log is too short to draw any, so all of it is run, {n} times."
        return (
            f"Windows: {n}, drawn with replacement from the whole log (a moving-block bootstrap). Each begins at "
            f"the submission of a job and counts the jobs of up to {duration(self.counted_s)}, after "
            f"{duration(BEFORE * self.counted_s)} in which the queue settles; {self.side_by_side} fit side by side."
        )

    def in_turn(self, site: Site) -> list[Place]:
        """Every window once, under the guesses in turn."""
        every = list(site.guesses)
        return [(i, every[i % len(every)]) for i in range(len(self.spans))]


def windows(log: JobLog, n: int, seed: int = 1) -> Windows:
    """Draw windows of the log."""
    submit = log.frame["submit_s"].to_numpy()
    first, span, jobs = float(submit[0]), log.span_s, len(submit)
    counted = max(span * COUNTED_JOBS / jobs, float(log.frame["duration_s"].mean()))  # type: ignore[arg-type]
    whole = counted * (1 + BEFORE + AFTER)
    if whole >= span or counted > span / 2:  # the log is one window
        return Windows(log, ((first, span),) * n, 1, span)
    eligible = int(np.searchsorted(submit, first + span - whole, side="right"))
    spans = []
    for at in (np.array(Stream(seed, "windows").uniform(n)) * eligible).astype(int).tolist():
        start, last = float(submit[at]), float(submit[min(at + MOST_JOBS, jobs - 1)])
        spans.append((start, min(counted, (last - start) / (1 + BEFORE + AFTER))))
    return Windows(log, tuple(spans), int(span // counted), counted)


def entrants(site: Site, stacks: Sequence[str], asked: Sequence[str]) -> tuple[list[Entrant], dict[str, str]]:
    """The stacks that can run here, first those that were asked for, and why others cannot. One that was asked for and
    cannot is an error."""
    objects = Objections(site.middle, 1)
    known, found, refused = set(names()), [], {}
    for text in dict.fromkeys((*asked[:1], *stacks)):
        if "/" not in text and text in SHORTLIST and text not in known:
            continue  # a stack of the shortlist that this version does not have
        try:
            stack = resolve(text)
            objects.to(stack, stack.pace.name)
        except StackError as error:
            if text in asked:
                raise
            refused[text] = str(error)
            continue
        adapts = stack.suited is not None  # it needs no lengths, but uses them here, where they are known
        found.append(Entrant(text, Fact.ITERATIONS_LEFT not in stack.needs and not adapts))
    return found, refused


def attempt(task: Task) -> dict[str, float] | str:
    """What a run came to for the jobs that count, or why there is none."""
    try:
        run = run_task(task)
    except EngineError:
        raise
    except WeftError as error:
        return str(error)
    since = run.jobs["submit_s"] - run.jobs["submit_s"].min()
    count_from_s, count_until_s = task.part
    counted = run.jobs.filter((since >= count_from_s) & (since < count_until_s))
    counted = run.jobs if counted.height < 10 else counted
    jct = counted["jct_s"].to_numpy().astype(float)
    alone = np.maximum((counted["run_s"] - counted["comm_s"]).to_numpy(), BOUND_S)
    return {
        "jobs": float(counted.height),
        "unfinished": float(counted["finish_s"].null_count()),
        "jct_mean_s": float(np.nanmean(jct)),
        "jct_p99_s": float(np.nanquantile(jct, 0.99)),
        "wait_mean_s": float(counted["queueing_s"].mean() or 0.0),  # type: ignore[arg-type]
        "comm_share": float(counted["comm_s"].sum()) / max(float(counted["run_s"].sum()), 1e-9),
        "slowdown_p99": float(np.nanquantile(jct / alone, 0.99)),
        "preemptions": float(counted["preemptions"].sum()) / counted.height,
        "worst_user": _worst_user(counted),
    }


def _worst_user(jobs: pl.DataFrame) -> float:
    """Mean completion time of the user who fares worst, of those with at least five jobs; 0 if there are none."""
    users = jobs.filter(pl.col("user") != "").group_by("user").agg(pl.col("jct_s").mean(), pl.len())
    some = users.filter(pl.col("len") >= 5)["jct_s"]
    return 0.0 if some.is_empty() else float(some.max())  # type: ignore[arg-type]


def race(
    field_: list[Entrant],
    refused: Mapping[str, str],
    rounds: Sequence[int],
    every: Sequence[Replicate],
    workers: int | None,
    tell: Tell,
    independent: int | None = None,
) -> Race:
    """Run the rounds; a stack that has dropped out keeps the outcomes that it has. At most `independent` replicates
    count for intervals, if the others overlap with them."""
    done = at = 0
    for number, n in enumerate(rounds):
        running = [one for one in field_ if not one.out]
        part = every[at : at + n]
        tasks = [replicate.under(one.stack) for replicate in part for one in running]
        total = done + planned(len(running), rounds[number:])
        outcomes = run_grid(tasks, workers, attempt, partial(_further, tell, done, total))
        done, at = done + len(tasks), at + n
        _take(running, outcomes)
        _drop(field_, last=number == len(rounds) - 1, independent=independent)
    return Race(tuple(field_), tuple(every[:at]), refused)


def _further(tell: Tell, before: int, total: int, done: int, _: int) -> None:
    tell(before + done, total)


def planned(running: int, rounds: Sequence[int]) -> int:
    """How many runs these rounds take, about: after each of them half of the stacks drop out."""
    total = 0
    for n in rounds:
        total += n * running
        running = min(running, max(FINALISTS + 2, math.ceil(running / 2)))
    return total


def _take(running: Sequence[Entrant], outcomes: Sequence[dict[str, float] | str]) -> None:
    for i, outcome in enumerate(outcomes):
        entrant = running[i % len(running)]
        if isinstance(outcome, str):
            entrant.out = entrant.out or f"it could not run: {outcome}"
        elif not entrant.out:
            entrant.outcomes.append(outcome)
    if running[0].out:
        raise WeftError(f"advise: today's stack {running[0].stack} {running[0].out}; name another with --today")


def ratios(one: Entrant, other: Entrant, metric: str = "jct_mean_s") -> list[float]:
    """The ratio of a metric in each replicate that both were in."""
    pairs = zip(one.outcomes, other.outcomes, strict=False)
    return [a[metric] / b[metric] for a, b in pairs if b[metric] > 0]


def score(one: Entrant, reference: Entrant) -> float:
    """What the race is about: the geometric mean of ratios to the reference. Unfinished jobs put a stack last."""
    if any(outcome["unfinished"] for outcome in one.outcomes):
        return math.inf
    return math.exp(math.fsum(map(math.log, ratios(one, reference))) / max(len(one.outcomes), 1))


def _drop(field_: Sequence[Entrant], last: bool, independent: int | None = None) -> None:
    """Take out the worse half and every stack that is behind the leader with confidence; keep the reference and the
    best of each kind."""
    reference = field_[0]
    running = sorted((one for one in field_ if not one.out), key=lambda one: score(one, reference))
    leader = running[0]
    better_half = running[: max(FINALISTS, math.ceil(len(running) / 2))]
    best_of_kind = [next((o for o in running if getattr(o, kind)), leader) for kind in ("calm", "blind")]
    safe = [reference, *best_of_kind, *running[:FINALISTS]]
    for one in running:
        if last or one in safe:
            continue
        behind = mean_and_interval([math.log(r) for r in ratios(one, leader)], independent=independent)
        if one not in better_half:
            one.out = f"in the worse half after {len(one.outcomes)} windows"
        elif behind["ci95"][0] is not None and behind["ci95"][0] > 0.02:
            one.out = f"behind {leader.stack} with confidence after {len(one.outcomes)} windows"
