"""shortest:patient: wait for foreign flows that will leave soon, and push against those that will stay.

A foreign flow weighs (lambda S / r)^2. S is the least that any of the jobs that it meets still needs at full rate. r is
for how long the flow will still be there. Nobody says so, and it is learned from what a switch can count: the mean time
for which flows that have ended went on after the age that this one has now. lambda is 0.7 L / T, where L is the mean
lifetime of foreign flows and T the mean time for which our running jobs send in an iteration. Jobs weigh more while
others wait for GPUs, because a second saved then counts for those who wait, too.
"""

from __future__ import annotations

import numpy as np

from weft.pace.rates import Demand, Floats, Others
from weft.pace.shortest import ShortestRule

GENTLE, PUSHING = 1.2, 200.0  # what a job weighs in foreign flows: usually, and while jobs wait for GPUs
PATIENCE = 0.7  # lambda, in lifetimes of foreign flows over the time for which a job sends
ENOUGH, KEPT = 20, 1000  # lifetimes: before so many are known all foreign flows weigh 1; the last so many count


class PatientRule(ShortestRule):
    """`shortest` with foreign flows that weigh more the sooner they will leave."""

    def begin(self, demand: Demand) -> None:
        """Nobody has ended yet."""
        self._lasted: Floats = np.zeros(0)
        super().begin(demand)

    def others(self, there: Others) -> None:
        """Remember how long those lasted that have ended."""
        super().others(there)
        self._lasted = np.concatenate([self._lasted, there.lasted_s])[-KEPT:]
        self._sorted = np.sort(self._lasted)
        self._longer = np.append(np.cumsum(self._sorted[::-1])[::-1], 0.0)  # sums of the longest ones

    def weights(self, part: Floats) -> Floats:
        """Jobs that send for a smaller part of their iterations weigh more by the square of it."""
        found: Floats = (PUSHING if self.waiting else GENTLE) * ((part.mean() if len(part) else 1.0) / part) ** 2
        return found

    def stays_s(self, now_s: float) -> tuple[Floats, float]:
        """The mean time for which those went on that were there for longer than each flow is now. One more, which goes
        on for the mean lifetime, keeps it above 0."""
        n = len(self._sorted)
        if n < ENOUGH or not self.sends_s:
            return super().stays_s(now_s)
        age = now_s - self.there.since_s
        at = np.searchsorted(self._sorted, age, "right")
        mean_s = float(self._longer[0]) / n
        stays: Floats = (self._longer[at] - (n - at) * age + mean_s) / (n - at + 1)
        usual_s = sum(self.sends_s.values()) / len(self.sends_s)
        return stays, PATIENCE * mean_s / usual_s
