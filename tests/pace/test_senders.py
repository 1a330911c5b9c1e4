"""The baselines of flow scheduling, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.sim.paced import ends, program, ring, rule_of, run_all, servers, spec_of
from weft.errors import StackError
from weft.model.flows import FlowRows, flow_set
from weft.pace.base import Pace
from weft.pace.flow import Flow
from weft.pace.mcs import Mcs
from weft.pace.rates import Carried, Demand, Moment
from weft.pace.senders import VARIANTS, Ccml, CcmlRule, Equal, Pcc, PccRule, Tcp, loss_limit, utility
from weft.sim.engine import Engine
from weft.sim.readable.sharing import Sharer, max_min
from weft.testing import check_pace


def test_two_jobs_on_one_nic_by_hand() -> None:
    """docs/baselines/equal.md: two pushes of 6 bytes from server 0 to 1 at 10 bytes/s, and their broadcasts."""
    jobs = [servers(1, (0,), 6.0), servers(1, (0,), 6.0)]
    assert ends(Equal(), jobs) == pytest.approx([1.2, 1.2])
    # 8 and 2 bytes/s until A has sent 6 (0.75 s); then B has 4.5 left, alone
    assert ends(Ccml(), jobs) == pytest.approx([0.75, 1.2])
    # A's push, then A's broadcast beside B's push, then B's broadcast
    assert ends(Mcs(), jobs) == pytest.approx([1.2, 1.8], rel=1e-4)


def test_mcs_waits_where_flow_pipelines() -> None:
    """A push and its broadcast alone: start-after takes twice the time (section VII of the paper); a ring does not."""
    alone = [servers(1, (0,), 6.0)]
    assert ends(Flow(), alone) == pytest.approx([0.6])
    assert ends(Mcs(), alone) == pytest.approx([1.2])
    assert ends(Mcs(), [ring((0, 1), 6.0)]) == pytest.approx([0.6])
    assert ends(Flow(), [ring((0, 1), 6.0)]) == pytest.approx([0.6])


def test_loss() -> None:
    """p = 0.002, RTT 0.2 ms: Reno reaches 1460 / 0.0002 x sqrt(1.5 / 0.002) = 199.9 MB/s, CUBIC the same."""
    assert loss_limit("reno", 0.002) == pytest.approx(199.9e6, rel=1e-3)
    assert loss_limit("cubic", 0.002) == loss_limit("dctcp", 0.002) == loss_limit("reno", 0.002)
    assert loss_limit("cubic", 1e-13) > loss_limit("reno", 1e-13)  # beyond its Reno-friendly region
    assert loss_limit("bbr", 0.01) == loss_limit("reno", 0.0) == float("inf")
    assert loss_limit("dctcp-ecn", 0.002) == float("inf")  # no mark, no reaction
    big, fast = [servers(1, (0,), 6e8)], 3.125e8  # 25 Gbit/s
    clean, lossy = (ends(Tcp("cubic"), big, loss=loss, line=fast)[0] for loss in (0.0, 0.002))
    assert clean == pytest.approx(6e8 / 3.125e9)
    assert lossy == pytest.approx(6e8 / 0.998 / loss_limit("cubic", 0.002))
    flow, flow_lossy = (ends(Flow(), big, loss=loss, line=fast)[0] for loss in (0.0, 0.002))
    assert flow_lossy == pytest.approx(flow / 0.998, rel=1e-6)
    bbr = ends(Tcp("bbr"), big, loss=0.002, line=fast)[0]
    assert bbr == pytest.approx(clean / 0.998 / 0.98)  # a fiftieth of its time it drains its queue


def test_pcc_prefers_what_is_carried() -> None:
    """More is better while nothing is lost; a loss of 10 % is worth less than half the rate without."""
    some = utility(np.array([1.0, 2.0, 2.0]), np.array([0.0, 0.0, 0.1]))
    assert some[2] < some[0] < some[1]
    assert ends(Pcc(), [servers(1, (0,), 6.0)])[0] > 0.6 + 0.01  # it has to find the rate first


def test_pcc_by_hand() -> None:
    """docs/baselines/pcc.md: a line of 10 of which half is free. Doubling from 0.5; 3 of 8 lost, so back to 4; then
    trials of 5 % up and down, the first of which still sees the fall."""
    rule, flows, live = PccRule(), flow_set(1, 2), np.array([0])
    capacity = np.array([10.0, 10.0])
    flows.put(0, 0, FlowRows(((0, 1),), (1e9,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    rule.begin(Demand(capacity))
    asked = []
    for slot in range(14):
        rate = rule.decide(Moment(slot), flows, live).caps[0]
        asked.append(float(rate))
        flows.rate[0] = min(rate, 5.0)
        full = np.array([rate > 5.0, False])
        rule.carried(slot, flows, live, Carried(np.full(2, flows.rate[0]), full))
    up, down = 1.05, 0.95
    after = [4.0 * down]
    for rate in (3.8, 3.8 * up, 3.8 * up**2, 3.8 * up**3):
        after += [rate * up, rate * down]
    assert asked == pytest.approx([0.5, 1.0, 2.0, 4.0, 8.0, *after])


def test_pcc_a_new_job_has_no_rate_yet() -> None:
    """Rows are used again: the next job's flow begins at 5 % of the line, not where the last job's was; the next
    iteration of the same job goes on."""
    rule, flows, live, capacity = PccRule(), flow_set(1, 2), np.array([0]), np.array([10.0, 10.0])
    row = FlowRows(((0, 1),), (1e9,), (0.0,), ((0, 0),), ((0, 0),))
    rule.begin(Demand(capacity))
    asked = []
    for slot, uid in enumerate((0, 0, 0, 1, 1)):
        flows.put(0, 0, row, capacity, uid)
        flows.rate[0] = rule.decide(Moment(slot), flows, live).caps[0]
        asked.append(float(flows.rate[0]))
        rule.carried(slot, flows, live, Carried(np.full(2, flows.rate[0]), np.zeros(2, np.bool_)))
    assert asked == pytest.approx([0.5, 1.0, 2.0, 0.5, 1.0])


def test_pcc_learns_nothing_from_a_slot_that_it_began_in() -> None:
    """A flow that starts in the middle of a slot has half of its bytes there by the end: no sign of loss."""
    rule, flows, live, capacity = PccRule(), flow_set(1, 2), np.array([0]), np.array([10.0, 10.0])
    flows.put(0, 0, FlowRows(((0, 1),), (1e9,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    rule.begin(Demand(capacity))
    first = rule.decide(Moment(0, 0.5, begins=False), flows, live).caps[0]
    flows.rate[0] = first / 2.0
    rule.carried(0, flows, live, Carried(np.full(2, first / 2.0), np.ones(2, np.bool_)))
    assert rule.decide(Moment(1), flows, live).caps[0] == first == pytest.approx(0.5)


def shares(weights: np.ndarray, nics: list[int], capacity: list[int]) -> list[float]:  # type: ignore[type-arg]
    """What flows of these weights have of their NICs, in millionths."""
    sharers = [Sharer({nic: 1}, claim=int(w)) for nic, w in zip(nics, weights, strict=True)]
    max_min(sharers, [c * 10**9 for c in capacity])
    return [s.rate / 10**9 for s in sharers]


def test_ccml_by_hand() -> None:
    """docs/baselines/ccml.md: on a NIC of 21 three jobs have 16, 4 and 1; two flows of a job share its part; a job
    alone on another NIC has all of it."""
    capacity = np.array([21.0, 10.0, 99.0])
    flows, nics = flow_set(5, 2), [0, 0, 0, 0, 1]
    for row, (job, nic) in enumerate(zip((0, 1, 1, 2, 2), nics, strict=True)):
        flows.put(row, job, FlowRows(((nic, 2),), (1.0,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    rule = CcmlRule()
    rule.begin(Demand(capacity))
    all_of_them = rule.decide(Moment(0), flows, np.arange(5))
    assert (all_of_them.caps == math.inf).all()
    assert all_of_them.weights is not None
    assert shares(all_of_them.weights, nics, [21, 10]) == pytest.approx([16.0, 2.0, 2.0, 1.0, 10.0])
    later = rule.decide(Moment(1), flows, np.array([1, 2, 3])).weights
    assert later is not None
    assert shares(later[1:4], [0, 0, 0], [21]) == pytest.approx([8.4, 8.4, 4.2])


def test_ccml_a_job_that_comes_later_is_not_before_one_that_sends() -> None:
    """The first of three jobs ends and the third takes its place in the engine, but not its rank: 4 : 1 for the second,
    on a NIC of 10 bytes/s."""
    engine = Engine(spec_of(rule_of(Ccml())))
    first = engine.attach(0, program(0.0, servers(1, (0,), 0.5)), 1)
    engine.attach(1, program(0.0, servers(1, (0,), 60.0)), 1)
    assert engine.run(60.0) == [first]
    engine.detach(first)
    assert engine.attach(2, program(0.0, servers(1, (0,), 6.0)), 1) == first
    engine.run(engine.now + 0.3)
    there = engine.on_link(0)
    assert (there[1][0], there[2][0]) == pytest.approx((8.0, 2.0))


def test_ccml_what_the_first_cannot_use_the_second_has() -> None:
    """Congestion control leaves no link idle: the first job's 8 of a NIC of 10 are cut to 6 by the core, so the second
    has 4 and not 2."""
    engine = Engine(spec_of(rule_of(Ccml())))
    for uid, to in enumerate((2, 1)):  # over the core, which has 6; beside it
        engine.attach(uid, program(0.0, servers(to, (0,), 60.0)), 1)
    engine.run(0.3)
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


@pytest.mark.parametrize("make", [Equal, Mcs, Ccml, Pcc, *(lambda v=v: Tcp(v) for v in VARIANTS)])
def test_conforms(make: type[Equal]) -> None:
    check_pace(make)
    assert make().transport().opened
    assert (make().rates() is None) == (make().name == "equal" or make().name.startswith("tcp"))


def test_parameters() -> None:
    assert Ccml.from_text("2").unfair == 2.0
    with pytest.raises(StackError, match="write ccml"):
        Ccml.from_text("x")
    with pytest.raises(StackError, match="write tcp:X"):
        Tcp.from_text("vegas")
