"""How often Titan's greedy is optimal: small states, solved by forms of `titan` and exactly (Eq. 1, by HiGHS).

Both objectives are put into one: minimise (S + 1) O1 + O2, which is lexicographic since O2 is at most S. The product of
two x in the bandwidth constraint becomes a variable z >= x + x' - 1: nothing wants z to be larger than it must.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.model.profile import Phase, Profile
from weft.policies.place.pattern import Kind, kind_of, pattern_of, within
from weft.policies.place.titan import StageLimits, printed, solve
from weft.policies.place.titan.search import Placed

BOUND = 1.0 - 1.0 / math.e  # Lemma 3: greedy on a non-decreasing submodular function reaches this part of the best


def keeps_bound(used: int, optimum: int, most: int) -> bool:
    """Theorems 4 and 5: C_max - used >= (1 - 1/e) (C_max - optimum), `most` being C_max = max(machines, workers)."""
    return most - used >= BOUND * (most - optimum) - 1e-12


def saved_part(used: int, optimum: int, most: int) -> float:
    """(C_max - used) / (C_max - optimum): the theorems say that it is at least BOUND; 1 where nothing can be saved."""
    return (most - used) / (most - optimum) if most > optimum else 1.0


Floats = npt.NDArray[np.float64]
Term = dict[int, float]  # variable: coefficient


def optimum(kind: Kind, free: Sequence[int], idle: Sequence[bool], limit: float | Floats) -> tuple[int, int] | None:
    """(O1, O2) of the best placement, or None if there is none.

    `limit` is what a machine may send another in one stage, per byte of the job's message; infinite for no limit. One
    for all pairs, or P(s, s') as a table.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    workers, machines = kind[0], len(free)
    rows, lower, upper, n = _constraints(kind, free, np.broadcast_to(limit, (machines, machines)))
    cost = np.zeros(n)
    first = workers * machines
    for s in range(machines):
        cost[first + s] = 1.0 + (machines + 1.0) * bool(idle[s])
    entries = [(i, j, v) for i, row in enumerate(rows) for j, v in row.items()]
    i, j, v = zip(*entries, strict=True)
    matrix = csr_array((v, (i, j)), shape=(len(rows), n))
    whole = np.zeros(n)
    whole[: first + machines] = 1.0  # z follows from x
    limits = LinearConstraint(matrix, lower, upper)
    with _quiet():
        found = milp(cost, integrality=whole, bounds=Bounds(0.0, 1.0), constraints=limits)
    if found.x is None:
        return None
    used = np.round(found.x[first : first + machines]).astype(int)
    return int(used[np.asarray(idle, dtype=bool)].sum()), int(used.sum())


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing goes to standard output inside: some versions of HiGHS write there although told not to."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is none
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _constraints(kind: Kind, free: Sequence[int], limit: Floats) -> tuple[list[Term], list[float], list[float], int]:
    """Rows with their lower and upper bounds, and the number of variables: x (worker, machine), y (machine), z."""
    workers, machines = kind[0], len(free)

    def x(worker: int, machine: int) -> int:
        return worker * machines + machine

    y = workers * machines
    rows: list[Term] = [{x(w, s): 1.0 for s in range(machines)} for w in range(workers)]
    lower, upper = [1.0] * workers, [1.0] * workers
    for s in range(machines):
        rows.append({x(w, s): 1.0 for w in range(workers)} | {y + s: -float(free[s])})  # room, and only if used
        lower.append(-np.inf)
        upper.append(0.0)
    n = y + machines
    z: dict[tuple[int, int, int, int], int] = {}
    for pairs, size in pattern_of(kind).stages:
        for s in range(machines):
            for other in range(machines):
                if s == other or limit[s, other] == np.inf:
                    continue
                row: Term = {}
                for a, b in pairs.tolist():
                    key = (a, b, s, other)
                    if key not in z:
                        z[key] = n
                        n += 1
                        rows.append({x(a, s): 1.0, x(b, other): 1.0, z[key]: -1.0})
                        lower.append(-np.inf)
                        upper.append(1.0)
                    row[z[key]] = row.get(z[key], 0.0) + size
                rows.append(row)
                lower.append(-np.inf)
                upper.append(limit[s, other] + 1e-9)
    return rows, lower, upper, n


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
    idle_optimal: float  # part of those found that use as few idle machines as can be
    all_optimal: float  # part of those that use as few machines in all as can be, too
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
        limits = StageLimits(limit, lambda a, b, limit=limit: limit)  # type: ignore[misc]
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
