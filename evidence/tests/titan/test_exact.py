from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from weft.model.profile import Phase, Profile
from weft.policies.place.pattern import Kind, kind_of, pattern_of
from weft.policies.place.titan import StageLimits, solve
from weft_evidence.titan.exact import BOUND, GPUS, Score, compare, keeps_bound, optimum, saved_part, states


def kind(workers: int) -> Kind:
    return kind_of(Profile.from_phases("p", [Phase(1.0), Phase(bytes=1.0)], workers), "halving-doubling")


def by_trying(workers: int, free: list[int], limit: npt.NDArray[np.float64]) -> tuple[int, int] | None:
    """The best (O1, O2) over every assignment of workers to machines."""
    best = None
    for where in product(range(len(free)), repeat=workers):
        if any(where.count(s) > free[s] for s in range(len(free))):
            continue
        sent: dict[tuple[int, int, int], float] = {}
        for t, (pairs, size) in enumerate(pattern_of(kind(workers)).stages):
            for a, b in pairs.tolist():
                if where[a] != where[b]:
                    key = (t, where[a], where[b])
                    sent[key] = sent.get(key, 0.0) + size
        if all(amount <= limit[s, other] + 1e-9 for (_, s, other), amount in sent.items()):
            value = (sum(free[s] == GPUS for s in set(where)), len(set(where)))
            best = value if best is None else min(best, value)
    return best


def test_as_trying_everything() -> None:
    for workers, free, limit in states(25, 3):
        if workers <= 5 and len(free) <= 4:
            exact = optimum(kind(workers), free.tolist(), (free == GPUS).tolist(), limit)
            assert exact == by_trying(workers, free.tolist(), np.full((len(free),) * 2, limit))


def test_limits_of_pairs() -> None:
    """P(s, s') of Eq. (1) may differ from pair to pair and by direction; Titan keeps each of them."""
    rng = np.random.default_rng(2)
    answers = []
    for workers, free, _ in states(40, 5):
        if workers <= 5 and len(free) <= 4:
            limit = rng.choice([0.3, 0.6, 1.1, np.inf], (len(free), len(free)))
            exact = optimum(kind(workers), free.tolist(), (free == GPUS).tolist(), limit)
            assert exact == by_trying(workers, free.tolist(), limit)
            limits = StageLimits(float(limit.min()), lambda a, b, limit=limit: float(limit[a, b]))  # type: ignore[misc]
            found = solve(kind(workers), free, free == GPUS, limits)
            assert (found is None) == (exact is None)
            assert found is None or exact is None or len(found) >= exact[1]
            answers.append(found is not None)
    assert sum(answers) >= 5


@pytest.mark.parametrize("plus", [False, True])
def test_where_limits_differ_between_pairs_a_placement_is_found_if_there_is_one(plus: bool) -> None:
    """Sharing machines out by room alone finds nothing in one state of eleven; the search behind it does."""
    rng = np.random.default_rng(0)
    solvable = best = 0
    for _ in range(60):
        free = rng.integers(1, GPUS + 1, int(rng.integers(2, 5)))
        workers = int(rng.integers(2, 7))
        limit = rng.choice([0.3, 0.6, 1.1], (len(free), len(free)))
        exact = optimum(kind(workers), free.tolist(), (free == GPUS).tolist(), limit)
        limits = StageLimits(float(limit.min()), lambda a, b, limit=limit: float(limit[a, b]))  # type: ignore[misc]
        found = solve(kind(workers), free, free == GPUS, limits, plus=plus)
        assert (found is None) == (exact is None)
        if found is not None:
            solvable += 1
            best += (sum(free[m] == GPUS for m, _ in found), len(found)) == exact
    assert solvable > 30
    assert best >= 0.9 * solvable


def test_section_ii() -> None:
    assert optimum(kind(4), [4, 3, 2, 1], [True, False, False, False], np.inf) == (0, 2)


@pytest.fixture(scope="module")
def scores() -> dict[str, Score]:
    return compare(150, 1)


def test_the_bound_holds_and_both_are_nearly_always_optimal(scores: dict[str, Score]) -> None:
    """C_max - used >= (1 - 1/e)(C_max - optimum) in both objectives, wherever a placement is found."""
    for score in (scores["titan"], scores["titan:plus"]):
        assert score.solvable > 50
        assert score.bound_broken == 0
        assert min(score.idle_ratio, score.ratio) >= BOUND
        assert score.found >= 0.9
        assert score.idle_optimal >= 0.9


def test_as_printed_it_takes_idle_machines(scores: dict[str, Score]) -> None:
    """Algorithm 3 to the letter looks at idle machines first: fewer idle ones would often do."""
    assert scores["titan:printed"].idle_optimal < scores["titan"].idle_optimal


def test_tight_states() -> None:
    """Many fragments and always a limit: the greedy may find nothing where there is a placement, plus does."""
    found = compare(40, 7, tight=True)
    for name in ("titan", "titan:plus"):
        assert found[name].solvable > 15
        assert found[name].bound_broken == 0
        assert found[name].all_optimal >= 0.9
    assert found["titan:plus"].found >= found["titan"].found >= 0.9
    assert found["titan:printed"].found < found["titan"].found


def test_plus_is_never_worse(scores: dict[str, Score]) -> None:
    plain, plus = scores["titan"], scores["titan:plus"]
    assert plus.found >= plain.found
    assert plus.all_optimal * plus.found >= plain.all_optimal * plain.found


def test_the_bound_is_a_part_of_what_can_be_saved() -> None:
    """C_max = 4, optimum 0: one machine leaves 3 of 4, two leave 1/2, which is less than 1 - 1/e."""
    assert [saved_part(used, 0, 4) for used in range(3)] == [1.0, 0.75, 0.5]
    assert [keeps_bound(used, 0, 4) for used in range(3)] == [True, True, False]
    assert saved_part(4, 4, 4) == 1.0
