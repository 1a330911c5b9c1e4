"""Ruling: a rate rule of the simulator, asked about the flows of real jobs.

A rule keeps what it knows about a flow under the flow's row. So the flows of a job keep their rows from its start to
its end, and the rule is told of every phase that begins and ends, as the engine tells it of transfers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.model.flows import FlowRows, flow_set
from weft.policies.pace.rates import Carried, Demand, Floats, Ints, Limits, Moment, RateRule, resized
from weft_live.agent.fill import fill

Sent = Mapping[tuple[str, str], tuple[float, float]]  # by job and host: bytes of this phase, and of all of them
FULL = 0.95  # fraction of its capacity at which a link keeps flows from sending more
_LEAST = 0.05  # fraction of a slot: the least that counts as left when a phase begins at its very end


@dataclass
class _Flows:
    """Where the flows of a job lie, and what its hosts had sent when the slot began."""

    first: int
    senders: tuple[str, ...]
    before: dict[str, float] = field(default_factory=dict)

    @property
    def rows(self) -> Ints:
        return np.arange(self.first, self.first + len(self.senders))


class Ruling:
    """See the module. Jobs are known by name."""

    def __init__(self, rule: RateRule, capacity: Floats, seed: int = 0) -> None:
        self.rule, self.capacity = rule, capacity
        self.flows = flow_set(16, 1)
        self._jobs: dict[str, _Flows] = {}
        self._free: list[tuple[int, int]] = [(0, 16)]  # stretches of rows: where they begin and end
        self._caps, self._weights, self._levels = np.zeros(16), np.zeros(16, np.int64), np.zeros(16, np.int64)
        self._slot, self._noted = -1, 0.0
        self._begun: set[int] = set()  # rows that the rule is to be asked about though no slot begins
        rule.begin(Demand(capacity, seed))

    def add(self, name: str, uid: int, rows: FlowRows, senders: tuple[str, ...]) -> None:
        """A job has started; `rows` is what is known of its phases."""
        self._jobs[name] = _Flows(self._room(len(rows), rows), senders)
        self._put(name, uid, rows)

    def remove(self, name: str) -> None:
        """A job has ended."""
        mine = self._jobs.pop(name)
        self._end(mine.rows)
        self.rule.gone(mine.rows, self.flows)
        self._free.append((mine.first, mine.first + len(mine.senders)))

    def begin(self, name: str, uid: int, rows: FlowRows) -> None:
        """A phase may send; more may be known of the job than before the last one."""
        mine = self._jobs[name].rows
        self._end(mine)
        self._put(name, uid, rows)
        self.flows.active[mine] = True
        self._begun.update(mine.tolist())

    def end(self, name: str) -> None:
        """A phase is over."""
        self._end(self._jobs[name].rows)

    def rates(self, now: float, sent: Sent) -> dict[tuple[str, str], float | None]:
        """Bytes per second by job and host of all phases that may send; None: no limit."""
        for name, mine in self._jobs.items():
            for row, host in zip(mine.rows.tolist(), mine.senders, strict=True):
                if self.flows.active[row]:
                    self.flows.sent[row] = min(sent.get((name, host), (0.0, 0.0))[0], self.flows.size[row])
        live = np.flatnonzero(self.flows.active)
        if not len(live):
            return {}
        self._decide(now, live, sent)
        given = fill(self.flows.path[live], self.capacity, Limits(self._caps, self._weights, self._levels), live)
        rate = dict(zip(live.tolist(), given, strict=True))
        found: dict[tuple[str, str], float | None] = {}
        for name, mine in self._jobs.items():
            for row, host in zip(mine.rows.tolist(), mine.senders, strict=True):
                if row in rate:
                    before, more = found.get((name, host), 0.0), rate[row]
                    found[name, host] = None if more is None or before is None else before + more
        return found

    def wake(self, now: float) -> float:
        """When the next slot begins, if anything is sent."""
        if not self.flows.active.any():
            return math.inf
        if not math.isfinite(self.rule.slot_s):
            return now + self.rule.again_s
        return (math.floor(now / self.rule.slot_s) + 1) * self.rule.slot_s

    # Rows

    def _room(self, n: int, rows: FlowRows) -> int:
        """Where n rows in a line are free."""
        width = max(map(len, rows.paths), default=1)
        fits = [stretch for stretch in self._free if stretch[1] - stretch[0] >= n]
        if not fits or width > self.flows.path.shape[1]:
            old = len(self.flows)
            size = old if fits else 2 * old + n
            self.flows = self.flows.grown(size, width)
            if not fits:
                self._free.append((old, size))
                self._caps = resized(self._caps, size)
                self._weights, self._levels = resized(self._weights, size), resized(self._levels, size)
                fits = self._free[-1:]
        first, end = smallest = min(fits, key=lambda stretch: stretch[1] - stretch[0])
        self._free.remove(smallest)
        if end > first + n:
            self._free.append((first + n, end))
        return first

    def _put(self, name: str, uid: int, rows: FlowRows) -> None:
        mine = self._jobs[name]
        self.flows.put(mine.first, mine.first, rows, self.capacity, uid)
        self.rule.came(mine.rows, self.flows)

    def _end(self, rows: Ints) -> None:
        live, f = rows[self.flows.active[rows]], self.flows
        if len(live):
            f.active[live], f.rate[live], f.sent[live] = False, 0.0, f.size[live]
            self.rule.over(live, f)

    # Asking

    def _decide(self, now: float, live: Ints, sent: Sent) -> None:
        slot_s = self.rule.slot_s
        number, part, begins = 0, 1.0, True
        if math.isfinite(slot_s):
            number = int(now // slot_s)
            part, begins = max(1.0 - (now / slot_s - number), _LEAST), number != self._slot
            if begins:
                self._note(now, live, sent)
                self._slot = number
        asked = live if begins or self.rule.everyone else live[[row in self._begun for row in live.tolist()]]
        self._begun.clear()
        if not len(asked):
            return
        given = self.rule.decide(Moment(number, part, begins, now), self.flows, asked)
        self._caps[asked] = given.caps[asked]
        self._weights[asked] = 1 if given.weights is None else given.weights[asked]
        self._levels[asked] = 0 if given.levels is None else given.levels[asked]

    def _note(self, now: float, live: Ints, sent: Sent) -> None:
        """Tell the rule what has been carried since the last slot that it was asked about."""
        link, elapsed = np.zeros(len(self.capacity)), max(now - self._noted, self.rule.slot_s)
        for name, mine in self._jobs.items():
            for row, host in zip(mine.rows.tolist(), mine.senders, strict=True):
                total = sent.get((name, host), (0.0, 0.0))[1] / mine.senders.count(host)
                moved = max(total - mine.before.get(host, total), 0.0) / elapsed
                self.flows.rate[row] = moved
                for k in self.flows.path[row].tolist():
                    if k >= 0:
                        link[k] += moved
            mine.before = {h: sent.get((name, h), (0.0, 0.0))[1] / mine.senders.count(h) for h in mine.senders}
        if self._slot >= 0:
            self.rule.carried(self._slot, self.flows, live, Carried(link, link >= FULL * self.capacity))
        self._noted = now
