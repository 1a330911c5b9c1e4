"""The placement problem of the Titan paper (Eq. 1) as an integer program, solved by HiGHS: for small cases.

Objectives in order in one: minimise (S + 1) O1 + O2, which is lexicographic since O2 is at most S. The product of two
x in the bandwidth constraint becomes a variable z >= x + x' - 1: nothing wants z to be larger than it must.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from weft.place.pattern import Kind, pattern_of

__all__ = ["optimum"]

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
