"""Questions about what comes, asked of a live run's ledger or of a Slurm that weft only looks at; answers in words."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.advise.forward import BUDGET_S, ON_GPUS, Present, unknown
from weft.core.stack import Stack
from weft.errors import InputError
from weft.model.job import Job
from weft.model.reason import speak
from weft.results.display import duration
from weft.stacks import resolve
from weft_live.ahead import Defrag, Effect, Forecast, Range, forecasts
from weft_live.answers import FILE as ANSWERS
from weft_live.answers import Answers
from weft_live.server.ledger import Ledger
from weft_live.server.present import MOST_PAST, present_of
from weft_live.slurm import glance
from weft_live.slurm.commands import Slurm

_UNIT_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
WORTH_S = 60.0  # a shorter wait needs no advice about fewer GPUs
MOST_OTHERS = 8  # samples of a comparison


@dataclass(frozen=True)
class Situation:
    """A state, what schedules it, and how to tell its times."""

    present: Present
    stack: Stack
    zero_s: float  # wall time of the state's zero
    notes: tuple[str, ...] = ()

    def at(self, ahead_s: float) -> str:
        """A moment ahead as a clock shows it, with the date if that is another day's."""
        if not math.isfinite(ahead_s):
            return "later than in 60 days"
        then = time.localtime(self.zero_s + self.present.now_s + ahead_s)
        today = time.localtime(self.zero_s + self.present.now_s)
        return time.strftime("%H:%M" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)

    def range(self, r: Range) -> str:
        """When something happens, in the space of a column."""
        return f"{self.at(r.middle)} ({self.at(r.low)} to {self.at(r.high)})"


def situation(folder: Path, slurm: Slurm | None, partitions: frozenset[str]) -> Situation:
    """What is known now; what became of earlier answers is noted beside it."""
    if slurm is not None:
        with closing(Answers(folder)) as answers:
            seen = glance.look(slurm, partitions, answers.past(MOST_PAST))
            answers.saw(seen.ended)
            answers.started(seen.started)
        notes: tuple[str, ...] = (f"{glance.STACK} stands for Slurm's own scheduler; it keeps no reservations",)
        if not seen.accounting:
            n = len(seen.present.past)
            notes += (f"sacct tells nothing here: lengths are those of {n} jobs that weft when itself has seen end",)
        return Situation(seen.present, resolve(glance.STACK), 0.0, (*notes, *_length_notes(seen.present)))
    with closing(Ledger(folder, read_only=True)) as ledger:
        present, stack, zero_s = present_of(ledger)
        note_starts(folder, ledger, zero_s)
    return Situation(present, stack, zero_s, _length_notes(present))


def note_starts(folder: Path, ledger: Ledger, zero_s: float) -> None:
    """Tell the answers that were given which of their jobs have started since."""
    if not (folder / ANSWERS).exists():
        return
    with closing(Answers(folder)) as answers:
        starts = {}
        for job in answers.open():
            first = next((row.time_s for _, row in ledger.decisions(job) if row.action == "start"), None)
            if first is not None:
                starts[job] = zero_s + first
        answers.started(starts)


def _length_notes(present: Present) -> tuple[str, ...]:
    if len(present.past) >= 20:
        return ()
    return (f"only {len(present.past)} jobs have ended: each is taken to last as long as it claims",)


def job_of(gpus: int, length_s: float | None, user: str, present: Present) -> tuple[str, Present]:
    """The state with a job that is not submitted yet."""
    if gpus > present.cluster.n_gpus:
        raise InputError(f"--gpus {gpus}: the cluster has {present.cluster.n_gpus} GPUs; ask for fewer")
    taken = {job.id for job in present.jobs}
    name = next(name for i in range(len(taken) + 1) if (name := f"new{i or ''}") not in taken)
    job = Job(name, present.now_s, gpus, max(1, round(length_s or 86_400.0)), {gpus: unknown(gpus)}, user=user)
    return name, present.with_job(job, length_s)


