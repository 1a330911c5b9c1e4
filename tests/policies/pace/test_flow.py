import numpy as np
import pytest
from numba import njit

from testkit.paced import CAPACITY, servers
from weft.errors import StackError
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.flow import Flow, FlowRule, FlowSpec, available_bandwidth
from weft.policies.pace.rates import Carried, Demand, Ints, Moment
from weft.sim.engine.program import make_program
from weft.sim.engine.ruled import flow_rows
from weft.stacks import resolve
from weft.testing import check_pace


def _rates(spec: FlowSpec, turns: list[tuple[int, int]]) -> list[float]:
    """Rates of two flows from NICs of their own over one link, decided at (slot, flow); a flow is over when the other
    one begins."""
    rule, flows, capacity = FlowRule(spec), flow_set(2, 2), np.full(3, 10.0)
    for k in range(2):
        flows.put(k, k, FlowRows(((k, 2),), (1.2,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    rule.begin(Demand(capacity))
    found: list[float] = []
    before = turns[0][1]
    for slot, k in turns:
        if k != before:
            rule.over(np.array([before]), flows)
        before = k
        flows.active[:] = [k == 0, k == 1]
        found.append(float(rule.decide(Moment(slot), flows, np.array([k])).caps[k]))
        flows.rate[k] = found[-1]
        rule.carried(slot, flows, np.array([k]), Carried(np.zeros(3), np.zeros(3, np.bool_)))
    return found


@pytest.mark.parametrize("gap", [1, 2, 3, 9, 10, 20, 21])
def test_what_is_known_late_is_of_the_slots_it_was_posted_for(gap: int) -> None:
    """The first flow plans slots 0 and 1 of a link of 10. Who hears of it a slot late leaves slot 1 alone and takes any
    slot after it, however long nobody sent: an old answer says nothing about slots that it was not given for."""
    assert _rates(FlowSpec(delay_s=0.06), [(0, 0), (gap, 1)]) == pytest.approx([10.0, 0.0 if gap == 1 else 10.0])


def test_nothing_is_known_before_it_has_arrived() -> None:
    """Messages are 3 slots late, also in the first ones: in slot 1 nobody has heard of the plan of slot 0."""
    assert _rates(FlowSpec(delay_s=0.18), [(0, 0), (1, 1)]) == pytest.approx([10.0, 10.0])


def test_conforms() -> None:
    check_pace(Flow)
    assert Flow.from_text("host-only").spec.host_only


@pytest.mark.parametrize(
    "text",
    [
        "host-only",
        "slot=30ms",
        "slot=30ms,slots=20,delay=6ms,loss=1%",
        "host-only,slot=20ms",
        "fill",
        "host-only,fill,loss=5%",
        "quantised",
        "host-only,quantised,slot=30ms",
        "pauses,leaves=40%",
        "pauses,delay=6ms",
    ],
)
def test_settings(text: str) -> None:
    assert Flow.from_text(text).name == f"flow:{text}"
    assert resolve(f"fifo[pace=flow:{text},place=random]").pace.name == f"flow:{text}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "not known"), ("", "an empty"), ("slot", "not known"), ("slot=30", "slot takes"),
        ("slot=0ms", "slot takes"), ("slot=nanms", "slot takes"), ("slots=0", "slots takes"),
        ("slots=1.5", "slots takes"),
        ("delay=600ms", "delay must be"), ("loss=100%", "loss takes"), ("slot=9ms,slot=8ms", "slot is there twice"),
        ("fill,quantised", "choose one of the two"), ("no-estimate", "flow-prototype"), ("leaves=101%", "leaves takes"),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense(text: str, words: str) -> None:
    with pytest.raises(StackError, match=words):
        Flow.from_text(text)


@pytest.mark.parametrize(("pauses", "rates"), [(False, [9.0, 10.0, 9.1]), (True, [9.0, 9.0, 9.0])])
def test_a_delay_of_part_of_a_slot(pauses: bool, rates: list[float]) -> None:
    """6 of 60 ms: a tenth of each slot goes at what was planned before. Alone, 1.2 bytes at 10 bytes/s in slots of
    0.06 s: nothing was planned for the first slot, so it carries 0.9 of 0.6; the second is full; 0.06 are left, planned
    at 1 byte/s, which the last slot carries as fast as it can: at 0.1 x 1 + 0.9 x 10. Who pauses loses a tenth of every
    slot."""
    assert FlowSpec(delay_s=0.006).late == 0
    assert FlowSpec(delay_s=0.006).waiting == pytest.approx(0.1)
    assert (FlowSpec(delay_s=0.126).late, FlowSpec(delay_s=0.126).waiting) == (2, pytest.approx(0.1))
    rule, flows, live = FlowRule(FlowSpec(delay_s=0.006, pauses=pauses)), flow_set(1, 2), np.array([0])
    flows.put(0, 0, FlowRows(((0, 5),), (1.2,), (0.0,), ((0, 0),), ((0, 0),)), CAPACITY)
    rule.begin(Demand(CAPACITY))
    asked: list[float] = []
    for slot in range(3):
        asked.append(float(rule.decide(Moment(slot), flows, live).caps[0]))
        flows.rate[0] = min(asked[-1], (flows.size[0] - flows.sent[0]) / 0.06)
        flows.sent[0] += 0.06 * flows.rate[0]
        rule.carried(slot, flows, live, Carried(np.zeros(len(CAPACITY)), np.zeros(len(CAPACITY), np.bool_)))
    assert asked == pytest.approx(rates)


def test_who_pauses_goes_on_in_the_middle_of_a_slot() -> None:
    """A tenth of a slot passes without an answer: 9 of 10. Asked again when half of the slot is left, a flow sends at
    those 9 until the answer is there, a fifth of the time, and at 10 from then on."""
    rule, flows, live = _one_flow(FlowSpec(slot_s=1.0, slots=4, delay_s=0.1, pauses=True), 60.0)
    assert rule.decide(Moment(0), flows, live).caps[0] == pytest.approx(9.0)
    assert rule.decide(Moment(0, 0.5, begins=False), flows, live).caps[0] == pytest.approx(0.2 * 9.0 + 0.8 * 10.0)


@pytest.mark.parametrize("quantised", [False, True])
def test_a_start_within_a_slot(quantised: bool) -> None:
    """A third of a slot is left. 1.2 bytes: all of it at 10 bytes/s, 0.2, then a slot, then 0.4 in the last. Quantised
    it waits. 0.1 bytes fit into what is left at 5 bytes/s, and go at 10, which is free; 0.15 beside a job that has
    posted 7 for this slot and nothing for the next wait for that."""
    for size, posted, cap, later in (
        (1.2, 0.0, 10.0, [10.0, 0.4 / 0.06, 0.0]), (0.1, 0.0, 10.0, [0.0, 0.0, 0.0]),
        (0.15, 7.0, 0.0, [0.15 / 0.06, 0.0, 0.0]),
    ):  # fmt: skip
        rule, flows = FlowRule(FlowSpec(quantised=quantised)), flow_set(2, 2)
        flows.put(0, 0, flow_rows(make_program(servers(1, (0,), size)[:1], CAPACITY)), CAPACITY)
        rule.begin(Demand(CAPACITY))
        rule.table[0, 0] = posted
        found = rule.decide(Moment(0, 1.0 / 3.0, begins=False), flows, np.array([0])).caps[0]
        assert found == pytest.approx(0.0 if quantised else cap)
        assert rule.plans[0, 1:4].tolist() == pytest.approx([0.0] * 3 if quantised else later)


def test_what_a_foreign_flow_keeps() -> None:
    """None of its half by default: it is on a lower level. 40 % of it: weights of 1000 and 250, so 0.2 of a link."""
    assert not Flow().transport().reacts
    some = Flow.from_text("leaves=40%").transport()
    assert some.reacts
    assert some.foreign_weight / (some.foreign_weight + some.claim) == pytest.approx(0.2)
    all_of_it = Flow.from_text("leaves=100%").transport()
    assert all_of_it.foreign_weight == all_of_it.claim


def test_what_is_available() -> None:
    """A link that was full in the window is ours as far as we got through it, any other at line rate."""
    carried = np.array([[3.0, 3.0], [5.0, 5.0], [0.0, 0.0], [1.0, 1.0]])
    full = np.array([[True, False], [False, False], [False, False], [False, False]])
    assert available_bandwidth(np.array([10.0, 10.0]), carried, full).tolist() == [5.0, 10.0]
    inner = FlowRule().kernel.best_rate
    best = njit(lambda reached, i, line: inner(reached, i, line))
    assert best(np.array([[1.0, 4.0], [0.0, 0.0]]), 0, 9.0) == 4.0
    assert best(np.array([[1.0, 4.0], [0.0, 0.0]]), 1, 9.0) == 9.0


# A push of 12 (in units of rate) over links of 10; another job has posted 4 for this slot. Algorithm 1: D = 2 fills the
# empty slot 1 with 10 and this one with 2, at 2 + 2 x 0.04. Then by how far the furthest broadcast will be after this
# slot, and by the best rate of the last slots (0: unknown, so line rate), what Algorithm 2 makes of it:
RAISES = [
    (1.0, 0.0, [2.0, 10.0]),  # F_b - F_i = 1 - 2 < 0: the plan
    (5.0, 0.0, [5.0, 7.0]),  # raised by 5 - 2; the rest is planned anew
    (5.0, 4.0, [4.0, 8.0]),  # no more than B_i
    (5.0, 1.0, [2.0, 10.0]),  # B_i does not lower the plan
    (9.0, 0.0, [6.0, 6.0]),  # no more than the others leave of the link
]


@pytest.mark.parametrize(("furthest", "best", "rates"), RAISES)
def test_a_push_is_raised_to_the_furthest_broadcast(furthest: float, best: float, rates: list[float]) -> None:
    """By the kernel for all hosts: Algorithm 2, lines 4-12."""
    rule = FlowRule(FlowSpec(slot_s=1.0, slots=4))
    rule.begin(Demand(CAPACITY))
    flows = flow_set(3, 2)
    flows.put(0, 0, flow_rows(make_program(servers(1, (0,), 12.0), CAPACITY)), CAPACITY)  # a push and its broadcast
    rule._room(3)
    rule.table[0, 0] = 4.0  # of the other job
    rule.plans[1, 0] = furthest
    rule.table[flows.path[1, 0], 0] = rule.table[flows.path[1, 1], 0] = furthest
    rule.reached[0, 0] = best
    rule.decide(Moment(0), flows, np.array([0]))
    assert rule.plans[0].tolist() == pytest.approx([*rates, 0.0, 0.0])


@pytest.mark.parametrize(("idle", "ours"), [(3, 5.0), (4, 10.0), (50, 10.0)])
def test_slots_without_traffic_of_ours_count(idle: int, ours: float) -> None:
    """What a link denied us is forgotten after 4 slots, also if nobody sent in them and nobody was asked."""
    rule, flows, none = FlowRule(), flow_set(2, 2), np.zeros(0, np.int64)
    rule.begin(Demand(np.array([10.0, 10.0])))
    rule.decide(Moment(7), flows, none)
    rule.carried(7, flows, none, Carried(np.array([5.0, 5.0]), np.array([True, False])))
    assert rule.available.tolist() == [5.0, 10.0]
    rule.decide(Moment(8 + idle), flows, none)
    assert rule.available.tolist() == [ours, 10.0]


def _one_flow(spec: FlowSpec, size: float, n: int = 1) -> tuple[FlowRule, FlowSet, Ints]:
    capacity, flows = np.array([10.0, 10.0]), flow_set(n, 2)
    none, zeros = ((0, 0),) * n, (0.0,) * n
    flows.put(0, 0, FlowRows(((0, 1),) * n, (size,) * n, zeros, none, none), capacity)
    flows.active[:] = True
    rule = FlowRule(spec)
    rule.begin(Demand(capacity))
    return rule, flows, np.arange(n)
