from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.oracles.engine import ReferenceEngine
from testkit.oracles.shortest import owed, rates
from testkit.paced import CAPACITY, JOBS, Job, ends, partly_sent, path, program, ring, rule_of, servers, spec_of
from weft.errors import StackError
from weft.model.flows import flow_set
from weft.policies.pace.admission import Fair
from weft.policies.pace.rates import Demand, Moment, Others
from weft.policies.pace.shortest import Shortest
from weft.policies.pace.shortest.rule import ROUNDS, ShortestRule
from weft.sim.compiled.state import FOREIGN
from weft.sim.engine import Engine
from weft.sim.engine.program import make_program, transfer_node
from weft.sim.engine.ruled import flow_rows
from weft.testing import check_pace

INF = float("inf")


def _owed_by_kernel(
    jobs: list[dict[int, int]], weights: list[float], others: list[tuple[tuple[int, ...], float]], capacity: list[float]
) -> list[float]:
    """`owed`, asked of the kernel."""
    begins = np.cumsum([0, *map(len, jobs)])
    link_of, n_of = (np.array([x for flows in jobs for x in f(flows)], np.int64) for f in (dict.keys, dict.values))
    wide = np.array([(*links, -1, -1)[:2] for links, _ in others], np.int64)
    most, room = np.array([most for _, most in others]), np.array(capacity)
    found = ShortestRule().kernel.owed(begins, link_of, n_of, wide, most, room, np.array(weights), ROUNDS)
    return [float(rate) for rate in found]


@pytest.mark.parametrize("owed", [owed, _owed_by_kernel])
def test_what_others_are_owed_by_hand(owed: Any) -> None:
    """By hand: links of 10. A job that weighs 4 and meets one foreign flow on one link leaves it
    10 / 5, and with two flows there a third of the link, as much as each of them has; one that meets two on two links
    pays for both: four quarters for it, and half for each of them; three on three links: 4 / 9 against 1. What a flow
    does not ask for is not kept for it."""
    ten, four = [10.0] * 4, [4.0]
    assert owed([{0: 2}], four, [((0,), INF)], ten) == pytest.approx([10 / 3])
    assert owed([{0: 1}], four, [((0,), INF)], ten) == pytest.approx([2.0])
    assert owed([{0: 1, 1: 1}], four, [((0,), INF), ((1,), INF)], ten) == pytest.approx([5.0, 5.0])
    assert owed([{0: 1, 1: 1, 2: 1}], four, [((k,), INF) for k in range(3)], ten) == pytest.approx([90 / 13] * 3)
    assert owed([{0: 1}, {0: 1}], [4.0, 5.0], [((0,), INF)], ten) == pytest.approx([1.0])  # two jobs weigh 9
    assert owed([{0: 1, 3: 5}], four, [((0,), INF)], ten) == pytest.approx([2.0])  # nobody else is on link 3
    assert owed([{0: 1}], four, [((0,), 0.5)], ten) == pytest.approx([0.5])
    assert owed([], [], [((0, 1), INF), ((1, 2), INF)], ten) == pytest.approx([5.0, 5.0], rel=1e-3)


def test_who_sends_little_weighs_more() -> None:
    """A push of 6 bytes at 10 bytes/s and its broadcast send for 0.6 s; with 1.8 s of computing that is a quarter of an
    iteration, and the job weighs four times as much as one that does not compute."""
    rule = ShortestRule(1.5)
    rule.begin(Demand(CAPACITY))
    for uid, compute_s in ((3, 1.8), (4, 0.0)):
        flows = flow_set(8, 3)
        flows.put(0, 0, flow_rows(program(compute_s, servers(1, (0,), 6.0))), CAPACITY, uid)
        rule.came(np.arange(3), flows)
    assert rule.part == pytest.approx({3: 0.25, 4: 1.0})
    rule.gone(np.arange(3), flows)
    assert list(rule.part) == [3]


def test_rates_by_hand() -> None:
    """Three jobs on link 0 with 3, 1 and 2 s to go: the second has all of it; the third has link 1 to itself for its
    other flow, once the common rate of its flows, which is 0, is given."""
    jobs = [[((0,), 30.0)], [((0,), 10.0)], [((0,), 20.0), ((1,), 5.0)]]
    assert rates(jobs, [10.0, 10.0], [10.0, 10.0]) == [[0.0], [10.0], [0.0, 10.0]]
    # alike: who came first; and only what is ours of a link
    assert rates([[((0,), 10.0)], [((0,), 10.0)]], [8.0], [10.0]) == [[8.0], [0.0]]


