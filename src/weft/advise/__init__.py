"""Advice for an operator: which stack would have served the jobs of a log best, at what price, and how certain that is.

    advice = weft.advise.advise(Path("sacct.txt"), Request(flags=Flags(gpus=256)))
    advice.sentences()

It reads the log (jobs.py), puts the cluster together (site.py), replays what happened (replayed.py), fits
the lengths of jobs (lengths.py), lets stacks race over windows of the log (race.py), and reports the result
(verdict.py, report.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any

from weft.advise.further import go_on
from weft.advise.jobs import JobLog, first_problem, read_jobs
from weft.advise.race import ROUNDS, SHORTLIST, WINDOW_JOBS, attempt, entrants, planned, race, windows
from weft.advise.replayed import MOST_JOBS, replay
from weft.advise.site import Flags, Site, change_of_size, site_of, what_if
from weft.advise.verdict import Advice, Changed, understood
from weft.errors import InputError
from weft.runs.prepare import compile_kernels
from weft.runs.run import run_grid
from weft.stacks import resolve
from weft.workload.traces.columns import SACCT

__all__ = ["Advice", "Flags", "Request", "advise"]

REPLAY, FIT, RACE, FURTHER, GUESSES, WHAT_IF = (
    "replaying what happened", "fitting lengths", "racing stacks", "further windows", "asking each guess", "what if",
)  # fmt: skip
LEAST_JOBS = 10  # of fewer nothing can be said
SAME_WINDOWS = 4  # windows in which the guesses are compared
FIT_RUNS = 3  # runs that fitting a window is taken to need; a guess, on which only the time left depends
Tell = Callable[[str, int, int], None]  # the step, and how many percent of all steps are done, of 100
Step = Callable[[str, int, int], Callable[[int, int], None]]


@dataclass(frozen=True)
class Steps:
    """Tells how far all steps together have come, so that the time left is that of the whole."""

    tell: Tell
    runs: Mapping[str, float]  # how much work each step is

    def step(self, name: str, part: int = 0, parts: int = 1) -> Callable[[int, int], None]:
        """What a step, or one of its equal parts, calls with what it has done, of how much."""
        names = list(self.runs)
        at = names.index(name)
        before, all_of_it = sum(self.runs[one] for one in names[:at]), sum(self.runs.values())

        def say(done: int, total: int) -> None:
            now = before + self.runs[name] * (part + done / max(total, 1)) / parts
            self.tell(f"{name} (step {at + 1} of {len(names)})", round(100 * now / all_of_it), 100)

        return say


@dataclass(frozen=True)
class Request:
    """What was asked."""

    cluster: Path | None = None
    flags: Flags = field(default_factory=Flags)
    mapping: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    today: str | None = None
    stacks: Sequence[str] = ()  # beside the shortlist, or instead of it
    only: bool = False
    models: Sequence[str] = ()
    what_ifs: Sequence[str] = ()
    rounds: Sequence[int] = ROUNDS
    minutes: float | None = None  # after these rounds, further windows until the interval decides or this time is over
    workers: int | None = None


def advise(
    jobs: Path,
    request: Request,
    tell: Tell | None = None,
    on_compile: Callable[[str], None] | None = None,
    on_understood: Callable[[Mapping[str, Any]], None] | None = None,
    clock_s: Callable[[], float] = monotonic,
) -> Advice:
    """Everything from the log to the advice. Inside `weft.runs.kept.kept`, finished runs are not done again."""
    began_s = clock_s()
    if request.only and not request.stacks:
        raise InputError("--only: name at least one stack with --stack")
    for text in (*request.stacks, *filter(None, [request.today])):
        resolve(text)  # a misspelt name is said at once
    log = read_jobs(jobs, request.mapping, request.format)
    if log.frame.height < LEAST_JOBS:
        first = f" ({why})" if (why := first_problem(log.trace)) else ""
        raise InputError(
            f"{jobs}: {log.frame.height} of {log.trace.n_rows_in:,} rows are finished GPU jobs{first}; advice needs "
            f"{LEAST_JOBS} at least" + f". A good log: {SACCT}" * (log.trace.format == "slurm")
        )
    site = site_of(log, request.cluster, request.flags, list(request.models))
    changes = {text: what_if(site, log, text) for text in request.what_ifs}
    for text, other in changes.items():
        if lost := int(((log.frame["gpus"] > other.n_gpus) & (log.frame["gpus"] <= site.n_gpus)).sum()):
            raise InputError(
                f"--what-if {text}: {lost:,} jobs ask for more than {other.n_gpus:,} GPUs; without them means could "
                "not be compared"
            )
    facts = understood(log, site, request.today)
    facts["what_if"] = {text: size for text, other in changes.items() if (size := change_of_size(site, other))}
    if on_understood is not None:
        on_understood(facts)
    compile_kernels(on_compile)
    shortlist = tuple(request.stacks) if request.only else (*SHORTLIST, *request.stacks)
    step = Steps(tell or (lambda what, done, total: None), _expected(log, site, request, len(shortlist))).step
    happened = replay(log, site, request.today, request.workers, step(REPLAY))
    running, refused = entrants(site, shortlist, (happened.stack, *request.stacks))
    drawn = windows(replace(log, replayed_s=happened.waits_s), sum(request.rounds))
    places = drawn.in_turn(site)
    drawn.fit(site, happened.stack, places, request.workers, step(FIT))
    every = [drawn.under(site, place) for place in places]
    found = race(running, refused, request.rounds, every, request.workers, step(RACE), drawn.side_by_side)
    advice = Advice(log, site, happened, drawn, found, facts)
    if request.minutes is not None:
        advice = go_on(
            advice, request.rounds[-1], request.minutes, lambda: clock_s() - began_s, request.workers, step(FURTHER)
        )
    return replace(
        advice,
        under=_under_each_guess(advice, request, step),
        changes=tuple(
            _changed(advice, text, other, request, step(WHAT_IF, part, len(changes)))
            for part, (text, other) in enumerate(changes.items())
        ),
    )


def _expected(log: JobLog, site: Site, request: Request, stacks: int) -> dict[str, float]:
    """How much work each step is, in runs of a window: an estimate from the jobs that are simulated, all stacks alike.
    Steps without work are left out."""
    windows, guesses = sum(request.rounds), len(site.guesses)
    replayed = min(MOST_JOBS, log.frame.height) / min(WINDOW_JOBS, log.frame.height)
    same = SAME_WINDOWS * (guesses - 1)
    runs = {
        REPLAY: replayed * (FIT_RUNS + 1), FIT: windows * FIT_RUNS, RACE: planned(stacks, request.rounds),
        FURTHER: windows * FIT_RUNS * (request.minutes is not None),
        GUESSES: same * FIT_RUNS + 2 * (same + SAME_WINDOWS) * (guesses > 1),
        WHAT_IF: 2 * windows * len(request.what_ifs),
    }  # fmt: skip
    return {name: float(n) for name, n in runs.items() if n}


def _under_each_guess(advice: Advice, request: Request, step: Step) -> dict[str, list[float]]:
    """The best stack other than today's, over today's, in the same few windows under every guess."""
    rival, drawn, site = advice.rival, advice.drawn, advice.site
    if rival is None or len(site.guesses) == 1:
        return {}
    places = [(i, guess) for guess in site.guesses for i in range(min(SAME_WINDOWS, len(drawn.spans)))]
    drawn.fit(site, advice.reference.stack, places, request.workers, step(GUESSES, 0, 2))
    stacks = (rival.stack, advice.reference.stack)
    tasks = [drawn.under(site, place).under(stack) for place in places for stack in stacks]
    outcomes = run_grid(tasks, request.workers, attempt, step(GUESSES, 1, 2))
    under: dict[str, list[float]] = {guess: [] for guess in site.guesses}
    for (_, guess), a, b in zip(places, outcomes[::2], outcomes[1::2], strict=True):
        if not isinstance(a, str) and not isinstance(b, str):
            under[guess].append(a["jct_mean_s"] / b["jct_mean_s"])
    return under


def _changed(advice: Advice, text: str, other: Site, request: Request, say: Callable[[int, int], None]) -> Changed:
    """Today's and the recommended stack on the changed cluster, in the windows that the race has used."""
    stacks = list(dict.fromkeys((advice.reference.stack, advice.best.stack)))
    places = advice.drawn.in_turn(other)[: min(len(advice.best.outcomes), sum(request.rounds))]
    tasks = [advice.drawn.under(other, place).under(stack) for place in places for stack in stacks]
    outcomes = run_grid(tasks, request.workers, attempt, say)
    size = change_of_size(advice.site, other)
    return Changed(text, other.n_gpus, size, {stack: outcomes[k :: len(stacks)] for k, stack in enumerate(stacks)})
