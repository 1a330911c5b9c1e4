"""Phases: when a job communicates, as its sockets alone show it, and the period, bytes and duty cycle that follow.

In a ring hosts wait for each other, so that a host may send an iteration's bytes in several bursts. The pauses between
iterations, in which the job computes, are longer. Bursts with a shorter pause between them belong to one iteration.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from statistics import median

BEGIN_BYTES = 20_000  # less than this is control traffic: a barrier, a heartbeat
GAP_S = 0.03  # a pause this long ends a burst, and a phase while no volume is known
_KNOWN = 5  # iterations whose median counts
_BURSTS = 40  # that are remembered
_PATIENT = 5  # times as long may a pause be in a phase that is not complete: in a ring hosts wait for each other
_LONG = 0.5  # fraction of a typical pause between iterations: a pause is one of them if it is longer
_LONGER = 1.5  # times a typical pause: a phase that is quiet for so long has ended, even if it is not complete
_LATE = 2.0  # times as long as it should be counts a pause between two looks: who did not look has seen no silence
_CLOSE = 0.02  # bytes that may be missing from a phase, or be too many, as a fraction: headers or rounding


@dataclass(frozen=True)
class Pattern:
    """What an iteration looks like from outside; zeros while nothing is known."""

    period_s: float = 0.0
    phase_s: float = 0.0
    phase_bytes: float = 0.0
    phases: int = 0

    @property
    def duty(self) -> float:
        """Part of the time that is communication."""
        return self.phase_s / self.period_s if self.period_s > 0 else 0.0


@dataclass
class _Burst:
    start_s: float
    end_s: float
    pause_s: float  # before it, as far as anybody looked
    bytes: float = 0.0


class Phases:
    """Fed with (time, bytes that arrived so far, bytes waiting); says when communication begins and ends.

    Somebody looks every `look_s` seconds. Where the whole machine stood still, so did the job."""

    def __init__(self, gap_s: float = GAP_S, look_s: float = math.inf) -> None:
        self.gap_s, self._most_s = gap_s, _LATE * look_s
        self.talking = False
        self.sent = 0.0  # in this phase
        self._base = self._last = -1.0
        self._looked = self._quiet = 0.0  # when; and for how long nothing had moved
        self._waiting = 0
        self._bursts: deque[_Burst] = deque(maxlen=_BURSTS)
        self._open = False  # the last burst goes on
        self._pause_s = 0.0  # that is typical between iterations
        self._seen = Pattern()
        self._count = 0

    def look(self, now: float, acked: float, waiting: int) -> str:
        """ "begins", "ends" or "" for nothing new."""
        if self._base < 0 or acked < self._last:  # the first look, or a connection has gone
            self._base = self._last = acked
            self._looked, self._quiet = now, 0.0
        grown, self._last, self._waiting = acked - self._last, acked, waiting
        moved = grown > 0 or waiting > 0
        pause = self._quiet + min(now - self._looked, self._most_s)
        quiet = self._quiet = 0.0 if moved else pause
        self._looked = now
        self._note(now, grown, moved, pause)
        if not self.talking:
            if acked + waiting - self._base >= BEGIN_BYTES:
                self.talking, self.sent = True, acked - self._base
                return "begins"
            if quiet > self.gap_s:
                self._base = acked  # small talk is over
            return ""
        self.sent = acked - self._base
        if quiet > self._patience() or (quiet > 0 and self._complete()):
            self.talking, self.sent, self._base = False, 0.0, self._last
            self._count += 1
            return "ends"
        return ""

    def _complete(self) -> bool:
        """Whether the phase has all bytes of an iteration, or of two that ran together."""
        return self.volume > 0 and any(abs(self.sent / self.volume - times) <= _CLOSE for times in (1, 2))

    def _patience(self) -> float:
        """How long the phase may be quiet. One with more than an iteration's bytes is not waited for as long."""
        if self.volume <= 0:
            return self.gap_s
        long = _LONGER * self._pause_s if self.sent <= (1 + _CLOSE) * self.volume else 0.0
        return max(_PATIENT * self.gap_s, long)

    def _note(self, now: float, grown: float, moved: bool, pause: float) -> None:
        """Take the look down as part of a burst, or of the pause after one."""
        if moved:
            if not self._open:
                if self._bursts and self._bursts[-1].bytes < BEGIN_BYTES:
                    small = self._bursts.pop()
                    pause += small.pause_s + small.end_s - small.start_s
                self._bursts.append(_Burst(now, now, pause))
                self._open = True
            self._bursts[-1].end_s = now
            self._bursts[-1].bytes += grown
        elif self._open and pause > self.gap_s:
            self._open = False
            if self._bursts[-1].bytes >= BEGIN_BYTES:
                self._learn()

    def _learn(self) -> None:
        """Put bursts together to iterations."""
        pauses = sorted((burst.pause_s for burst in islice(self._bursts, 1, None)), reverse=True)
        if len(pauses) < 2:
            return
        shortest = _LONG * pauses[1]  # the longest may be an accident
        groups: list[_Burst] = []
        between: list[float] = []
        for burst in self._bursts:
            if groups and burst.pause_s < shortest:
                groups[-1].end_s = burst.end_s
                groups[-1].bytes += burst.bytes
            else:
                between.append(burst.pause_s)
                groups.append(replace(burst))
        if len(groups) < 3:
            return
        groups, self._pause_s = groups[-_KNOWN - 1 :], median(between[1:][-_KNOWN:])
        last = groups[-_KNOWN:]
        self._seen = Pattern(
            median(b.start_s - a.start_s for a, b in pairwise(groups)),
            median(group.end_s - group.start_s for group in last),
            median(group.bytes for group in last),
        )

    @property
    def volume(self) -> float:
        """Bytes of a phase; 0 while fewer than three were seen."""
        return self._seen.phase_bytes

    @property
    def left(self) -> float:
        """Bytes that this phase has yet to send, as far as is known."""
        return max(self.volume - self.sent, float(self._waiting)) if self.talking else 0.0

    @property
    def pattern(self) -> Pattern:
        """Medians of the last iterations."""
        seen = self._seen
        return Pattern(seen.period_s, seen.phase_s, seen.phase_bytes, self._count)