def _rates_by_kernel(
    jobs: list[list[tuple[tuple[int, ...], float]]], room: list[float], capacity: list[float]
) -> list[list[float]]:  # fmt: skip
    """`rates`, asked of the kernel, which is told of no others: all room is ours."""
    assert room == capacity
    job = np.array([j for j, flows in enumerate(jobs) for _ in flows])
    path = np.array([(*links, -1)[:2] for flows in jobs for links, _ in flows], np.int32)
    left, caps = np.array([left for flows in jobs for _, left in flows]), np.zeros(len(job))
    none, weights = np.zeros((0, 1), np.int64), np.ones(len(jobs))
    rule = ShortestRule()
    rule.kernel.decide(
        np.arange(len(job)), job, path, left, np.array(capacity), none, np.zeros(0), weights, ROUNDS, caps
    )
    return [[float(rate) for rate in caps[job == j]] for j in range(len(jobs))]


@pytest.mark.parametrize("rates", [rates, _rates_by_kernel])
def test_the_busiest_link_of_a_job_is_what_it_needs(rates: Any) -> None:
    """By hand: links of 10. Job 0 has 20 bytes for link 0 and 15 for link 1, so 2 and 1.5 s; job 1
    has 30 bytes for link 0, 3 s. The most on any link is 2 s and 3 s: job 0 goes first, though both of its links
    together have 3.5 s to do. Flows on one link do add up: with two flows of 20 bytes on link 0, 4 s, job 0 goes after
    job 1."""
    ten = [10.0, 10.0]
    assert rates([[((0,), 20.0), ((1,), 15.0)], [((0,), 30.0)]], ten, ten) == [[10.0, 10.0], [0.0]]
    assert rates([[((0, 1), 20.0)], [((0,), 30.0)]], ten, ten) == [[10.0], [0.0]]  # 2 s, or 4 s by the sum
    assert rates([[((0,), 20.0), ((0,), 20.0)], [((0,), 30.0)]], ten, ten) == [[0.0, 0.0], [10.0]]


def test_two_jobs_on_one_nic() -> None:
    """As on the page of `equal`: pushes of 6 and 4 bytes at 10 bytes/s. The shorter is done after 0.4 s, the other
    after 1 s; shared fairly it would be 0.8 and 1 s."""
    pushes = [servers(1, (0,), 6.0), servers(1, (0,), 4.0)]
    assert ends(Shortest(), pushes) == pytest.approx([1.0, 0.4])
    assert ends(Fair(), pushes) == pytest.approx([1.0, 0.8])


def _foreign(engine: Any, k: int, a: int, b: int, demand: float = INF) -> int:
    """A foreign flow from server a to b, below all of ours."""
    node = transfer_node(0, 1e6, [(link, 1) for link in path(a, b)], demand=demand, level=(1 << 20) + 1)
    return int(engine.attach(FOREIGN + k, make_program([node], CAPACITY), 1))


@pytest.mark.parametrize("kind", [Engine, ReferenceEngine])
def test_it_is_told_of_others_when_they_come_and_go(kind: Any) -> None:
    """Two of ours with 60 and 40 bytes, 10 bytes/s. A foreign flow on the same NICs (two links, so that both pay twice)
    from 1 s to 2 s has 1 of 1 + 4 + 4 parts; before and after, ours that goes first has the line."""
    engine = kind(spec_of(rule_of(Shortest(4.0))))
    for uid, size in ((0, 60.0), (1, 40.0)):
        engine.attach(uid, program(0.0, servers(1, (0,), size)), 1)
    assert engine.run(1.0) == []
    row = _foreign(engine, 0, 0, 1)
    assert engine.run(2.0) == []
    if kind is Engine:
        there = engine.on_link(0)
        assert (there[FOREIGN][0], there[1][0]) == pytest.approx((10 / 9, 80 / 9))
        assert there[0][0] == pytest.approx(0.0, abs=1e-9)
        assert engine.sent_bytes(row) == pytest.approx(10 / 9)
    engine.detach(row)
    assert engine.run(10.0) == [1]
    assert engine.now == pytest.approx(4.0 + 1 / 9)


