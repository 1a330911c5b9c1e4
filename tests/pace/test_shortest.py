"""shortest: who goes first, with what weight, and that others do not pay for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.paced import CAPACITY, JOBS, Job, ends, partly_sent, program, rule_of, servers, spec_of
from weft.pace.rates import MOST_RANK, Demand, Moment
from weft.pace.shortest import FINE, Shortest, ShortestRule, ranks
from weft.sim.compiled.state import FOREIGN
from weft.sim.engine import Engine
from weft.sim.engine.program import make_program, transfer_node
from weft.testing import check_pace


def test_by_hand() -> None:
    """docs/baselines/shortest.md: three jobs on link 0 with 3, 1 and 2 s to go, of which the first has two flows there,
    and one on link 1 alone. The one with 1 s goes first, with the weight of all four flows."""
    jobs = [{0: (3.0, 2)}, {0: (1.0, 1)}, {0: (2.0, 1), 1: (0.5, 1)}, {2: (9.0, 1)}]
    assert ranks(jobs) == [(2, 2 * FINE), (0, 4 * FINE), (1, 4 * FINE), (0, FINE)]
    assert ranks([{0: (1.0, 1)}, {0: (1.0, 1)}]) == [(0, 2 * FINE), (1, 2 * FINE)]  # alike: who came first


def test_two_jobs_on_one_nic() -> None:
    """As on the page of `equal`: pushes of 6 and 4 bytes at 10 bytes/s. The shorter is done after 0.4 s, the other
    after 1 s; shared fairly it would be 0.8 and 1 s."""
    assert ends(Shortest(), [servers(1, (0,), 6.0), servers(1, (0,), 4.0)]) == pytest.approx([1.0, 0.4])


def test_weights_stay_within_what_a_rule_may_give() -> None:
    """1,300 jobs on one NIC: the first of them would weigh more than the engine takes."""
    jobs = [{0: (float(j), 1)} for j in range(1300)]
    assert ranks(jobs)[0] == (0, MOST_RANK)
    engine = Engine(spec_of(rule_of(Shortest())))
    for uid in range(len(jobs)):
        engine.attach(uid, program(0.0, servers(1, (0,), 1.0)), 1)
    engine.run(0.01)
    assert sum(rate for rate, _ in engine.on_link(0).values()) == pytest.approx(10.0)


def test_others_have_what_they_would_have_beside_fair_flows() -> None:
    """Two of ours and a foreign flow on a NIC of 10 bytes/s: a third for the foreign one, as if all three were alike,
    and two thirds for ours that goes first."""
    engine = Engine(spec_of(rule_of(Shortest())))
    for uid, size in ((0, 60.0), (1, 40.0)):
        engine.attach(uid, program(0.0, servers(1, (0,), size)), 1)
    node = transfer_node(0, 1e3, [(0, 1), (5, 1)], claim=Shortest().transport().foreign_weight)
    engine.attach(FOREIGN, make_program([node], CAPACITY), 1)
    engine.run(0.1)
    there = engine.on_link(0)
    assert (there[FOREIGN][0], there[1][0]) == pytest.approx((10 / 3, 20 / 3))
    assert there.get(0, (0.0, 0.0))[0] == pytest.approx(0.0, abs=1e-9)


@given(JOBS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_kernel_says_the_same(jobs: list[Job], data: st.DataObject) -> None:
    flows = partly_sent(jobs, data)
    live = np.flatnonzero(flows.sent < flows.size)
    rule = ShortestRule()
    rule.begin(Demand(CAPACITY))
    limits = rule.decide(Moment(0), flows, live)
    assert limits.levels is not None
    assert limits.weights is not None
    uids = sorted({int(flows.uid[i]) for i in live})
    links: list[dict[int, tuple[float, int]]] = [{} for _ in uids]
    for i in live.tolist():
        of = links[uids.index(int(flows.uid[i]))]
        for link in flows.path[i].tolist():
            if link >= 0:
                seconds, count = of.get(link, (0.0, 0))
                of[link] = (seconds + (flows.size[i] - flows.sent[i]) / CAPACITY[link], count + 1)
    for i in live.tolist():
        expected = ranks(links)[uids.index(int(flows.uid[i]))]
        assert (limits.levels[i], limits.weights[i]) == expected


def test_conforms() -> None:
    check_pace(Shortest)
    assert Shortest().transport().reacts
