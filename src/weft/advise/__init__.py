"""Advice for an operator: from a log of jobs to the stack that would have served them best, its price, and how sure
that is.

    advice = weft.advise.advise(Path("sacct.txt"), Request(flags=Flags(gpus=256)))
    advice.sentences()

It reads the log (jobs.py, columns.py), puts the cluster together (site.py), replays what happened (replayed.py), lets
stacks race over windows of the log (race.py), and says what came of it (verdict.py, report.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.advise.jobs import read_jobs
from weft.advise.race import ROUNDS, SHORTLIST, Task, attempt, entrants, race, replicates
from weft.advise.replayed import replay
from weft.advise.site import Flags, Site, site_of, what_if
from weft.advise.verdict import Advice, Changed
from weft.api import compile_kernels
from weft.executors import run_all
from weft.stacks import resolve

__all__ = ["Advice", "Flags", "Request", "advise"]

Tell = Callable[[str, int, int], None]  # what is being done, how many of it are done, of how many


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
    workers: int | None = None


def advise(
    jobs: Path, request: Request, tell: Tell | None = None, on_compile: Callable[[str], None] | None = None
) -> Advice:
    """Everything from the log to the advice. Inside `weft.kept.kept`, finished runs are not done again."""
    say = tell or (lambda what, done, total: None)
    for text in request.stacks:
        resolve(text)  # a misspelt name is said at once
    log = read_jobs(jobs, request.mapping, request.format)
    site = site_of(log, request.cluster, request.flags, list(request.models))
    changes = {text: what_if(site, text) for text in request.what_ifs}
    compile_kernels(on_compile)
    say("replaying what happened", 0, 1)
    happened = replay(log, site, request.today, request.workers)
    shortlist = tuple(request.stacks) if request.only else (*SHORTLIST, *request.stacks)
    running, refused = entrants(site, shortlist, (happened.stack, *request.stacks))
    drawn = replicates(log, site, sum(request.rounds))
    found = race(
        running, refused, request.rounds, drawn, request.workers,
        lambda done, total: say("racing stacks", done, total),
    )  # fmt: skip
    advice = Advice(log, site, happened, found)
    others = [
        _changed(advice, text, other, request, lambda done, total: say("what if", done, total))
        for text, other in changes.items()
    ]
    return Advice(log, site, happened, found, tuple(others))


def _changed(advice: Advice, text: str, other: Site, request: Request, say: Callable[[int, int], None]) -> Changed:
    """Today's and the recommended stack on the changed cluster, in the windows that the race has used."""
    stacks = list(dict.fromkeys((advice.race.entrants[0].stack, advice.best.stack)))
    n = min(len(advice.best.outcomes), 12)
    drawn, _, _ = replicates(advice.log, other, sum(request.rounds))
    tasks = [Task(one, stack) for one in drawn[:n] for stack in stacks]
    outcomes = {}
    for done, (i, outcome) in enumerate(run_all(tasks, request.workers, attempt), 1):
        outcomes[i] = outcome
        say(done, len(tasks))
    by_stack = {stack: [outcomes[i] for i in range(k, len(tasks), len(stacks))] for k, stack in enumerate(stacks)}
    return Changed(text, other.n_gpus, by_stack)