@example(  # a link on which a unit is left that two flows cannot share: everybody is below the level at which it fills
    [
        (ring((0, 2, 3, 1), 0.8231948965357196), 0.371311667228252, 4),
        (servers(2, (3,), 4.998941703195421), 4.853677263839615e-267, 4),
        (servers(1, (2,), 0.9865927903016888), 0.3916297732052392, 3),
        (servers(2, (3,), 4.998941703195421), 4.853677263839615e-267, 4),
        (servers(1, (0,), 4.998941703195421), 0.1928243734256106, 2),
    ],
    [(2, 1, 1.5), (1, 3, 1.5), (2, 2, 1.5)],
)
@given(JOBS, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from([1.5, INF])), max_size=4))
@settings(max_examples=examples(40), deadline=None)
def test_both_engines_agree_beside_others(jobs: list[Job], others: list[tuple[int, int, float]]) -> None:
    """Foreign flows come a third of a second after one another, and go in the same order, half a second later."""
    seen = []
    for kind in (Engine, ReferenceEngine):
        engine: Any = kind(spec_of(rule_of(Shortest())))
        mine = {engine.attach(u, program(s, f), n): u for u, (f, s, n) in enumerate(jobs)}
        changes = sorted((0.3 * k + 0.5 * end, end, k) for k in range(len(others)) for end in (0, 1))
        rows: dict[int, int] = {}
        ended: list[tuple[int, float]] = []
        while mine:
            until = changes[0][0] if changes else 1e4
            for row in engine.run(until):
                ended.append((mine.pop(row), engine.now))
                engine.detach(row)
            while changes and changes[0][0] <= engine.now:
                _, end, k = changes.pop(0)
                if end:
                    engine.detach(rows[k])
                else:
                    a, further, most = others[k]
                    rows[k] = _foreign(engine, k, a, (a + further) % 4, most)
        seen.append(ended)
    assert seen[0] == seen[1]


@given(
    JOBS,
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.sampled_from([0.3, 2.0, INF])), max_size=5),
    st.lists(st.sampled_from([0.5, 4.0, 50.0]), min_size=8, max_size=8),
    st.data(),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_kernel_says_the_same(
    jobs: list[Job], others: list[tuple[int, int, float]], weights: list[float], data: st.DataObject
) -> None:
    """... and no link is given away twice, whatever others are there; something moves, too."""
    flows = partly_sent(jobs, data)
    live = np.flatnonzero(flows.sent < flows.size)
    rule = ShortestRule(1.0)
    rule.begin(Demand(CAPACITY))
    rule.part = {uid: 1.0 / weight for uid, weight in enumerate(weights)}
    theirs = [(path(a, (a + further) % 4), most) for a, further, most in others]
    wide = np.array([(*links, -1)[:3] for links, _ in theirs], np.int64).reshape(len(theirs), 3)
    rule.others(Others(wide, np.array([most for _, most in theirs]), np.zeros(len(theirs)), np.zeros(0)))
    caps = rule.decide(Moment(0), flows, live).caps
    uids = sorted({int(flows.uid[i]) for i in live})
    rows = [[i for i in live.tolist() if flows.uid[i] == uid] for uid in uids]
    links = {i: [link for link in flows.path[i].tolist() if link >= 0] for i in live.tolist()}
    count = [{link: sum(link in links[i] for i in mine) for i in mine for link in links[i]} for mine in rows]
    usual = sum(1.0 / weights[uid] for uid in uids) / max(len(uids), 1)  # the part for which those that send do so
    kept = owed(count, [usual * weights[uid] for uid in uids], theirs, CAPACITY.tolist())
    assert all(0.0 <= rate <= most for rate, (_, most) in zip(kept, theirs, strict=True))
    room = CAPACITY.tolist()
    for rate, (used, _) in zip(kept, theirs, strict=True):
        for link in used:
            room[link] -= rate
    assert min(room) >= -1e-9
    expected = rates([[(links[i], flows.size[i] - flows.sent[i]) for i in mine] for mine in rows], room, CAPACITY)
    for mine, found in zip(rows, expected, strict=True):
        assert caps[mine] == pytest.approx(found, abs=1e-9)
    if any(links[i] for i in live.tolist()):
        assert caps.max() > 0.0


def test_its_weight_is_a_setting() -> None:
    assert (Shortest.from_text(None).name, Shortest.from_text("8").name) == ("shortest", "shortest")
    assert Shortest.from_text("2.5").name == "shortest:2.5"
    for wrong in ("", "x", "0", "-1", "nan", "inf"):
        with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
            Shortest.from_text(wrong)


def test_conforms() -> None:
    check_pace(Shortest)
    assert not Shortest().transport().reacts
