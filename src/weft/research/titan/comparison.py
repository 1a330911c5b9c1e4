"""How often Titan's greedy is optimal: random small states, each solved by three forms of `titan` and exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.profile import Phase, Profile
from weft.place.pattern import Kind, kind_of, pattern_of, within
from weft.place.titan import Limits, Placed, printed, solve
from weft.research.titan.exact import optimum
from weft.research.titan.submodular import keeps_bound, saved_part

__all__ = ["FORMS", "Score", "compare", "states"]

GPUS = 4
LIMITS = (np.inf, 2.0, 1.0, 0.5, 0.25)
FORMS = ("titan", "titan:plus", "titan:printed")
_Row = tuple[tuple[int, int], tuple[int, int] | None, int]  # the optimum, what was found, C_max


@dataclass(frozen=True)
class Score:
    """Over the states that have a solution: parts that are found and optimal, the worst gaps, and broken bounds."""

    states: int
    solvable: int
    found: float  # part of the solvable states in which a placement was found
    idle_optimal: float  # of those found: idle machines used as few as can be
    all_optimal: float  # and machines in all as few as can be, the idle ones being so
    worst_idle_gap: int
    worst_gap: int  # in machines, where the idle ones are as few as can be
    bound_broken: int  # states in which C_max - used < (1 - 1/e) (C_max - optimum), for either objective
    idle_ratio: float  # the least (C_max - used) / (C_max - optimum) of any state, of idle machines
    ratio: float  # and of all machines


def states(n: int, seed: int, tight: bool = False) -> Iterator[tuple[int, npt.NDArray[np.int64], float]]:
    """Workers, free GPUs of each machine of 4, and the limit per byte of message, as drawn.

    `tight` draws the states in which choosing is hard: many fragments of one to three GPUs, and always a limit.
    """
    rng = np.random.default_rng(seed)
    for _ in range(n):
        if tight:
            free = rng.integers(1, GPUS, int(rng.integers(3, 8)))
            free[rng.random(len(free)) < 0.2] = GPUS
            yield int(rng.integers(4, 9)), free, float(rng.choice(LIMITS[1:]))
        else:
            free = rng.integers(0, GPUS + 1, int(rng.integers(2, 6)))
            yield int(rng.integers(2, 7)), free, float(rng.choice(LIMITS))


def compare(n: int, seed: int, tight: bool = False) -> dict[str, Score]:
    """Scores of each of FORMS against the exact answer on n random states under halving-doubling."""
    rows: dict[str, list[_Row]] = {name: [] for name in FORMS}
    for number, (workers, free, limit) in enumerate(states(n, seed, tight)):
        kind = kind_of(Profile.from_phases("p", [Phase(1.0), Phase(bytes=1.0)], workers), "halving-doubling")
        idle = free == GPUS
        best = optimum(kind, free.tolist(), idle.tolist(), limit)
        if best is None:
            continue
        limits = Limits(limit, lambda a, b, limit=limit: limit)  # type: ignore[misc]
        for name, found in rows.items():
            if name == "titan:printed":
                placed = printed(kind, free, idle, limits, np.random.default_rng((seed, number)))
                if placed is not None and not _allowed(kind, placed, limit):
                    placed = None  # it admits workers whose other pairs do not fit: no solution of Eq. (1)
            else:
                placed = solve(kind, free, idle, limits, plus=name == "titan:plus")
            answer = (sum(bool(idle[m]) for m, _ in placed), len(placed)) if placed else None
            found.append((best, answer, max(len(free), workers)))
    return {name: _score(n, found) for name, found in rows.items()}


def _allowed(kind: Kind, placed: Placed, limit: float) -> bool:
    """Whether a placement keeps the bandwidth constraint in every stage and direction."""
    return within(pattern_of(kind), [ranks for _, ranks in placed], lambda a, b, size: size <= limit + 1e-9)


def _score(n: int, rows: list[_Row]) -> Score:
    placed = [(best, got, most) for best, got, most in rows if got is not None]
    first = [got[0] - best[0] for best, got, _ in placed]
    second = [got[1] - best[1] for best, got, _ in placed if got[0] == best[0]]
    broken = sum(
        not (keeps_bound(got[0], best[0], most) and keeps_bound(got[1], best[1], most)) for best, got, most in placed
    )
    return Score(
        n,
        len(rows),
        len(placed) / max(1, len(rows)),
        sum(gap == 0 for gap in first) / max(1, len(first)),
        sum(gap == 0 for gap in second) / max(1, len(placed)),
        max(first, default=0),
        max(second, default=0),
        broken,
        min((saved_part(got[0], best[0], most) for best, got, most in placed), default=1.0),
        min((saved_part(got[1], best[1], most) for best, got, most in placed), default=1.0),
    )