def seconds(text: str, option: str) -> float:
    """A length such as 90, 30m, 4h or 2d."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise InputError(f"{option} {text}: write seconds, or 30m, 4h, 2d")
    return float(match[1]) * _UNIT_S[match[2]]


@dataclass(frozen=True)
class Answer:
    """When a job starts; the same with fewer GPUs, and under other stacks."""

    own: Forecast
    fewer: Forecast | None
    stacks: Mapping[str, Forecast]


def ask(at: Situation, job: str, stacks: Sequence[str], n: int | None = None) -> Answer:
    """Ask about one job that waits."""
    view = at.present.job(job)
    if view.status in ON_GPUS:
        raise InputError(f"{job}: it runs already; weft queue says where")
    if view.barred:
        raise InputError(f"{job}: no start can be given: {speak(view.barred)}")
    own = forecasts(at.present, at.stack, [job], n=n, budget_s=BUDGET_S / 2)[0]
    few = max(2, min(MOST_OTHERS, own.starts_in.samples // 2))
    fewer = None
    if view.job.gpus > 1 and own.starts_in.middle > WORTH_S:
        fewer = forecasts(at.present.resized(job, view.job.gpus // 2), at.stack, [job], n=few)[0]
    others = {name: forecasts(at.present, resolve(name), [job], n=few)[0] for name in stacks}
    return Answer(own, fewer, others)


def answer_words(at: Situation, answer: Answer) -> list[str]:
    """An answer in sentences."""
    own = answer.own
    r = own.starts_in
    lines = [f"{own.job} starts {_when(at, r)}."]
    if r.middle > 1.0:
        parts = [f"wants {own.gpus} GPUs", f"{own.free} are free"]
        parts += [f"job {one.job} holds {one.gpus} until about {at.at(one.until.middle)}" for one in own.blockers]
        if own.ahead:
            parts.append(f"{own.ahead} jobs that wait start before it")
        lines.append(f"It {'; '.join(parts)}.")
    if answer.fewer is not None:
        lines.append(f"With {answer.fewer.gpus} GPUs it would start {_when(at, answer.fewer.starts_in)}.")
    lines += [f"Under {name} it would start {_when(at, one.starts_in)}." for name, one in answer.stacks.items()]
    return lines


def _when(at: Situation, r: Range) -> str:
    if not math.isfinite(r.middle):
        return "later than in 60 days, if ever"
    if r.high < 1.0:
        return "at once"
    high = duration(r.high) if math.isfinite(r.high) else "more than 60 days"
    return f"in about {duration(r.middle)}, at {at.at(r.middle)} (10 to 90 %: {duration(r.low)} to {high})"


def effect_words(at: Situation, change: str, found: Effect) -> list[str]:
    """What a change does, in sentences: to all, to each user, and to the jobs that it moves most."""
    lines = [f"{change}: {found.all['jobs']} jobs that wait start {_later(found.all)} on average."]
    users = sorted(found.by_user.items(), key=lambda pair: -abs(pair[1]["mean"]))
    lines += [f"  {user or '(no user)'}: {one['jobs']} jobs, {_later(one)}" for user, one in users[:10]]
    most = sorted(found.by_job.items(), key=lambda pair: -abs(pair[1]))[:5]
    lines += [f"  job {job}: {duration(abs(s))} {'later' if s > 0 else 'earlier'}" for job, s in most if abs(s) >= 1.0]
    if found.never:
        lines.append(f"  never start any more: {', '.join(found.never[:20])}")
    return lines


def _later(one: Mapping[str, Any]) -> str:
    mean, (low, high) = one["mean"], one["ci95"]
    if abs(mean) < 1.0:
        return "as before"
    sign = 1 if mean > 0 else -1
    between = "" if low is None else f" (95 %: {_signed(sign * low)} to {_signed(sign * high)})"
    if low is not None and sign < 0:
        between = f" (95 %: {_signed(-high)} to {_signed(-low)})"
    return f"{duration(abs(mean))} {'later' if mean > 0 else 'earlier'}{between}"


def _signed(value_s: float) -> str:
    return f"-{duration(-value_s)}" if value_s < 0 else duration(value_s)


def defrag_words(at: Situation, found: Defrag) -> list[str]:
    """Which jobs to move, and what comes of it."""
    if not found.moves:
        fixed = f"; {len(found.fixed)} running jobs cannot resume and stay" if found.fixed else ""
        return [f"No move frees a rack: the jobs of no rack fit elsewhere{fixed}."]
    server = at.present.cluster.server_of_gpu
    names = [one.name for one in at.present.cluster.servers]
    lines = []
    for move in found.moves:
        to = dict.fromkeys(names[int(server[gpu])] for gpu in move.to)
        lines.append(f"Move job {move.job} ({move.gpus} GPUs) to {', '.join(to)}: costs {move.cost_gpu_s:,.0f} GPU s.")
    (racks, after), (largest, larger) = found.racks_free, found.largest
    lines.append(
        f"Whole racks without a job: {after} instead of {racks}; free in one rack: {larger} GPUs, not {largest}."
    )
    at_once = f"Jobs that start at once then: {', '.join(found.starts)}." if found.starts else "No job starts at once."
    wins, (low, high) = found.wins_gpu_s["mean"], found.wins_gpu_s["ci95"]
    between = "" if low is None else f" (95 %: {low:,.0f} to {high:,.0f})"
    return [*lines, at_once, f"Less what it costs, waiting jobs win {wins:,.0f} GPU s{between}."]


def all_starts(at: Situation, n: int | None = None) -> dict[str, Forecast]:
    """When every job that waits starts."""
    return {one.job: one for one in forecasts(at.present, at.stack, at.present.waiting, n=n)}


def keep(folder: Path, at: Situation, answers: Sequence[Forecast]) -> str:
    """Keep answers, to be compared with what comes; why not, if that cannot be."""
    try:
        with closing(Answers(folder)) as kept:
            kept.give(at.zero_s + at.present.now_s, answers)
    except InputError as error:
        return str(error)
    return ""


def under(at: Situation, stack: str | None) -> Situation:
    """The same, scheduled by another stack."""
    return at if stack is None else replace(at, stack=resolve(stack))
