"""One host at a time over real switch tables decides as the batch of all hosts does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings

from testkit.draws import examples
from tests.sim.paced import CAPACITY, JOBS, Job, program, ring, servers, spec_of
from weft.errors import StackError
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.flow import Flow, FlowRule, FlowSpec, first_of_its_job
from weft.policies.pace.flow.host import Answer, HostScheduler, OwnFlow, Peers
from weft.policies.pace.flow.switch_table import SwitchTable
from weft.policies.pace.rates import Carried, Demand, Ints, Limits, Moment
from weft.sim.engine import Engine
from weft.sim.engine.program import make_program
from weft.sim.engine.ruled import flow_rows
from weft.stacks import resolve
from weft.testing import check_pace


class Hosts(FlowRule):
    """A HostScheduler per server and a SwitchTable per link; messages are on time."""

    def begin(self, demand: Demand) -> None:
        super().begin(demand)
        self.hosts: dict[int, HostScheduler] = {}
        self.switches = {link: SwitchTable([link]) for link in range(len(demand.capacity))}
        self.begun: dict[int, HostScheduler] = {}

    def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
        self._room(len(flows))
        if when.slot != self._last:
            self._pass(when.slot)
        planned = np.zeros(len(flows))
        paths = {int(i): tuple(int(k) for k in flows.path[i] if k >= 0) for i in live}
        new = {i for i in paths if flows.sent[i] == 0.0 and self._silent(i)}
        for i in paths:
            self._meet(i, paths[i], flows)
            planned[i] = self.begun[i].planned(i)
        known = {i: p for i, p in enumerate(planned.tolist()) if i not in new}
        told = Peers(dict(enumerate(flows.sent.tolist())), known)
        start = first_of_its_job(flows, live, when.slot)
        order = [int(live[(start + t) % len(live)]) for t in range(len(live))]
        for i in order:
            answers = {k: self._answer(k, i, [j for j in order if k in paths[j] and flows.job[j] == flows.job[i]])
                       for k in paths[i]}  # fmt: skip
            message = self.begun[i].decide(i, when.slot, answers, told, when.part)
            self.caps[i] = message.rates[0]
            self._post(i, paths[i], when.slot, message.rates, planned, known)
            for j in range(flows.next0[i], flows.next1[i]):
                if j in paths and planned[j] > 0 and (cut := self.begun[j].cut(j, when.slot, told, when.part)):
                    self.caps[j] = cut.rates[0]
                    self._post(j, paths[j], when.slot, cut.rates, planned, known)
        return Limits(self.caps * (1.0 - 1e-10))  # rounded down, as the kernel does it

    def _pass(self, slot: int) -> None:
        for table in self.switches.values():
            table.advance(slot)
        for _ in range(slot - self._last if self._last >= 0 else 0):
            for host in self.hosts.values():
                host.advance()
        self._pass_idle(slot)
        self._last = slot

    def _meet(self, i, path, flows):  # type: ignore[no-untyped-def]
        if i not in self.begun:
            self.begun[i] = self.hosts.setdefault(path[0], HostScheduler())
            feeders = tuple(range(flows.feed0[i], flows.feed1[i]))
            followers = tuple(range(flows.next0[i], flows.next1[i]))
            self.begun[i].begin(OwnFlow(i, flows.size[i], flows.chunk[i], path, flows.line[i], feeders, followers))

    def _silent(self, i: int) -> bool:
        return all(not any(table.load(link, (i,))) for link, table in self.switches.items())

    def _answer(self, link: int, i: int, job: list[int]) -> Answer:
        table, mates = self.switches[link], [j for j in job if j != i]
        return Answer(table.load(link), float(self.available[link]), len(mates), table.load(link, mates))

    def _post(self, i, path, slot, rates, planned, known):  # type: ignore[no-untyped-def]
        planned[i] = known[i] = rates[0]
        for link in path:
            self.switches[link].post(i, link, slot, rates)

    def carried(self, slot, flows, live, came):  # type: ignore[no-untyped-def]
        super().carried(slot, flows, live, came)
        for i in map(int, live):
            if i in self.begun:
                self.begun[i].carried(i, float(flows.sent[i]), float(flows.rate[i]))

    def over(self, rows, flows):  # type: ignore[no-untyped-def]
        for i in map(int, rows):
            if i in self.begun:
                self.begun.pop(i).end(i)
            for link, table in self.switches.items():
                table.withdraw(i, link)


Jobs = list[Job]


def asked(make: type[FlowRule], jobs: Jobs) -> list[list[float]]:
    """Decision after decision, its slot, what is left of it, and the rates that a rule allows."""
    rates: list[list[float]] = []

    class Recorded(make):  # type: ignore[misc, valid-type]
        def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
            limits = super().decide(when, flows, live)
            rates.append([when.slot, when.part, *limits.caps[live].tolist()])
            return limits

    engine = Engine(spec_of(Recorded))
    for uid, (flows, compute, n) in enumerate(jobs):
        engine.attach(uid, program(compute, flows), min(n, 2))
    while engine.run(20.0):
        pass
    return rates


def same_until(a: list[list[float]], b: list[list[float]]) -> int:
    """In how many decisions, from the first on, two runs allow the same."""
    together = zip(a, b, strict=False)
    return next((k for k, (x, y) in enumerate(together) if x != pytest.approx(y, abs=1e-6)), min(len(a), len(b)))


def decided(jobs: Jobs) -> int:
    """In how many decisions the batch allows what it would allow too if sizes were other in the twelfth digit.

    Where two slots are equally good the last digit decides, and hosts add loads up in another order than the batch.
    """
    rng, plain = np.random.default_rng(0), asked(FlowRule, jobs)
    slots = len(plain)
    for _ in range(4):
        moved = [
            (tuple(replace(f, amount=f.amount * (1 + 1e-12 * rng.uniform(-1, 1))) for f in flows), c, n)
            for flows, c, n in jobs
        ]
        slots = min(slots, same_until(plain, asked(FlowRule, moved)))
    return slots


@given(JOBS)
@example(
    [
        (servers(0, (2, 3, 1), 0.5), 0.125, 2), (ring((0, 1, 2), 3.5), 0.03125, 2), (ring((0, 2), 1.53125), 0.25, 1),
        (ring((0, 1, 2), 2.0), 0.5, 1), (ring((1, 0), 6.0), 0.5, 1),
    ]
)  # fmt: skip
@settings(max_examples=examples(25), deadline=None)
def test_hosts_decide_as_the_batch_does(jobs: Jobs) -> None:
    batch, hosts = asked(FlowRule, jobs), asked(Hosts, jobs)
    assert batch
    same = same_until(batch, hosts)
    assert same == len(batch) == len(hosts) or same >= decided(jobs), (batch[same:][:1], hosts[same:][:1])


def test_a_lost_answer_keeps_the_plan() -> None:
    host = HostScheduler(slots=3)
    host.begin(OwnFlow(0, 1.2, 0.0, (0,), 10.0))
    nobody = Peers({}, {})
    first = host.decide(0, 0, {0: Answer([0.0, 0.0, 0.0], 10.0)}, nobody)
    assert first.rates == pytest.approx((10.0, 10.0, 0.0))
    host.carried(0, 0.6, 10.0)
    host.advance()
    assert host.decide(0, 1, None, nobody).rates == pytest.approx((10.0, 0.0, 0.0))
    assert host.best(0) == 10.0
    host.end(0)


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
        ("x", "write flow, flow:host-only"), ("", "write flow"), ("slot", "write flow"), ("slot=30", "given in ms"),
        ("slot=0ms", "slot must"), ("slot=nanms", "slot must"), ("slots=0", "slots must"), ("slots=1.5", "slots must"),
        ("delay=600ms", "delay must be"), ("loss=100%", "loss must be"), ("slot=9ms,slot=8ms", "write flow"),
        ("fill,quantised", "choose one of the two"), ("no-estimate", "flow-prototype"), ("leaves=101%", "leaves must"),
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
        if not quantised:
            host = HostScheduler()
            host.begin(OwnFlow(0, size, 0.0, (0, 5), 10.0))
            load = [posted, *[0.0] * 9]
            told = host.decide(0, 0, {0: Answer(load, 10.0), 5: Answer([0.0] * 10, 10.0)}, Peers({}, {}), 1.0 / 3.0)
            assert told.rates[0] == pytest.approx(cap)
            assert list(told.rates[1:4]) == pytest.approx(later)


def test_what_a_foreign_flow_keeps() -> None:
    """None of its half by default: it is on a lower level. 40 % of it: weights of 1000 and 250, so 0.2 of a link."""
    assert not Flow().transport().reacts
    some = Flow.from_text("leaves=40%").transport()
    assert some.reacts
    assert some.foreign_weight / (some.foreign_weight + some.claim) == pytest.approx(0.2)
    all_of_it = Flow.from_text("leaves=100%").transport()
    assert all_of_it.foreign_weight == all_of_it.claim


def _one_flow(spec: FlowSpec, size: float, n: int = 1) -> tuple[FlowRule, FlowSet, Ints]:
    capacity, flows = np.array([10.0, 10.0]), flow_set(n, 2)
    none, zeros = ((0, 0),) * n, (0.0,) * n
    flows.put(0, 0, FlowRows(((0, 1),) * n, (size,) * n, zeros, none, none), capacity)
    flows.active[:] = True
    rule = FlowRule(spec)
    rule.begin(Demand(capacity))
    return rule, flows, np.arange(n)
