"""Our own stack `weft`, compared with the papers' methods on the papers' scenarios, and with all stacks on public
traces.

The best other stack of each scenario is looked for on seeds 1 to 5, by the same race as in `weft advise`, and figures
are from later seeds; docs/stack-weft.md has them. "Published" here means the target: mean JCT at most that of the
paper's own method and at most 1.05 times that of the best other stack, p99 at most 1.10 times that of the latter, and
no wait longer than its bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from weft.advise.race import Race, Replicate, entrants, race, score
from weft.advise.site import Site
from weft.policies.order.weft import BOUND, LEAST_BOUND_S
from weft.results.run import RunResult
from weft.runs.prepare import compile_kernels
from weft.runs.run import Task, run_grid, run_task
from weft.scenario import Scenario
from weft.scenario.build import Layers
from weft.scenario.shipped import scenario_path
from weft.stacks import resolve
from weft_evidence.checks import LabCheck, chosen, judge, no_more, some_effect
from weft_evidence.claims import Claim, Kind, Measured, Reproduction, Request, Runs
from weft_evidence.machines import machine_use
from weft_evidence.weft.trials import TRIALS, Trial, missing

TITLE = "The stack weft, held to the methods of these papers on their scenarios"

CHOOSE_ON = (1, 2, 3, 4, 5)  # seeds
ROUNDS = (1, 2, 2)  # how many of those seeds each round of the race has
FIRST_SEED = 6
SEEDS, QUICK_SEEDS = 10, 3
QUICK_RIVALS = 4


@dataclass
class _WeftRuns:
    """What has been run so far."""

    request: Request
    races: dict[str, Race] = field(default_factory=dict)
    runs: dict[str, Runs] = field(default_factory=dict)

    def seeds(self) -> list[int]:
        """Those that figures are from."""
        return replace(self.request, seed=self.request.seed or FIRST_SEED).numbers(SEEDS, QUICK_SEEDS)

    def best(self, name: str) -> str:
        """The best other stack on the seeds that serve to choose it."""
        trial = TRIALS[name]
        if name not in self.races:
            make = trial.smaller or trial.scenario
            drawn = [Replicate(Scenario.load(make(seed)), "", seed, 0.0, np.inf) for seed in CHOOSE_ON]
            rivals = trial.rivals()
            if self.request.quick:  # both ends of the list: plain stacks, and those that have done well before
                rivals = [*rivals[:QUICK_RIVALS], *rivals[-QUICK_RIVALS:]]
            site = Site({"": drawn[0].scenario}, 0, ())
            field_, refused = entrants(site, rivals, (trial.own,))
            rounds = ROUNDS[: 1 if self.request.quick else None]
            self.races[name] = race(field_, refused, rounds, drawn, self.request.workers, self._tell)
        found = self.races[name].entrants
        return min((one for one in found if not one.out), key=lambda one: score(one, found[0])).stack

    def of(self, name: str) -> Runs:
        """weft, the paper's own and the best other stack, at each seed."""
        if name not in self.runs:
            stacks = list(dict.fromkeys(("weft", TRIALS[name].own, self.best(name))))
            given = {seed: Scenario.load(TRIALS[name].scenario(seed)) for seed in self.seeds()}
            tasks = [Task(given[seed], Layers(stack), seed, record=False) for seed in given for stack in stacks]
            compile_kernels(self.request.on_compile, [resolve(stack) for stack in stacks])
            # all together, so that no processor idles
            runs = run_grid(tasks, self.request.workers, run_task, self._tell)
            self.runs[name] = Runs([replace(run, stack=stacks[i % len(stacks)]) for i, run in enumerate(runs)])
        return self.runs[name]

    def _tell(self, done: int, total: int) -> None:
        if self.request.on_progress is not None:
            self.request.on_progress(done, total)

    def notes(self) -> list[str]:
        """Who took part in each race, and how the first few came in."""
        lines = []
        for name, one in self.races.items():
            first = one.entrants[0]
            left = sorted((e for e in one.entrants if not e.out), key=lambda e: score(e, first))
            words = ", ".join(f"{e.stack} {score(e, first):.3f}" for e in left[:4])
            beside = f"; {len(one.refused)} cannot run there" if one.refused else ""
            where = " (on a part of it)" if TRIALS[name].smaller else ""
            lines.append(
                f"{name}{where}: best of {len(one.entrants)} other stacks on seeds {CHOOSE_ON[0]} to "
                f"{len(one.replicates)}, mean JCT over that of {first.stack}: {words}{beside}."
            )
        return lines


_Check = LabCheck[_WeftRuns]


def _better(name: str, trial: Trial) -> _Check:
    whose = "what most sites run" if name in _traces() else "the paper's own"
    return _Check(
        f"{name}: mean JCT of weft over that of {trial.own}, {whose}; the interval must lie below 1", 1.0, "x",
        lambda lab: lab.of(name).ratio("weft", trial.own, "jct_mean_s"), some_effect(1.0, more=False), slow=trial.slow,
    )  # fmt: skip


def _near(name: str, trial: Trial, metric: str, bar: float, words: str) -> _Check:
    return _Check(
        f"{name}: {words} of weft over that of the best other stack", bar, "x",
        lambda lab: lab.of(name).ratio("weft", lab.best(name), metric), no_more(), slow=trial.slow,
    )  # fmt: skip


