import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.oracles.sharing import Sharer, max_min
from testkit.paced import program, rule_of, run_all, servers, spec_of
from weft.errors import StackError
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.base import Pace
from weft.policies.pace.ccml import Ccml, CcmlRule, Circle, common_s, compatible
from weft.policies.pace.rates import Demand, Moment
from weft.policies.pace.tcp import Equal
from weft.sim.engine import Engine


def test_compatible_by_hand() -> None:
    """By hand: iterations of 2 s repeat a shift every 2 s, of 2 and 3 s every second, of 2 and 2.3 s
    never (they are no ratio of whole numbers up to 4, within 5 %)."""
    assert common_s(2.0, 2.0) == 2.0
    assert common_s(2.0, 3.0) == pytest.approx(1.0)
    assert common_s(2.0, 4.08) == pytest.approx(2.0)
    assert common_s(2.0, 2.3) == 0.0
    half, third = Circle(2.0, 1.0), Circle(2.0, 0.7)
    assert compatible([half, half]) == [0, 1]  # they just fit
    assert compatible([half, half, half]) == [0, 1]  # three halves do not: the third shares fairly
    assert compatible([third, Circle(2.0, 1.5), Circle(2.0, 0.4)]) == [0, 2]  # 0.7 and 1.5 do not fit, 0.7 and 0.4 do
    assert compatible([third, Circle(3.0, 0.4)]) == []  # 1.1 s do not fit into 1 s
    assert compatible([Circle(2.0, 0.6), Circle(3.0, 0.4)]) == [0, 1]
    short = [Circle(period, 0.1) for period in (2.0, 3.0, 4.6)]
    assert compatible(short[1:]) == [0, 1]  # 3 and 4.6 s are close to 2 and 3
    assert compatible(short) == [0, 1]  # but 2 and 4.6 s are not close to any: every pair must be
    assert compatible([half]) == compatible([]) == []
    assert compatible([Circle(4.0, 1.0), Circle(4.0, 1.0), Circle(2.0, 1.0)]) == [0, 1, 2]  # at 0, 2 and 1 s
    assert compatible([half, Circle(2.3, 1.0), Circle(2.3, 1.0)]) == [1, 2]  # the first fits with nobody
    # With 4 s at 0 and 4, 6 s must be at odd seconds and 8 s at even ones: two of them fit, at 2 and 6, and no third.
    assert compatible([Circle(period, 1.0) for period in (4.0, 6.0, 8.0, 8.0, 8.0)]) == [0, 1, 2, 3]


@given(st.lists(st.tuples(st.sampled_from([2, 3, 4, 6, 8]), st.integers(1, 4)), min_size=1, max_size=4))
@settings(max_examples=examples(100), deadline=None)
def test_the_largest_set_is_found(jobs: list[tuple[int, int]]) -> None:
    """Against all angles: where periods and arcs are whole numbers, so are angles at which arcs touch."""

    def turned(some: tuple[int, ...]) -> bool:
        spans = {(i, j): round(common_s(jobs[i][0], jobs[j][0])) for i, j in combinations(some, 2)}
        return all(spans.values()) and any(
            all(jobs[i][1] <= (at[j] - at[i]) % span <= span - jobs[j][1] for (i, j), span in spans.items())
            for at in (dict(zip(some, angles, strict=True)) for angles in product(*(range(jobs[i][0]) for i in some)))
        )

    sets = [some for size in range(len(jobs), 1, -1) for some in combinations(range(len(jobs)), size)]
    largest = next((some for some in sets if turned(some)), ())
    assert compatible([Circle(float(period), float(arc)) for period, arc in jobs]) == list(largest)


