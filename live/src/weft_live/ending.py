"""Ending: what the end of an attempt means for its job, in every world.

- A job that is done has finished. A cancelled job is over. After a stop that was asked for, it waits again.
- If it failed by itself, it is started again as often as it says, or the operator allows, and then is over.
- If it is not at fault (its runner was killed, its node was lost), it is placed anew, at most five times in a row.
- It pauses before it is started again: for a second at first, and twice as long each time, up to ten minutes. After an
  attempt that ran for ten minutes it is a second again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from weft.model.reason import Reason, Why, because, code_of
from weft_live.words import AGAIN

OTHERS_FAULT = 5  # times in a row that a job is started again after something that is no fault of its own
PAUSE_S = (1.0, 600.0)  # before a job that failed is started again: at first, doubling, and at most
RAN_WELL_S = 600.0  # an attempt that ran that long was no false start


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the operator allows, whatever jobs ask for."""

    restarts: int = 1000  # of one job
    grace_s: float = 600.0  # between a warning and a stop
    keep_s: float = 30 * 86400.0  # folders of attempts that have ended


BOUNDS: Final = Bounds()


@dataclass(frozen=True, slots=True)
class Faults:
    """How often a job was started again because it failed."""

    own: int = 0  # ever, by itself
    others: int = 0  # in a row, by no fault of its own, and nothing was saved
    row: int = 0  # in a row, soon after its start

    @staticmethod
    def told(whys: Iterable[Why]) -> Faults:
        """As the reasons tell it with which a job's attempts ended."""
        found = Faults()
        for why in whys:
            if isinstance(why, Reason) and code_of(why) in AGAIN:
                own = AGAIN[why.code] == "own"
                found = Faults(found.own + own, 0 if own else found.others + 1, int(why["row"]))
        return found


NONE: Final = Faults()


class Becomes(Enum):
    """What becomes of the job."""

    FINISHED = "finished"
    AGAIN = "again"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a job, why, what has been counted, and seconds until it may be started again."""

    becomes: Becomes
    why: Why
    faults: Faults
    pause_s: float = 0.0


def judge(
    how: Why, faults: Faults, restarts: int, *, done: bool, own: bool, stopping: bool, cancelled: bool, ran_s: float
) -> Verdict:
    """The rules above. `own`: the job is at fault. `how` is how its attempt ended, `faults` those before this one."""
    if done:
        return Verdict(Becomes.FINISHED, how, faults)
    if cancelled:
        return Verdict(Becomes.OVER, because("live.cancelled", how=how), faults)
    if stopping:
        return Verdict(Becomes.AGAIN, because("live.stopped", how=how), faults)
    before, allowed = (faults.own, restarts) if own else (faults.others, OTHERS_FAULT)
    if before >= allowed:
        return Verdict(Becomes.OVER, because("live.failed", how=how, restarts=before), faults)
    row = _row(faults, ran_s)
    if own:
        why = because("live.again", how=how, nth=before + 1, allowed=allowed, row=row)
        return Verdict(Becomes.AGAIN, why, replace(faults, own=before + 1, row=row), _pause_s(row))
    why = because("live.anew", how=how, row=row)
    return Verdict(Becomes.AGAIN, why, replace(faults, others=before + 1, row=row), _pause_s(row))


def requeued(how: Why, faults: Faults, ran_s: float) -> Verdict:
    """Somebody has requeued it, who need not be asked why; but who does so again and again waits longer each time."""
    row = _row(faults, ran_s)
    return Verdict(Becomes.AGAIN, how, replace(faults, row=row), _pause_s(row))


def _row(faults: Faults, ran_s: float) -> int:
    return 1 if ran_s >= RAN_WELL_S else min(faults.row + 1, 30)


def _pause_s(row: int) -> float:
    return min(PAUSE_S[0] * 2.0 ** (row - 1), PAUSE_S[1])


def pausing(verdict: Verdict) -> Reason:
    """Why a job that is to be started again waits."""
    return because("live.pause", how=verdict.why, seconds=verdict.pause_s)
