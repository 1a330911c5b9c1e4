"""Phases: when a job communicates, seen from its sockets alone; and from that its period, bytes and duty cycle."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

BEGIN_BYTES = 20_000  # less than this is control traffic: a barrier, a heartbeat
GAP_S = 0.03  # a pause this long ends a phase whose volume is not known yet
_KNOWN = 5  # phases whose median is the volume of an iteration
_PATIENT = 5  # times as long may a pause be in a phase that is not complete: in a ring hosts wait for each other
_CLOSE = 0.98  # fraction of a phase's volume that counts as all of it: the rest may be headers or rounding


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


class Phases:
    """Fed with (time, bytes that arrived so far, bytes waiting); says when communication begins and ends."""

    def __init__(self, gap_s: float = GAP_S) -> None:
        self.gap_s = gap_s
        self.talking = False
        self.sent = 0.0  # in this phase
        self._base = self._last = -1.0
        self._since = self._moved = 0.0
        self._waiting = 0
        self._starts: deque[float] = deque(maxlen=_KNOWN + 1)
        self._lengths: deque[float] = deque(maxlen=_KNOWN)
        self._volumes: deque[float] = deque(maxlen=_KNOWN)
        self._count = 0

    def look(self, now: float, acked: float, waiting: int) -> str:
        """ "begins", "ends" or "" for nothing new."""
        if self._base < 0 or acked < self._last:  # the first look, or a connection has gone
            self._base = self._last = acked
            self._moved = now
        moved = acked > self._last or waiting > 0
        self._last, self._waiting = acked, waiting
        if not self.talking:
            if acked + waiting - self._base >= BEGIN_BYTES:
                self.talking, self._since, self._moved = True, now, now
                self.sent = acked - self._base
                return "begins"
            if moved:
                self._moved = now
            elif now - self._moved > self.gap_s:
                self._base = acked  # small talk is over
            return ""
        self.sent = acked - self._base
        if moved:
            self._moved = now
        quiet = now - self._moved
        complete = self.volume > 0 and abs(self.sent / self.volume - 1) <= 1 - _CLOSE and not waiting
        patience = self.gap_s if self.volume <= 0 else _PATIENT * self.gap_s
        if quiet > patience or (complete and quiet > 0):
            self._end(now - quiet)
            return "ends"
        return ""

    def _end(self, at: float) -> None:
        self.talking = False
        self._base = self._last
        self._count += 1
        self._starts.append(self._since)
        self._lengths.append(at - self._since)
        self._volumes.append(self.sent)
        self.sent = 0.0

    @property
    def volume(self) -> float:
        """Bytes of a phase; 0 while fewer than three were seen."""
        return median(self._volumes) if len(self._volumes) >= 3 else 0.0

    @property
    def left(self) -> float:
        """Bytes that this phase has yet to send, as far as is known."""
        return max(self.volume - self.sent, float(self._waiting)) if self.talking else 0.0

    @property
    def pattern(self) -> Pattern:
        """Medians of the last iterations."""
        if len(self._starts) < 3:
            return Pattern(phases=self._count)
        starts = list(self._starts)
        period = median(b - a for a, b in pairwise(starts))
        return Pattern(period, median(self._lengths), median(self._volumes), self._count)
