"""How long jobs will run: drawn from what past jobs showed relative to what was claimed of them.

The spread is that of the same user's jobs where there are enough, else of everybody's. A job that runs already lasts
longer than it has. Where nothing has ended yet, a job takes what was claimed, and one that claimed nothing a day.

Jobs that were submitted one after the other are alike: users submit the same job many times. So a sample does not draw
each job by itself. It lays a stretch of past submissions over the jobs of a user, and each job gets the rank that the
past one had among all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
ENOUGH = 20  # jobs of which a spread is taken
RECENT = 400  # of one user's jobs that count; of everybody's ten times as many
FEW = 4  # longer jobs of the past with which one that runs must be compared
UNSAID_S = 86_400.0
LAST = 1.0 - 1e-9  # ranks are below 1


@dataclass(frozen=True, slots=True)
class Past:
    """A job that has ended: what was claimed of it (None: nothing), and the seconds that it ran."""

    user: str
    gpus: int
    submit_s: float
    claim_s: float | None
    took_s: float


class Spreads:
    """The spreads of one past: lengths over claims, or lengths themselves where nothing was claimed."""

    def __init__(self, past: Sequence[Past]) -> None:
        by: dict[tuple[str, bool], list[tuple[float, float]]] = {}
        for job in past:
            value = job.took_s / job.claim_s if job.claim_s else job.took_s
            for whose in {job.user, ""}:
                by.setdefault((whose, bool(job.claim_s)), []).append((job.submit_s, value))
        self._known: dict[tuple[str, bool], Floats] = {}
        self._ranks: dict[str, Floats] = {}  # of a user's jobs, as they were submitted
        for (user, said), values in by.items():
            if len(values) >= ENOUGH:
                recent = np.array(sorted(values[-(RECENT if user else 10 * RECENT) :]))[:, 1]
                self._known[user, said] = np.sort(recent)
                if said or user not in self._ranks:
                    self._ranks[user] = recent.argsort(kind="stable").argsort(kind="stable") / len(recent)

    def __bool__(self) -> bool:
        return bool(self._known)

    def ranks(self, users: Sequence[str], rng: np.random.Generator) -> list[float]:
        """Ranks for jobs of these users, in the order of their submission."""
        found: list[float] = []
        at: dict[str, int] = {}
        for user, (apart, first) in zip(users, rng.random((len(users), 2)).tolist(), strict=True):
            whose = user if user in self._ranks else ""
            ranks = self._ranks.get(whose)
            if ranks is None:
                found.append(apart)
                continue
            at[whose] = (at[whose] + 1 if whose in at else int(first * len(ranks))) % len(ranks)
            found.append(min(float(ranks[at[whose]]) + apart / len(ranks), LAST))
        return found

    def length(self, user: str, claim_s: float | None, limit_s: float | None, ran_s: float, rank: float) -> float:
        """The whole length of a job that has run so long already, at this rank (0 to 1) of all that are possible."""
        unit, most = claim_s or 1.0, limit_s or np.inf
        for whose in (user, ""):
            values = self._known.get((whose, bool(claim_s)))
            if values is None:
                continue
            first = int(values.searchsorted(ran_s / unit, side="right"))
            if len(values) - first >= (FEW if ran_s > 0 else 1):
                return float(max(ran_s, min(most, unit * values[first + int(rank * (len(values) - first))])))
        whole_s = claim_s or limit_s or UNSAID_S
        if not self._known and ran_s < whole_s:
            return whole_s
        if most < np.inf:  # it has outlived all that is known: it may end at any time up to its limit
            return ran_s + rank * max(0.0, float(most) - ran_s)
        return max(ran_s, 1.0) / (1.0 - rank)  # as long again, at the median
