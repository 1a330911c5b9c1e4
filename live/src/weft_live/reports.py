"""How the runner and Slurm's relay treat a job's reports: they take lines, answer with its gate and keep its progress.

Bare interpreters beside the job run both, so this module needs only the standard library and does not import weft.
"""

from __future__ import annotations

import json
import os
import socket
import time
import zlib
from collections import deque

MOST_CONNECTIONS = 64
LONGEST_LINE = 4096  # a job that sends more without a newline is not talking to us
PER_LOOK = 8192  # bytes taken from one connection before the others, and the job's own end, are looked at
RECENT = 21  # iterations whose median is the measured speed
SEEN = 5  # iterations by whose median it is judged whether a gate fits
EARLY = 10  # iterations in a row that were ready before their opening, after which a few are measured without the gate
SHORTEST, LATE = 0.7, 0.02  # in periods: a gate fits iterations from the first up to 1 + tolerance + the second
RECORD = 96  # bytes of the progress file


class Keeper:
    """Applies a gate as long as it fits: a job whose own iterations are longer than the period would wait for every
    second opening, and one whose iterations are much shorter would idle. Both are let go within a few iterations, and
    are held again when their iterations fit again. One that is ready before its opening ten times in a row runs a few
    iterations without the gate: if these are shorter than the period, too, it is let go; if not, the gate does it
    good, and it is asked half as often from then on."""

    def __init__(self, gate: dict[str, float] | None) -> None:
        self.own: deque[float] = deque(maxlen=SEEN)  # seconds of the last iterations, waiting left out
        self.decided = (-1, 0.0)  # the last step that asked inside its iteration, and when it may go on
        self.last: dict[int, tuple[int, float]] = {}  # by rank: the step it reported, and when it could go on
        self.set(gate)

    def set(self, gate: dict[str, float] | None) -> None:
        """Another gate; what is known of the iterations stays."""
        self.gate = gate
        self.early, self.most_early = 0, EARLY  # iterations in a row that were ready too early, and how many may be
        self.trial = 0  # iterations that are still to be measured without the gate
        self.idle = False  # measured so, they were shorter than its period

    def at(self, step: int, rank: object, now: float, by_gate: float, inside: bool = False) -> float:
        """When a rank that has done that many steps may go on; `by_gate` is the time by the clock of the gate.

        `inside`: it stands before the task that the gate names, not before the iteration. The first rank that asks
        there decides for all: one that came a moment later must not wait for another opening.
        """
        number = rank if isinstance(rank, int) else 0
        if inside and self.decided[0] == step and self.decided[1] > now - self.patience():
            return max(self.decided[1], now)
        before = self.last.get(number)
        if before is not None and step > before[0] and number == min(self.last):
            self.own.append((now - before[1]) / (step - before[0]))
            self.measure()
        if inside and self.gate is not None:
            by_gate -= self.gate.get("offset", 0.0)
        at = now if self.misfits() else now + opening(self.gate, by_gate) - by_gate
        if number == min(self.last, default=number) and (before is None or step > before[0]) and not self.trial:
            self.early = self.early + 1 if at - now > self.slack() else 0
        if inside:
            self.decided = (step, at)
        if number in self.last or len(self.last) < MOST_CONNECTIONS:
            self.last[number] = (step, max(at, now))
        return at

    def slack(self) -> float:
        """How much earlier than its opening an iteration may be ready."""
        return self.gate["tolerance"] * self.gate["period"] if self.gate is not None else 0.0

    def measure(self) -> None:
        """An iteration is over: whether the next ones run without the gate, and what came of it."""
        if self.gate is None or self.gate["period"] <= 0:
            return
        shorter = sorted(self.own)[len(self.own) // 2] < self.gate["period"] - self.slack()
        if self.trial:
            self.trial -= 1
            if not self.trial:
                self.idle, self.most_early = shorter, 2 * self.most_early
        elif self.early >= self.most_early:
            self.early, self.trial = 0, SEEN + 1  # the first of them still was held
        self.idle = self.idle and shorter

    def patience(self) -> float:
        """How long an answer stands for the other ranks of a step: half a period."""
        return self.gate["period"] / 2 if self.gate is not None else 0.0

    def misfits(self) -> bool:
        """Whether the job's own iterations, at the median, are not those that the gate is for."""
        if self.gate is None or self.gate["period"] <= 0 or len(self.own) < SEEN:
            return False
        if self.trial or self.idle:
            return True
        own = sorted(self.own)[len(self.own) // 2] / self.gate["period"]
        return not SHORTEST <= own <= 1 + self.gate["tolerance"] + LATE


def opening(gate: dict[str, float] | None, now: float) -> float:
    """When the next iteration may begin: now, or at the next opening of the gate if it is late for this one.

    The same rule as the simulator's: openings are epoch + k x period; later than the tolerance (a fraction of the
    period) means the next opening. Period 0 is a one-off delay until the epoch.
    """
    if gate is None:
        return now
    epoch, period = gate["epoch"], gate["period"]
    if period <= 0:
        return max(now, epoch)
    late = (now - epoch) % period
    return now if late <= gate["tolerance"] * period else now + period - late


class Connection:
    """Lines from a process of the job, or from the server."""

    def __init__(self, connected: socket.socket, control: bool) -> None:
        self.socket = connected
        self.control = control  # from the server
        self.socket.setblocking(False)
        self.rest = b""

    def read(self) -> list[bytes] | None:
        """Whole lines that have come; None at the end, or if they are too long."""
        try:
            data = self.socket.recv(PER_LOOK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        *lines, self.rest = (self.rest + data).split(b"\n")
        if not data or len(self.rest) > LONGEST_LINE:
            return None
        return lines

    def send(self, data: bytes) -> bool:
        """False if the other side does not read."""
        if not data:
            return True
        try:
            return self.socket.send(data) == len(data)
        except OSError:
            return False


class Record:
    """How far the job is, kept in the file `progress`: step, saved step, reports, median iteration."""

    def __init__(self, iterations: int) -> None:
        self.most = iterations or 2**53
        self.step = -1
        self.saved = -1
        self.reports = 0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.since = 0.0
        self.changed = False
        self.file = os.open("progress", os.O_WRONLY | os.O_CREAT, 0o600)

    def report(self, step: int, saved: bool, now: float, goes_on: float) -> None:
        """`step` iterations are done, and the next begins at `goes_on`."""
        step = min(step, self.most)
        if self.reports and step > self.step:
            self.recent.append((now - self.since) / (step - self.step))
        self.since = goes_on
        self.reports += 1
        self.step = max(self.step, step)
        self.saved = max(self.saved, step) if saved else self.saved
        self.changed = True

    def write(self) -> None:
        """To the file, if there is anything new."""
        if self.changed:
            self.changed = False
            speed = sorted(self.recent)[len(self.recent) // 2] if self.recent else 0.0
            text = f"{self.step} {self.saved} {self.reports} {speed:.9g}".encode()
            os.pwrite(self.file, (b"%08x %s" % (zlib.crc32(text), text)).ljust(RECORD), 0)


def understood(line: bytes) -> object:
    """A message; None if it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def answer(message: object, keeper: Keeper, record: Record | None, *, by_wall: bool) -> bytes | None:
    """The answer to a report, of which rank 0's are kept; None if the message is no report. `by_wall`: the gate's clock
    is the wall's, and not this machine's own."""
    match message:
        case {"step": int(step), **rest} if not isinstance(step, bool) and 0 <= step < 2**53:
            now, rank, inside = time.monotonic(), rest.get("rank", 0), rest.get("inside") is True
            at = keeper.at(step, rank, now, time.time() if by_wall else now, inside)
            if rank == 0 and record is not None and not (inside and step <= record.step):
                record.report(step, rest.get("saved") is True, now, max(at, now))
            return b"{}\n" if at <= now else b'{"at": %r}\n' % at
        case _:
            return None


def listen(name: str) -> socket.socket:
    """A socket in the attempt's folder, for its owner alone; a relative name, since a long path cannot be bound."""
    before = os.umask(0o077)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(name)
    listener.listen(16)
    listener.setblocking(False)
    os.umask(before)
    return listener
