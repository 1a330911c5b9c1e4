import math
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from testkit.draws import examples
from weft.errors import StackError
from weft.policies.pace.admission import AdaDual, AtMost, threshold
from weft.policies.pace.base import Admission, Pace
from weft.sim import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.testing import toy_cluster

MB = 1e6
SLACK = 1 + 1e-9  # start times are floats

sizes = st.floats(1.0, 600.0).map(lambda x: x * MB)
b_values = st.floats(0.5, 8.0).map(lambda x: x * 1e-10)
eta_parts = st.floats(0.0, 1.0)  # eta as a part of b


def test_threshold_of_the_paper() -> None:
    """2 (b + eta) / b = 2.549 with the constants of the authors' code; 2 under fair sharing."""
    rule = AdaDual().admission(8.56e-10, 2.35e-10)
    assert rule == Admission("ratio", 2, (threshold(1, 8.56e-10, 2.35e-10),))
    assert rule.ratios[0] == pytest.approx(2.549, abs=5e-4)
    assert AdaDual(4).admission(8.56e-10, 0.0) == Admission("ratio", 4, (2.0, 2.0, 2.0))


def test_thresholds_fall_towards_two() -> None:
    ratios = AdaDual(9).admission(8.56e-10, 2.35e-10).ratios
    assert list(ratios) == sorted(ratios, reverse=True)
    assert 2.0 < ratios[-1] < ratios[1] == pytest.approx(2.241, abs=5e-4)


@pytest.mark.parametrize("text", ["0", "x", "-2", "2.5", "", "1001", "9" * 30])
def test_parameter(text: str) -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        AdaDual.from_text(text)
    assert AdaDual.from_text(None).name == AdaDual.from_text("2").name == "adadual"


def ends(
    b: float, eta: float, transfers: Sequence[tuple[float, float]], admission: Admission | None = None
) -> list[float]:
    """When transfers of (bytes, start) end on one server, in the real engine."""
    network: dict[str, object] = {"sharing": "k-way", "b_s_per_byte": b, "eta_s_per_byte": eta}
    if admission is not None:
        network["admission"] = {"kind": admission.kind, "k": admission.k, "ratios": list(admission.ratios)}
    jobs = [
        {"id": f"c{i}", "start_s": start, "iterations": 1, "phases": [{"bytes": size, "flows": {"server": 1}}]}
        for i, (size, start) in enumerate(transfers)
    ]
    done = weft.replay({"links": {"server": {"gbps": 10}}, "network": network, "jobs": jobs})["jobs"]
    return [done[f"c{i}"]["finish_s"] for i in range(len(transfers))]


@pytest.mark.parametrize(
    ("pace", "expected"),
    [
        (AtMost(1), (1.0, 1.3, 1.8)),
        (AtMost(2), (2.0, 0.775, 1.9)),
        (AtMost(3), (2.0, 0.2 + 0.23 / 0.9 * 3.5, 0.2 + 0.23 / 0.9 * 3.5 + 0.55)),
        (AdaDual(), (1.375, 0.775, 1.875)),
        (AdaDual(3), (1.375, 0.775, 1.875)),
    ],
)
def test_example_by_hand(pace: Pace, expected: tuple[float, ...]) -> None:
    """The example of docs/baselines/adadual.md: b = 1 s/GB, eta = 0.25 s/GB."""
    b, eta = 1e-9, 0.25e-9
    transfers = [(1.0e9, 0.0), (0.3e9, 0.1), (0.5e9, 0.2)]
    assert ends(b, eta, transfers, pace.admission(b, eta)) == pytest.approx(expected)


def grid(end: float) -> list[float]:
    return [end * i / 8 for i in range(9)]


@settings(max_examples=examples(25))
@given(sizes, sizes, b_values, eta_parts)
def test_theorem_1(m1: float, m2: float, b: float, part: float) -> None:
    """Smaller first: the larger one does best to wait until the smaller one has finished (Eq. 10c)."""
    m1, m2 = min(m1, m2), max(m1, m2)
    sums = [sum(ends(b, part * b, [(m1, 0.0), (m2, t)])) for t in grid(b * m1)]
    assert min(sums) * SLACK >= sums[-1] == pytest.approx(b * (2 * m1 + m2))


@settings(max_examples=examples(25))
@given(sizes, sizes, b_values, eta_parts)
def test_theorem_2(m1: float, m2: float, b: float, part: float) -> None:
    """Larger first: the smaller one does best to start at once if M1 / M2 < b / 2 (b + eta), else to wait (Eq. 13)."""
    m1, m2, eta = min(m1, m2), max(m1, m2), part * b
    starts = sorted([*grid(b * m2), b * (m2 - m1)])  # the slope changes at b (M2 - M1)
    sums = [sum(ends(b, eta, [(m1, t), (m2, 0.0)])) for t in starts]
    at_once = m1 / m2 < b / (2 * (b + eta))
    best = sums[0] if at_once else sums[-1]
    assert best == pytest.approx((3 * b + 2 * eta) * m1 + b * m2 if at_once else b * m1 + 2 * b * m2)
    assert min(sums) * SLACK >= best


@settings(max_examples=examples(25))
@given(sizes, sizes, b_values, eta_parts)
def test_the_smaller_one_first_is_best(m1: float, m2: float, b: float, part: float) -> None:
    """C1 against C2a and C2b of Eq. 14: no larger than either, and smaller than both unless the two are equal."""
    m1, m2, eta = min(m1, m2), max(m1, m2), part * b
    c1, c2a, c2b = (
        sum(ends(b, eta, transfers))
        for transfers in ([(m1, 0.0), (m2, b * m1)], [(m1, 0.0), (m2, 0.0)], [(m1, b * m2), (m2, 0.0)])
    )
    assert c1 <= min(c2a, c2b) * SLACK
    assert m2 < 1.01 * m1 or c1 < min(c2a, c2b)


