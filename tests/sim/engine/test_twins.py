"""The compiled engine against its readable twin: bit for bit without skipping, to 1e-9 with it.

Features are drawn together, since faults live where two of them meet; which pairs met is counted and reported.
"""

import random
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testkit.draws import share, thorough
from testkit.oracles.engine import ReferenceEngine
from tests.sim.cases import FEATURES, Case, JobCase, Stay, all_pairs, draw_case, draw_features, plain, without
from tests.sim.driver import differences, lone_links, run_case, well_posed
from weft.sim.engine import EngineSpec
from weft.sim.engine.program import compute_node, transfer_node

# The same cases in every run, unless more are asked for.
CASES = 400
FEW = settings(
    max_examples=thorough(100),
    derandomize=share() <= 1,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def features(**fixed: str) -> st.SearchStrategy[dict[str, str]]:
    """Any admissible choice of features."""
    return st.randoms(use_true_random=False).map(lambda rng: draw_features(rng, **fixed))


def seeded(n: int) -> Iterator[tuple[int, Case]]:
    """The first n cases, each with the number it grows from."""
    for seed in range(n):
        rng = random.Random(seed)
        chosen = draw_features(rng)
        yield seed, draw_case(rng, chosen, iterations=10 if chosen["skip"] == "off" else 24)


def assert_same(case: Case) -> None:
    """Kernel and twin agree on everything, to the last bit."""
    kernel, twin = run_case(plain(case)), run_case(plain(case), ReferenceEngine)
    assert kernel.usage == twin.usage
    assert kernel.durations == twin.durations
    assert kernel.bytes == twin.bytes
    assert kernel.busy == twin.busy
    assert kernel.physics() == twin.physics()


def assert_skips_rightly(case: Case) -> bool:
    """A run that skips is the plain run to 1e-9; False where that cannot be asked (see `well_posed`)."""
    whole = run_case(plain(case))
    differ = differences(run_case(case), whole, 1e-9, lone_links(case))
    assert not differ or not well_posed(case, whole)
    return not differ


@given(features(), st.randoms(use_true_random=False))
@FEW
def test_kernel_equals_twin(chosen: dict[str, str], rng: random.Random) -> None:
    """Usage, bytes, busy times and iteration times are equal as floats, whatever is drawn."""
    assert_same(draw_case(rng, chosen))


@given(features(skip="exact"), st.randoms(use_true_random=False))
@FEW
def test_skipping_equals_plain(chosen: dict[str, str], rng: random.Random) -> None:
    """With skipping on, every result is that of the plain run to 1e-9, where the plain run is itself that certain."""
    assert_skips_rightly(draw_case(rng, chosen, iterations=30))


def test_seeded_cases() -> None:
    """The cases of which the coverage below is counted: kernel as twin, skipping as not skipping."""
    skipped: list[bool] = []
    for seed, case in seeded(thorough(CASES)):
        try:
            assert_same(case)
            if case.features["skip"] == "exact":
                skipped.append(assert_skips_rightly(case))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {dict(case.features)}: {error}") from error
    assert skipped.count(False) <= 0.02 * len(skipped)  # hardly any case may be excused for being chaotic


def test_a_transfer_that_waits_through_a_skipped_stretch_keeps_its_turn() -> None:
    """One transfer at a time, the job with the fewest iterations left first. A transfer waits at the instant at which
    the engine begins to skip; when the engine goes on its job has fewer iterations left, and goes by these."""
    jobs = [
        JobCase(34, (Stay((transfer_node(0, 3.0, [(0, 1)]), compute_node(1, 0.5, (0,))), 1.0),), turn=(0.0, 1.0)),
        JobCase(31, (Stay((transfer_node(0, 0.25, [(0, 1)]), compute_node(1, 3.0, (0,))), 0.5),), turn=(0.0, 1.0)),
        JobCase(36, (Stay((compute_node(0, 1.5), transfer_node(1, 2.0, [(0, 1)], (0,))), 1.0),)),
    ]
    spec = EngineSpec(np.ones(1), np.ones(1, bool), sharing="ideal", admission="at-most", admission_k=1)
    case = Case(spec, tuple(jobs))
    skipped, whole = run_case(case), run_case(plain(case))
    assert skipped.events < whole.events
    assert not differences(skipped, whole, 1e-9, [0])


def test_many_jobs() -> None:
    """A hundred jobs and more at once and in turn: rows and ranges are reused, arrays grow, ties are many."""
    rng = random.Random(1)
    chosen = draw_features(rng, skip="off", graph="overlap", sharing="max-min", stops="resized", admission="all")
    cases = [draw_case(rng, chosen, iterations=2) for _ in range(thorough(160))]
    widest = max(cases, key=lambda case: len(case.spec.capacity)).spec
    jobs = tuple(job for case in cases for job in case.jobs)
    assert_same(Case(replace(widest, n_gpus=3), jobs, chosen))


def exercised(case: Case, wanted: Collection[str]) -> set[tuple[str, str]]:
    """Features among the wanted ones that made a difference: taking them away changes the outcome. What is absent is
    always itself, and so is a rule that caps nothing, which must make none."""
    if not wanted:
        return set()
    base, seen = run_case(case), set()
    for name in wanted:
        value = case.features[name]
        if value == FEATURES[name][0] or (name, value) in {("graph", "overlap"), ("rule", "nothing")}:
            seen.add((name, value))
        elif name == "skip":
            seen |= {(name, value)} if base.events < run_case(plain(case)).events else set()
        elif run_case(without(case, name)).physics() != base.physics():
            seen.add((name, value))
    return seen


def test_pairs_of_features_are_covered(record_property: Callable[[str, object], None]) -> None:
    """Every admissible pair of feature values meets, and both make a difference, in at least one seeded case. A case is
    asked only about pairs that have not met before."""
    wanted = all_pairs()
    missing = {frozenset(pair) for pair in wanted}
    last, rarest = 0, ""
    for seed, case in seeded(CASES):
        new = [pair for pair in combinations(case.features.items(), 2) if frozenset(pair) in missing]
        made = exercised(case, {name for pair in new for name, _ in pair})
        for pair in new:
            if made.issuperset(pair):
                missing.remove(frozenset(pair))
                last, rarest = seed, " with ".join(f"{name} {value}" for name, value in sorted(pair))
    record_property(
        "summary",
        f"engine: {len(wanted) - len(missing)} of {len(wanted)} admissible pairs of features met, each making a "
        f"difference, in {CASES} seeded cases; the last to meet, in case {last}: {rarest}",
    )
    assert not sorted(sorted(pair) for pair in missing)
