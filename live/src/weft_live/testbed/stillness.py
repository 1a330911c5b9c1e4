"""Stillness: whether a machine stood still meanwhile; what was measured then says nothing about a network.

A process that does nothing but sleep watches. Where it slept for much too long, or a hypervisor gave the processors to
others, the run beside it was disturbed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

STALL_S = 0.05  # from which measured times mean nothing
STOLEN = 0.1  # the share of processor time from which they do not, either
TRIES = 3
T = TypeVar("T")

_WATCHER = """
import select, time
longest, told, before = 0.0, [], time.monotonic()
print(flush=True)
while not told:
    told = select.select([0], [], [], 0.005)[0]
    now = time.monotonic()
    longest, before = max(longest, now - before - 0.005), now
print(longest)
"""


def processor_time(stat: Path = Path("/proc/stat")) -> tuple[int, int]:
    """Ticks that a hypervisor gave to others while this machine wanted them, and all ticks; zeros where unknown."""
    try:
        ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0, 0)


def stolen_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The share of processor time between two looks at it that others had."""
    ticks = after[1] - before[1]
    return (after[0] - before[0]) / ticks if ticks > 0 else 0.0


@contextmanager
def standstill() -> Iterator[Callable[[], str]]:
    """Yields what says, afterwards, how the machine stood still meanwhile; nothing if it did not."""
    said = ""
    # A process of its own: a thread would wait for this interpreter. Ctrl-C is not for it.
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", _WATCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as watcher:  # fmt: skip
        assert watcher.stdout is not None
        watcher.stdout.readline()
        before = processor_time()
        try:
            yield lambda: said
        finally:
            longest_s, share = float(watcher.communicate("\n")[0]), stolen_share(before, processor_time())
            if longest_s > STALL_S:
                said = f"the machine stood still for {1e3 * longest_s:.0f} ms"
            elif share > STOLEN:
                said = f"a hypervisor had {share:.0%} of the processor time"


class Undisturbed:
    """Runs again what was disturbed, and keeps in mind what stayed so: numbers from it are not judged."""

    def __init__(
        self, say: Callable[[str], None] = lambda text: None, watch: Callable[[], object] = standstill
    ) -> None:
        self.say, self._watch = say, watch
        self.why: list[str] = []  # of each run that was disturbed in all its tries

    def run(self, play: Callable[[], T]) -> T:
        """What `play` found while the machine did not stand still, or else at its last try."""
        for attempt in range(TRIES):
            with self._watch() as why:  # type: ignore[attr-defined]
                found = play()
            if not why():
                return found
            self.say(f"{why()}; {'once more' if attempt < TRIES - 1 else 'not judged'}")
        self.why.append(why())
        return found

    def judged(self) -> str:
        """Why what was run since the last question is not judged; nothing if it is."""
        found, self.why = self.why, []
        return found[-1] if found else ""
