"""The baselines of flow scheduling, by hand, and what all of them keep to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.sim.test_slotted import CAPACITY, JOBS, play, ring, servers
from weft.errors import StackError
from weft.model.flow_set import FlowRows, flow_set
from weft.pace.ccml import Ccml, CcmlRule
from weft.pace.equal import Equal, EqualRule
from weft.pace.flow import FlowRule
from weft.pace.mcs import Mcs, McsRule
from weft.pace.pcc import Pcc, PccRule, utility
from weft.pace.rates import Carried, Demand, RateRule
from weft.pace.tcp import VARIANTS, Tcp, TcpRule, loss_limit
from weft.sim.slotted import Iteration, SlottedEngine, SlotView
from weft.testing import check_pace

RULES = [EqualRule, McsRule, CcmlRule, PccRule, lambda: TcpRule("bbr"), lambda: TcpRule("reno")]


@pytest.mark.parametrize("make", RULES)
@given(jobs=JOBS)
@settings(max_examples=8, deadline=None)
def test_bytes_are_conserved_and_nobody_runs_ahead(
    make: type[RateRule], jobs: list[tuple[FlowRows, float, int]]
) -> None:
    play(jobs, make(), on_time=False)


def ends(rule: RateRule, jobs: list[FlowRows], loss: float = 0.0, line: float = 1.0) -> list[float]:
    """When each of several jobs that are ready at 0 has sent everything."""
    engine = SlottedEngine(CAPACITY * line, rule, packet_loss=loss)
    for uid, rows in enumerate(jobs):
        engine.attach(uid, Iteration(0.0, 1.0, rows), 1)
    while engine.run(1000.0):
        pass
    return [engine.finish_s(j) for j in range(len(jobs))]


def test_two_jobs_on_one_nic_by_hand() -> None:
    """docs/baselines/equal.md: two pushes of 6 bytes from server 0 to 1 at 10 bytes/s, and their broadcasts."""
    jobs = [servers(1, (0,), 6.0), servers(1, (0,), 6.0)]
    assert ends(EqualRule(), jobs) == pytest.approx([1.2, 1.2], abs=1e-6)
    # 4 : 1 until A has sent 6 at 8 bytes/s (0.75 s, in the 13th slot), then B alone
    assert ends(CcmlRule(), jobs) == pytest.approx([0.75, 1.224], abs=0.05)
    # A's push, then A's broadcast beside B's push, then B's broadcast
    assert ends(McsRule(), jobs) == pytest.approx([1.2, 1.8], abs=0.13)


def test_mcs_waits_where_flow_pipelines() -> None:
    """A push and its broadcast alone: start-after takes twice the time (section VII of the paper)."""
    alone = [servers(1, (0,), 6.0)]
    assert ends(FlowRule(), alone) == pytest.approx([0.6], abs=0.061)
    assert ends(McsRule(), alone) == pytest.approx([1.2], abs=0.061)
    assert ends(McsRule(), [ring((0, 1), 6.0)]) == pytest.approx(ends(FlowRule(), [ring((0, 1), 6.0)]), abs=0.07)


def test_loss() -> None:
    """p = 0.002, RTT 0.2 ms: Reno reaches 1460 / 0.0002 x sqrt(1.5 / 0.002) = 199.9 MB/s, CUBIC the same."""
    assert loss_limit("reno", 0.002) == pytest.approx(199.9e6, rel=1e-3)
    assert loss_limit("cubic", 0.002) == loss_limit("dctcp", 0.002) == loss_limit("reno", 0.002)
    assert loss_limit("cubic", 1e-13) > loss_limit("reno", 1e-13)  # beyond its Reno-friendly region
    assert loss_limit("bbr", 0.01) == loss_limit("reno", 0.0) == float("inf")
    assert loss_limit("dctcp-ecn", 0.002) == float("inf")  # no mark, no reaction
    big, fast = [servers(1, (0,), 6e8)], 3.125e8  # 25 Gbit/s
    clean, lossy = ends(TcpRule("cubic"), big, line=fast), ends(TcpRule("cubic"), big, 0.002, fast)
    assert lossy[0] > 5 * clean[0]
    flow, flow_lossy = ends(FlowRule(), big, line=fast), ends(FlowRule(), big, 0.002, fast)
    assert flow_lossy[0] < 1.4 * flow[0]


def test_pcc_prefers_what_is_carried() -> None:
    """More is better while nothing is lost; a loss of 10 % is worth less than half the rate without."""
    some = utility(np.array([1.0, 2.0, 2.0]), np.array([0.0, 0.0, 0.1]))
    assert some[2] < some[0] < some[1]
    assert ends(PccRule(), [servers(1, (0,), 6.0)])[0] > 0.6 + 0.01  # it has to find the rate first


def test_pcc_by_hand() -> None:
    """docs/baselines/pcc.md: a line of 10 of which half is free. Doubling from 0.5; 3 of 8 lost, so back to 4; then
    trials of 5 % up and down, the first of which still sees the fall."""
    rule, flows, live = PccRule(), flow_set(1, 2), np.array([0])
    capacity = np.array([10.0, 10.0])
    flows.put(0, 0, FlowRows((0,), (1,), ((0, 1),), (1e9,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    rule.begin(Demand(capacity))
    asked = []
    for slot in range(14):
        rate = rule.decide(slot, flows, live)[0]
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
    row = FlowRows((0,), (1,), ((0, 1),), (1e9,), (0.0,), ((0, 0),), ((0, 0),))
    rule.begin(Demand(capacity))
    asked = []
    for slot, uid in enumerate((0, 0, 0, 1, 1)):
        flows.put(0, 0, row, capacity, uid)
        flows.rate[0] = rule.decide(slot, flows, live)[0]
        asked.append(float(flows.rate[0]))
        rule.carried(slot, flows, live, Carried(np.full(2, flows.rate[0]), np.zeros(2, np.bool_)))
    assert asked == pytest.approx([0.5, 1.0, 2.0, 0.5, 1.0])


def test_ccml_by_hand() -> None:
    """docs/baselines/ccml.md: on a NIC of 21 three jobs have 16, 4 and 1; two flows of a job share its part; a job
    alone on another NIC has all of it."""
    capacity = np.array([21.0, 10.0, 99.0])
    flows = flow_set(5, 2)
    for row, (job, nic) in enumerate(((0, 0), (1, 0), (1, 0), (2, 0), (2, 1))):
        one = FlowRows((0,), (1,), ((nic, 2),), (1.0,), (0.0,), ((0, 0),), ((0, 0),))
        flows.put(row, job, one, capacity)
    rule = CcmlRule()
    rule.begin(Demand(capacity))
    assert rule.decide(0, flows, np.arange(5)).tolist() == pytest.approx([16.0, 2.0, 2.0, 1.0, 10.0])
    assert rule.decide(1, flows, np.array([1, 2, 3])).tolist()[1:4] == pytest.approx([8.4, 8.4, 4.2])


def test_ccml_a_job_that_comes_later_is_not_before_one_that_sends() -> None:
    """The first of three jobs ends and the third takes its place in the engine, but not its rank: 4 : 1 for the second,
    on a NIC of 10 bytes/s."""
    asked: dict[int, float] = {}

    def watch(view: SlotView) -> None:
        flows = view.engine.flows
        asked.update({int(flows.uid[i]): float(view.asked[i]) for i in view.live if flows.path[i, 0] == 0})

    engine = SlottedEngine(CAPACITY, CcmlRule(), watch=watch)
    first = engine.attach(0, Iteration(0.0, 1.0, servers(1, (0,), 0.5)), 1)
    engine.attach(1, Iteration(0.0, 1.0, servers(1, (0,), 60.0)), 1)
    assert engine.run(60.0) == [first]
    engine.detach(first)
    assert engine.attach(2, Iteration(0.0, 1.0, servers(1, (0,), 6.0)), 1) == first
    engine.run(engine.now + 0.3)
    assert (asked[1], asked[2]) == pytest.approx((8.0, 2.0))


def test_ccml_what_the_first_cannot_use_the_second_has() -> None:
    """Congestion control leaves no link idle: the first job's 8 of a NIC of 10 are cut to 6 by the core, so the second
    has 4 and not 2."""
    got: dict[int, float] = {}

    def watch(view: SlotView) -> None:
        flows = view.engine.flows
        got.update({int(flows.uid[i]): float(flows.rate[i]) for i in view.live if flows.path[i, 0] == 0})

    engine = SlottedEngine(CAPACITY, CcmlRule(), watch=watch)
    for uid, to in enumerate((2, 1)):  # over the core, which has 6; beside it
        engine.attach(uid, Iteration(0.0, 1.0, servers(to, (0,), 60.0)), 1)
    engine.run(0.3)
    assert (got[0], got[1]) == pytest.approx((6.0, 4.0))


def test_unfairness_moves_jobs_apart() -> None:
    """The property that CCML was published for: two jobs alike, half of an iteration computing and half sending. Shared
    fairly they meet for ever, 3 s each; shared unfairly they come apart and both have the NIC to themselves, 2 s."""

    def last_iterations(rule: RateRule) -> list[float]:
        engine = SlottedEngine(CAPACITY, rule)
        for uid in range(2):
            engine.attach(uid, Iteration(1.02, 1.0, servers(1, (0,), 10.2)), 40)
        while engine.run(1000.0):
            pass
        records = engine.records()
        return [float(records["duration"][records["uid"] == uid][20:35].mean()) for uid in range(2)]

    assert last_iterations(EqualRule()) == pytest.approx([3.06, 3.06], abs=0.02)
    assert last_iterations(CcmlRule()) == pytest.approx([2.04, 2.04], abs=0.05)


@pytest.mark.parametrize("make", [Equal, Mcs, Ccml, Pcc, *(lambda v=v: Tcp(v) for v in VARIANTS)])
def test_conforms(make: type[Equal]) -> None:
    check_pace(make)
    assert make().rates() is not None


def test_parameters() -> None:
    assert Ccml.from_text("2").unfair == 2.0
    with pytest.raises(StackError, match="write ccml"):
        Ccml.from_text("x")
    with pytest.raises(StackError, match="write tcp:X"):
        Tcp.from_text("vegas")