@settings(max_examples=examples(25))
@given(sizes, sizes, b_values, eta_parts, st.floats(0.0, 0.99))
def test_the_rule_is_as_good_as_the_best_start(new: float, old: float, b: float, part: float, sent: float) -> None:
    """A transfer that comes when the old one has sent a part: the engine with the rule does as well as any start."""
    eta, arrival = part * b, sent * b * old
    rule = AdaDual().admission(b, eta)
    ruled = sum(ends(b, eta, [(old, 0.0), (new, arrival)], rule))
    starts = {arrival, b * old, *(arrival + t for t in grid(b * old - arrival)), max(arrival, b * (old - new))}
    best = min(sum(ends(b, eta, [(old, 0.0), (new, t)])) for t in starts)
    assert ruled <= best * SLACK


@settings(max_examples=examples(25))
@given(st.lists(sizes, min_size=1, max_size=4), b_values, eta_parts, st.floats(0.01, 0.999))
def test_beyond_two(old: list[float], b: float, part: float, below: float) -> None:
    """Above the threshold for m others, starting at once is at least as good as any later start."""
    eta, m = part * b, len(old)
    new = below * min(old) / threshold(m, b, eta)
    running = [(size, 0.0) for size in old]
    completions = ends(b, eta, running)
    starts = {*completions, *grid(max(completions))}
    now = sum(ends(b, eta, [*running, (new, 0.0)]))
    assert now <= min(sum(ends(b, eta, [*running, (new, t)])) for t in starts) * SLACK


@settings(max_examples=examples(25))
@given(st.integers(1, 4), sizes, b_values, eta_parts, st.floats(1.001, 2.0))
def test_no_lower_threshold_would_do(m: int, old: float, b: float, part: float, above: float) -> None:
    """m equal ones, and a new one larger than the threshold allows: waiting for their end is better."""
    eta = part * b
    new = min(above * old / threshold(m, b, eta), old)
    running = [(old, 0.0)] * m
    end = max(ends(b, eta, running))
    waits = sum(ends(b, eta, [*running, (new, end)]))
    assert waits < sum(ends(b, eta, [*running, (new, 0.0)]))


def test_sum_of_completion_times() -> None:
    """Beside m larger ones a new one of M bytes adds b M + 2 m (b + eta) M to the sum: the step of the derivation."""
    b, eta, new, old = 8.56e-10, 2.35e-10, 50 * MB, [300 * MB, 200 * MB, 120 * MB]
    before = sum(ends(b, eta, [(size, 0.0) for size in old]))
    after = sum(ends(b, eta, [*((size, 0.0) for size in old), (new, 0.0)]))
    assert math.isclose(after - before, b * new + 2 * 3 * (b + eta) * new, rel_tol=1e-9)


def test_the_strictest_answer_counts() -> None:
    """A new one meets an old one on each of two servers: 300 MB left on one, 150 MB on the other; 100 MB waits."""
    b, eta = 8.56e-10, 0.0
    rule = AdaDual().admission(b, eta)
    network = {
        "sharing": "k-way", "b_s_per_byte": b, "eta_s_per_byte": eta,
        "admission": {"kind": rule.kind, "k": rule.k, "ratios": list(rule.ratios)},
    }  # fmt: skip

    def end(second: float) -> float:
        sizes = {"x": (300 * MB, {"s0": 1}), "y": (second, {"s1": 1}), "new": (100 * MB, {"s0": 1, "s1": 1})}
        jobs = [
            {"id": name, "start_s": 0.01 * (name == "new"), "iterations": 1, "phases": [{"bytes": size, "flows": on}]}
            for name, (size, on) in sizes.items()
        ]
        links = {"s0": {"gbps": 10}, "s1": {"gbps": 10}}
        done: float = weft.replay({"links": links, "network": network, "jobs": jobs})["jobs"]["new"]["finish_s"]
        return done

    assert end(300 * MB) == pytest.approx(0.01 + 2 * b * 100 * MB)  # both have more than twice as much left
    # y has too little left; when it is done x has 150 MB left, too little as well: the new one waits for both
    assert end(150 * MB) == pytest.approx(b * (300 + 100) * MB)


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(sizes, st.floats(0.0, 1.0)), min_size=2, max_size=12), b_values, eta_parts)
def test_asking_changes_nothing(transfers: list[tuple[float, float]], b: float, part: float) -> None:
    """A rule that asks everybody at every chance and lets nobody in is one at a time, to the last bit."""
    asks = ends(b, part * b, transfers, Admission("ratio", 2, (1e9,)))
    assert asks == ends(b, part * b, transfers, Admission("at-most", 1))
    assert max(asks) >= b * sum(size for size, _ in transfers) * (1 - 1e-12)  # no byte is faster than the line


@pytest.mark.parametrize(("sharing", "ratio"), [("k-way", 2 * (8.56 + 2.35) / 8.56), ("max-min", 2.0), ("ideal", 2.0)])
def test_the_world_gives_the_constants_of_its_sharing(sharing: str, ratio: float) -> None:
    world = SimWorld(toy_cluster(), [], NetworkSpec(sharing), RunSpec())
    world.set_pace(AdaDual())
    assert world.engine.spec.admission_ratios == pytest.approx((ratio,))
