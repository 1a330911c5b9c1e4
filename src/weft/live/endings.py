"""What the end of an attempt means: is the job done, to be started again, or over?

- Exit code 0 is done. One exception: a job that was told to stop (SIGTERM), reports its progress and has not reported
  its last iteration has saved its state and left politely; it is started again.
- An end that was asked for (a stop) means again, whatever the exit code. A cancelled job is over.
- Any other exit code is a failure: again, as often as the job's `restarts` say, then over.
- A runner that was killed or did not come up is not the job's fault: again, up to five times more.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum

from weft.live.attempt import Ended, Progress
from weft.live.description import Description

__all__ = ["Ending", "Verdict", "judge", "saved_in"]

_OUR_FAULT = 5  # times that a job is started again after something that is no fault of its own


class Ending(Enum):
    """What becomes of the job."""

    FINISHED = "finished"
    AGAIN = "again"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of the job, how it ended in words, and the iterations that are kept."""

    ending: Ending
    words: str
    saved: int


def judge(
    ended: Ended, progress: Progress, description: Description, failures: int, stopping: bool, cancelled: bool
) -> Verdict:
    """The rules above. `failures` are those before this one."""
    saved = saved_in(progress, description.checkpoint_every)
    own_fault = not ended.lost and (not ended.terminated or ended.error != "")
    words = _words(ended)
    if _done(ended, progress, description):
        return Verdict(Ending.FINISHED, words, saved)
    if cancelled:
        return Verdict(Ending.OVER, f"cancelled; {words}", saved)
    if stopping:
        return Verdict(Ending.AGAIN, f"stopped as asked; {words}", saved)
    allowed = description.restarts + (0 if own_fault else _OUR_FAULT)
    if failures < allowed:
        return Verdict(Ending.AGAIN, f"{words}; started again ({failures + 1} of {allowed})", saved)
    after = f" after {failures} restart{'s' * (failures > 1)}" if failures else ""
    return Verdict(Ending.OVER, f"failed{after}: {words}", saved)


def _done(ended: Ended, progress: Progress, description: Description) -> bool:
    if ended.code != 0 or ended.lost or ended.error:
        return False
    left_politely = ended.terminated and progress.reports > 0
    return not left_politely or 0 < description.iterations <= progress.step


def saved_in(progress: Progress, every: int) -> int:
    """The last checkpoint: the one that the job reported, else the last multiple of `checkpoint_every`."""
    if progress.saved >= 0:
        return progress.saved
    return max(0, progress.step) // every * every


def _words(ended: Ended) -> str:
    if ended.error:
        return ended.error
    if ended.code < 0:
        try:
            return f"ended by {signal.Signals(-ended.code).name}"
        except ValueError:
            return f"ended by signal {-ended.code}"
    return f"exited with code {ended.code}"
