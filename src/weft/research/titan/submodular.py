"""H, the submodular function of the Titan paper (Definition 1, Eq. 4), and its greedy maximisation's bound."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

__all__ = ["BOUND", "keeps_bound", "machines_saved", "saved_part"]

BOUND = 1.0 - 1.0 / math.e  # Lemma 3: greedy on a non-decreasing submodular function reaches this part of the best


def machines_saved(family: Iterable[Collection[int]], workers: Collection[int]) -> int:
    """H(family) = sum of C(N_i) + C(N - R) - C(N), where R is the union of the family and C(X) is 1 unless X is empty.

    Non-decreasing and submodular over families of *disjoint* sets of workers only: with N = {1, 2} the set {1, 2} adds
    nothing to the empty family and one to {{1}, {2}}.
    """
    sets = [frozenset(part) for part in family]
    covered: frozenset[int] = frozenset().union(*sets)
    rest = frozenset(workers) - covered
    return sum(bool(part) for part in sets) + bool(rest) - bool(workers)


def keeps_bound(used: int, optimum: int, most: int) -> bool:
    """Theorems 4 and 5: C_max - used >= (1 - 1/e) (C_max - optimum), `most` being C_max = max(machines, workers)."""
    return most - used >= BOUND * (most - optimum) - 1e-12


def saved_part(used: int, optimum: int, most: int) -> float:
    """(C_max - used) / (C_max - optimum): the theorems say that it is at least BOUND; 1 where nothing can be saved."""
    return (most - used) / (most - optimum) if most > optimum else 1.0
