from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings

from testkit.draws import examples
from testkit.paced import JOBS, Job, program, ring, servers, spec_of
from weft.policies.pace.flow import FlowRule, first_of_its_job
from weft.policies.pace.rates import Demand, Limits
from weft.sim.engine import Engine
from weft_live.flow.host import Answer, HostScheduler, OwnFlow, Peers
from weft_live.flow.switch_table import SwitchTable


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


# As in tests/policies/pace/test_flow.py, where the kernel decides for all hosts.


@pytest.mark.parametrize(
    ("size", "posted", "now", "later"),
    [(1.2, 0.0, 10.0, [10.0, 0.4 / 0.06, 0.0]), (0.1, 0.0, 10.0, [0.0] * 3), (0.15, 7.0, 0.0, [0.15 / 0.06, 0.0, 0.0])],
)
def test_a_start_within_a_slot(size: float, posted: float, now: float, later: list[float]) -> None:
    """A third of a slot is left."""
    host = HostScheduler()
    host.begin(OwnFlow(0, size, 0.0, (0, 5), 10.0))
    answers = {0: Answer([posted, *[0.0] * 9], 10.0), 5: Answer([0.0] * 10, 10.0)}
    told = host.decide(0, 0, answers, Peers({}, {}), 1.0 / 3.0)
    assert told.rates[0] == pytest.approx(now)
    assert list(told.rates[1:4]) == pytest.approx(later)


@pytest.mark.parametrize(
    ("furthest", "best", "rates"),
    [
        (1.0, 0.0, [2.0, 10.0]), (5.0, 0.0, [5.0, 7.0]), (5.0, 4.0, [4.0, 8.0]), (5.0, 1.0, [2.0, 10.0]),
        (9.0, 0.0, [6.0, 6.0]),
    ],
)  # fmt: skip
def test_a_push_is_raised_to_the_furthest_broadcast(furthest: float, best: float, rates: list[float]) -> None:
    """Algorithm 2, lines 4-12."""
    host = HostScheduler(slot_s=1.0, slots=4)
    host.begin(OwnFlow(0, 12.0, 0.0, (0, 5), 10.0, (), (1,)))
    if best:
        host.carried(0, 0.0, best)
    answers = {0: Answer([4.0, 0.0, 0.0, 0.0], 10.0), 5: Answer([0.0] * 4, 10.0)}
    told = host.decide(0, 0, answers, Peers({1: 0.0}, {1: furthest}))
    assert list(told.rates) == pytest.approx([*rates, 0.0, 0.0])