def test_a_search_that_is_too_long_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the jobs share fairly: nobody is treated unfairly who might not be compatible."""
    monkeypatch.setattr("weft.policies.pace.ccml.TRIES", 1)
    assert compatible([Circle(period, 0.31) for period in (2.0, 2.0, 4.0)]) == [0, 1]


def test_how_close_iterations_must_be_to_a_ratio() -> None:
    """By hand: within 5 % of a ratio of whole numbers up to 4. 2 and 2.08 s differ by 4 %, 2 and 2.16 s
    by 8 %. 3 and 4 s repeat a shift every second. 4 and 5 s would do so too, but 5 is too large a number, and 4 x 4 s
    and 3 x 5 s, the nearest, differ by 1 in 15, 6.7 %."""
    assert common_s(2.0, 2.08) == pytest.approx(2.0)
    assert common_s(2.0, 2.16) == common_s(2.16, 2.0) == 0.0
    assert common_s(3.0, 4.0) == common_s(4.0, 3.0) == pytest.approx(1.0)
    assert common_s(4.0, 5.0) == common_s(5.0, 4.0) == 0.0


def shares(weights: np.ndarray, nics: list[int], capacity: list[int]) -> list[float]:  # type: ignore[type-arg]
    """What flows of these weights have of their NICs, in millionths."""
    sharers = [Sharer({nic: 1}, claim=int(w)) for nic, w in zip(nics, weights, strict=True)]
    max_min(sharers, [c * 10**9 for c in capacity])
    return [s.rate / 10**9 for s in sharers]


def jobs_on(nics: tuple[tuple[int, ...], ...], compute_s: tuple[float, ...], capacity: list[float]) -> FlowSet:
    """Jobs with a flow of one byte over each of these NICs, to a link that all share, in the order of their rows."""
    flows, at = flow_set(sum(map(len, nics)), 2), 0
    for uid, (mine, seconds) in enumerate(zip(nics, compute_s, strict=True)):
        none = ((0, 0),) * len(mine)
        paths = tuple((nic, len(capacity) - 1) for nic in mine)
        ones, zeros = (1.0,) * len(mine), (0.0,) * len(mine)
        flows.put(at, uid, FlowRows(paths, ones, zeros, none, none, seconds), np.array(capacity))
        at += len(mine)
    return flows


def test_weights_by_hand() -> None:
    """By hand: three jobs on a NIC of 21 that compute for long have 16, 4 and 1 of it; two flows of a
    job share its part; a flow alone on another NIC has all of it. When the first is gone the others have 16.8 and 4.2.
    """
    capacity = [21.0, 10.0, 99.0]
    flows = jobs_on(((0,), (0, 0), (0, 1)), (10.0, 10.0, 10.0), capacity)
    rule = CcmlRule()
    rule.begin(Demand(np.array(capacity)))
    for rows in ([0], [1, 2], [3, 4]):
        rule.came(np.array(rows), flows)
    all_of_them = rule.decide(Moment(0), flows, np.arange(5))
    assert (all_of_them.caps == math.inf).all()
    assert all_of_them.weights is not None
    assert shares(all_of_them.weights, [0, 0, 0, 0, 1], [21, 10]) == pytest.approx([16.0, 2.0, 2.0, 1.0, 10.0])
    rule.gone(np.array([0]), flows)
    later = rule.decide(Moment(1), flows, np.array([1, 2, 3])).weights
    assert later is not None
    assert shares(later[1:4], [0, 0, 0], [21]) == pytest.approx([8.4, 8.4, 4.2])


def test_weights_have_a_bound() -> None:
    """By hand: seven compatible jobs on a NIC. From the last to the first they would weigh 840 x 1, 4,
    16, 64, 256, 1024 and 4096. 840 x 256 = 215,040 is below 2^18 = 262,144 and 840 x 1024 = 860,160 is above, so the
    first two weigh 2^18."""
    capacity = [21.0, 99.0]
    flows = jobs_on(((0,),) * 7, (10.0,) * 7, capacity)
    rule = CcmlRule()
    rule.begin(Demand(np.array(capacity)))
    for row in range(7):
        rule.came(np.array([row]), flows)
    weights = rule.decide(Moment(0), flows, np.arange(7)).weights
    assert weights is not None
    assert weights.tolist() == [262144, 262144, 215040, 53760, 13440, 3360, 840]


def test_jobs_that_are_not_compatible_share_fairly() -> None:
    """The second job computes for 1.7 of 1.75 s where the others compute for 10: no ratio of whole numbers."""
    capacity = [21.0, 99.0]
    flows = jobs_on(((0,), (0,), (0,)), (10.0, 1.7, 10.0), capacity)
    rule = CcmlRule()
    rule.begin(Demand(np.array(capacity)))
    for row in range(3):
        rule.came(np.array([row]), flows)
    weights = rule.decide(Moment(0), flows, np.arange(3)).weights
    assert weights is not None
    assert shares(weights, [0, 0, 0], [21]) == pytest.approx([14.0, 3.5, 3.5])
    assert Ccml().transport().foreign_weight == weights[1]  # a foreign flow is like a job that shares fairly


def test_a_job_that_comes_later_is_not_before_one_that_sends() -> None:
    """The first of three jobs ends and the third takes its place in the engine, but not its rank: 4 : 1 for the second,
    on a NIC of 10 bytes/s."""
    engine = Engine(spec_of(rule_of(Ccml())))
    first = engine.attach(0, program(0.5, servers(1, (0,), 0.5)), 1)
    engine.attach(1, program(20.0, servers(1, (0,), 60.0)), 1)
    assert engine.run(60.0) == [first]
    engine.detach(first)
    assert engine.attach(2, program(20.0, servers(1, (0,), 60.0)), 1) == first
    engine.run(engine.now + 20.2)
    there = engine.on_link(0)
    assert (there[1][0], there[2][0]) == pytest.approx((8.0, 2.0))


def test_what_the_first_cannot_use_the_second_has() -> None:
    """Congestion control leaves no link idle: the first job's 8 of a NIC of 10 are cut to 6 by the core, so the second
    has 4 and not 2."""
    engine = Engine(spec_of(rule_of(Ccml())))
    for uid, (to, size) in enumerate(((2, 60.0), (1, 100.0))):  # over the core, which has 6; beside it: 10 s each
        engine.attach(uid, program(20.0, servers(to, (0,), size)), 1)
    engine.run(20.3)
    there = engine.on_link(0)
    assert (there[0][0], there[1][0]) == pytest.approx((6.0, 4.0))


def test_unfairness_moves_jobs_apart() -> None:
    """The property that CCML was published for: two jobs alike, half of an iteration computing and half sending. Shared
    fairly they meet for ever, 3 s each; shared unfairly they come apart and both have the NIC to themselves, 2 s."""

    def last_iterations(pace: Pace) -> list[float]:
        engine = Engine(spec_of(rule_of(pace)))
        for uid in range(2):
            engine.attach(uid, program(1.02, servers(1, (0,), 10.2)), 40)
        run_all(engine, 2)
        records, means = engine.records(), []
        for uid in range(2):
            mine = records[records["uid"] == uid]
            means.append(float(np.repeat(mine["duration"], mine["count"].astype(int))[20:35].mean()))
        return means

    assert last_iterations(Equal()) == pytest.approx([3.06, 3.06])
    assert last_iterations(Ccml()) == pytest.approx([2.04, 2.04], abs=0.01)


def test_parameters() -> None:
    assert Ccml.from_text("2").unfair == 2.0
    for wrong in ("", "x", "0.9", "-1", "nan", "inf", "1e7"):
        with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
            Ccml.from_text(wrong)


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=3), st.sampled_from([1.7, 2.0, 4.0, 10.0])),
             min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=4),
)  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
def test_only_the_jobs_on_its_nics_are_tested_anew(jobs: list[tuple[list[int], float]], leave: list[int]) -> None:
    """Jobs that come and go leave the weights that the rest would have if only they had ever come."""
    capacity = [4.0, 4.0, 4.0, 99.0]
    flows = jobs_on(tuple(tuple(nics) for nics, _ in jobs), tuple(s for _, s in jobs), capacity)
    rows = [np.flatnonzero(flows.uid == uid) for uid in range(len(jobs))]
    rule, afresh = CcmlRule(), CcmlRule()
    for one in (rule, afresh):
        one.begin(Demand(np.array(capacity)))
    for mine in rows:
        rule.came(mine, flows)
    gone = {uid for uid in leave if uid < len(jobs)}
    for uid in gone:
        rule.gone(rows[uid], flows)
    for uid in sorted({*range(len(jobs))} - gone):
        afresh.came(rows[uid], flows)
    assert rule.weight == afresh.weight
