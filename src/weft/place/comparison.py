"""How often Titan's greedy is optimal: random small states, each solved by `titan`, `titan:plus` and exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.profile import Phase, Profile
from weft.place.exact import optimum
from weft.place.pattern import kind_of
from weft.place.submodular import keeps_bound
from weft.place.titan import Limits, solve

__all__ = ["Score", "compare", "states"]

GPUS = 4
LIMITS = (np.inf, 2.0, 1.0, 0.5, 0.25)


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


def states(n: int, seed: int) -> Iterator[tuple[int, npt.NDArray[np.int64], float]]:
    """Workers, free GPUs of each machine of 4, and the limit per byte of message, as drawn."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        free = rng.integers(0, GPUS + 1, int(rng.integers(2, 6)))
        yield int(rng.integers(2, 7)), free, float(rng.choice(LIMITS))


def compare(n: int, seed: int) -> dict[str, Score]:
    """Scores of `titan` and `titan:plus` against the exact answer on n random states under halving-doubling."""
    rows: dict[str, list[tuple[tuple[int, int], tuple[int, int] | None, int]]] = {"titan": [], "titan:plus": []}
    for workers, free, limit in states(n, seed):
        kind = kind_of(Profile.from_phases("p", [Phase(1.0), Phase(bytes=1.0)], workers), "halving-doubling")
        idle = free == GPUS
        best = optimum(kind, free.tolist(), idle.tolist(), limit)
        if best is None:
            continue
        limits = Limits(limit, lambda a, b, limit=limit: limit)  # type: ignore[misc]
        for name, found in rows.items():
            placed = solve(kind, free, idle, limits, plus=name == "titan:plus")
            answer = (sum(bool(idle[m]) for m, _ in placed), len(placed)) if placed else None
            found.append((best, answer, max(len(free), workers)))
    return {name: _score(n, found) for name, found in rows.items()}


def _score(n: int, rows: list[tuple[tuple[int, int], tuple[int, int] | None, int]]) -> Score:
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
    )