def _bounded(name: str, trial: Trial) -> _Check:
    return _Check(
        f"{name}: longest wait of a job under weft, while later ones had what it needs, over its bound", 1.0, "x",
        lambda lab: Measured(max(map(longest_wait, lab.of(name).by_stack["weft"]))), no_more(), slow=trial.slow,
    )  # fmt: skip


def _machine_hours(trial: Trial) -> _Check:
    def measure(lab: _WeftRuns) -> Measured:
        runs = lab.of("titan").by_stack
        pairs = zip(runs["weft"], runs[trial.own], strict=True)
        return Measured.over_seeds([machine_use(a).machine_hours / machine_use(b).machine_hours for a, b in pairs])

    return _Check(
        "titan: machine hours of weft over those of titan, the paper's own; the interval must lie below 1", 1.0, "x",
        measure, some_effect(1.0, more=False), slow=True,
    )  # fmt: skip


def longest_wait(run: RunResult) -> float:
    """The longest wait of any job, as a multiple of its bound (20 times its length, or an hour if that is longer).

    Its length is that of all its iterations at the best pace that it had. A moment counts if the job would have had
    room on GPUs that were idle or that jobs submitted after it were on.
    """
    submitted = dict(run.jobs.select("job_id", "submit_s").iter_rows())
    paces = run.iterations.group_by("job_id").agg(pl.col("duration_s").min())
    jobs = run.jobs.drop_nulls("queueing_s").join(paces, on="job_id", how="left")
    jobs = jobs.with_columns(
        (BOUND * pl.col("iterations") * pl.col("duration_s")).fill_null(0.0).clip(LEAST_BOUND_S).alias("bound_s")
    )
    jobs = jobs.with_columns((pl.col("queueing_s") / pl.col("bound_s")).alias("whole")).sort("whole", descending=True)
    spans = run.spans.select("job_id", "start_s", "end_s", pl.col("gpus").list.len().alias("n"))
    start, end, n = (spans[c].to_numpy().astype(float) for c in ("start_s", "end_s", "n"))
    came = np.array([submitted[name] for name in spans["job_id"]])
    own = spans["job_id"].to_numpy()
    worst = 0.0
    for job in jobs.iter_rows(named=True):
        if job["whole"] <= worst:  # the remaining jobs wait no longer, whatever part of their waits counts
            break
        before = came <= job["submit_s"]
        waits = np.array([job["submit_s"], *np.sort(np.r_[start[own == job["job_id"]], end[own == job["job_id"]]])])
        counted_s = 0.0
        for since, until in waits[: len(waits) // 2 * 2].reshape(-1, 2):
            meet = before & (start < until) & (end > since) & (own != job["job_id"])
            edges = np.unique(np.r_[since, until, start[meet].clip(since, until), end[meet].clip(since, until)])
            held = np.zeros(len(edges))
            np.add.at(held, np.searchsorted(edges, start[meet].clip(since, until)), n[meet])
            np.add.at(held, np.searchsorted(edges, end[meet].clip(since, until)), -n[meet])
            room = len(run.server_of_gpu) - np.cumsum(held)[:-1] >= job["gpus"]
            counted_s += float(np.diff(edges)[room].sum())
        worst = max(worst, counted_s / job["bound_s"])
    return worst


def _traces() -> set[str]:
    return {name for name, trial in TRIALS.items() if trial.own == "fifo-backfill"}


CLAIMS: dict[str, _Check] = {}
for _name, _trial in TRIALS.items():
    CLAIMS[f"{_name}-own"] = _better(_name, _trial)
    CLAIMS[f"{_name}-best"] = _near(_name, _trial, "jct_mean_s", 1.05, "mean JCT")
    CLAIMS[f"{_name}-p99"] = _near(_name, _trial, "jct_p99_s", 1.10, "p99 JCT")
    CLAIMS[f"{_name}-wait"] = _bounded(_name, _trial)
CLAIMS["titan-hours"] = _machine_hours(TRIALS["titan"])
CLAIMS = {name: replace(check, kind=Kind.OWN) for name, check in CLAIMS.items()}


def reproduce(request: Request) -> Reproduction:
    """Check all claims."""
    names, notes = chosen(request, CLAIMS)
    absent = {name for name, trial in TRIALS.items() if missing(trial)}
    if absent:
        notes.append(f"WEFT_TRACES does not hold the traces of {', '.join(sorted(absent))}: left out.")
    lab, claims = _WeftRuns(request), []
    for name in names:
        trial = name.rpartition("-")[0]
        if trial not in absent:
            claims.append(_judged(lab, name, trial))
    return Reproduction("weft", tuple(claims), (*notes, *lab.notes()))


def _judged(lab: _WeftRuns, name: str, trial: str) -> Claim:
    check, seeds = CLAIMS[name], lab.seeds()
    measured = check.measure(lab)
    check = replace(check, what=check.what.replace("the best other stack", f"{lab.best(trial)}, the best other stack"))
    where = trial if trial in _traces() else str(scenario_path(trial))
    quickly = " --quick" * lab.request.quick
    command = f"weft reproduce weft --claim {name} --seeds {len(seeds)} --seed {seeds[0]}{quickly} --json"
    return judge(name, check, measured, where, command, seeds)
