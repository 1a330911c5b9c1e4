"""shortest:patient: a job pushes foreign flows aside, or waits for them, whichever costs less.

A job that sends at full rate takes bytes from foreign flows; a job that waits for them loses time. It pushes if

    price * lost * S < V * (L / 2 + r + w / 2).

The left side is what others lose. `lost` is how much slower foreign flows are while the job sends, in line rates, and S
is for how many seconds the job still has to send. The right side is what waiting is expected to cost. r is how long the
foreign flow that stays longest will still be there. L is the mean lifetime of foreign flows; half of it stands for
flows that come later. w is how long the job has waited, so no job waits for ever. V is 1 plus the number of jobs that
wait for GPUs, because a second that is saved counts for them, too.

The price is X (L / T)^(3/4), where T is the mean time for which our jobs send in an iteration alone. So one X serves
slow and fast links. How long flows last is learned from those that have ended, which a switch can count. Before enough
have ended, the rule is that of `shortest`.

Jobs that push are served before foreign flows, and jobs that wait have what foreign flows leave. Among jobs that push,
and among those that wait, the shortest goes first.
"""

from __future__ import annotations

import numpy as np

from weft.model.flows import FlowSet
from weft.policies.pace.rates import Demand, Floats, Ints, Limits, Moment, Others
from weft.policies.pace.shortest.rule import ShortestRule

PRICE = 0.85  # X: seconds of a job's time that are worth one second of a line rate to others, where T is as long as L
POWER = 0.75  # of L / T in the price
ENOUGH, KEPT = 20, 1000  # lifetimes: before so many are known the rule is that of `shortest`; the last so many count


class PatientRule(ShortestRule):
    """`shortest` with jobs that push or wait. It is asked every 10 s as well, even if no transfer starts or ends: a job
    may have waited long enough by then."""

    slot_s = 10.0

    def __init__(self, price: float = PRICE) -> None:
        super().__init__()
        self.price = price

    def begin(self, demand: Demand) -> None:
        """Nobody has ended yet."""
        self._lasted: Floats = np.zeros(0)
        self._sends_s, self._jobs = 0.0, 0  # by all jobs so far in an iteration alone, and how many they are
        self._began: dict[int, list[float]] = {}  # by uid: when a job began to send, and the seconds that it needed
        super().begin(demand)

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """How long it sends in an iteration alone counts for the price. Foreign flows compute nothing, so they send all
        the time."""
        super().came(rows, flows)
        part = self.part.get(int(flows.uid[rows[0]]), 0.0) if len(rows) else 0.0
        if 0.0 < part < 1.0:
            compute_s = float(flows.compute_s[rows].max())
            self._sends_s, self._jobs = self._sends_s + compute_s * part / (1.0 - part), self._jobs + 1

    def over(self, rows: Ints, flows: FlowSet) -> None:
        """A job none of whose flows send begins anew."""
        for uid in {*flows.uid[rows].tolist()} - {*flows.uid[flows.active].tolist()}:
            self._began.pop(uid, None)

    def others(self, there: Others) -> None:
        """Remember how long those lasted that have ended."""
        super().others(there)
        self._lasted = np.concatenate([self._lasted, there.lasted_s])[-KEPT:]
        self._sorted = np.sort(self._lasted)
        self._longer = np.append(np.cumsum(self._sorted[::-1])[::-1], 0.0)  # sums of the longest ones

    def stays_s(self, now_s: float) -> Floats:
        """The mean time for which those went on that were there for longer than each flow is now. One more counts:
        it goes on for the mean lifetime, or for as long as the flow has been there if that is more."""
        n, age = len(self._sorted), now_s - self.there.since_s
        at = np.searchsorted(self._sorted, age, "right")
        one_more = np.maximum(self._longer[0] / n, age)
        stays: Floats = (self._longer[at] - (n - at) * age + one_more) / (n - at + 1)
        return stays

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Caps of those who push, then of those who wait."""
        if len(self._lasted) < ENOUGH or not self._jobs or not len(self.there.most):
            return super().decide(when, flows, live)
        uids, job = np.unique(flows.uid[live], return_inverse=True)
        began = [self._began.setdefault(uid, [when.now_s, -1.0]) for uid in uids.tolist()]
        late = when.now_s - np.array([each[0] for each in began])
        whole, caps = np.array([each[1] for each in began]), np.zeros(len(flows))
        usual_s = float(self._longer[0]) / len(self._sorted)
        price = self.price * (usual_s * self._jobs / self._sends_s) ** POWER / (1.0 + self.waiting)
        self.kernel.push(
            live, job, flows.path, flows.size - flows.sent, self.capacity, self.there.path, self.there.most,
            self.stays_s(when.now_s), 0.5 * usual_s, price, late, whole, caps,
        )  # fmt: skip
        for each, needed in zip(began, whole.tolist(), strict=True):
            each[1] = needed
        return Limits(caps)
