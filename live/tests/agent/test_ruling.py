import math
from pathlib import Path

import numpy as np
import pytest

from live.tests.agent.said import report
from weft.model.flows import FlowRows, FlowSet
from weft.network.topologies import Machine, leaf_spine
from weft.policies.pace.rates import Carried, Demand, Ints, Limits, Moment, RateRule
from weft.stacks.registry import make
from weft_live.agent.conductor import Conductor
from weft_live.agent.ruling import Ruling
from weft_live.agent.worlds import PacedWorld

CLUSTER = leaf_spine(2, 2, Machine(gpus_per_server=2, nic_gbps=10.0), oversubscription=2.0, spines=1)


class Witness(RateRule):
    """Writes down what it is told, and limits nobody."""

    slot_s = 0.1

    def __init__(self) -> None:
        self.log: list[tuple[str, tuple[int, ...]]] = []

    def begin(self, demand: Demand) -> None:
        self.log.append(("begin", ()))

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        self.log.append(("decide" if when.begins else "decide within", tuple(live.tolist())))
        return Limits(np.full(len(flows), math.inf))

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:
        self.log.append(("carried", tuple(int(rate) for rate in flows.rate[live])))

    def over(self, rows: Ints, flows: FlowSet) -> None:
        self.log.append(("over", tuple(rows.tolist())))

    def came(self, rows: Ints, flows: FlowSet) -> None:
        self.log.append(("came", tuple(rows.tolist())))

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        self.log.append(("gone", tuple(rows.tolist())))


def _rows(size: float) -> FlowRows:
    return FlowRows(((0, 1), (1, 0)), (size, size), (size, size), ((0, 0), (0, 0)), ((0, 0), (0, 0)))


def test_a_rule_is_told_who_comes_sends_ends_and_goes_and_rows_stay_with_their_job() -> None:
    witness, senders = Witness(), ("s0", "s1")
    ruling = Ruling(witness, np.array([1e6, 1e6]))
    ruling.add("a", 0, _rows(1.0), senders)
    ruling.add("b", 1, _rows(1.0), senders)
    ruling.begin("b", 1, _rows(5e4))
    assert ruling.rates(10.01, {}) == {("b", "s0"): None, ("b", "s1"): None}
    ruling.begin("a", 0, _rows(5e4))
    ruling.rates(10.05, {("b", "s0"): (2e4, 2e4)})  # within the slot: only who has begun
    assert ruling.flows.sent[2] == 2e4
    ruling.remove("a")  # the rows of b stay what they are
    ruling.rates(10.11, {("b", "s0"): (3e4, 3e4), ("b", "s1"): (1e4, 1e4)})
    ruling.end("b")
    assert ruling.rates(10.12, {}) == {}
    ruling.add("c", 2, _rows(1.0), senders)  # has the rows that a had
    assert witness.log == [
        ("begin", ()), ("came", (0, 1)), ("came", (2, 3)), ("came", (2, 3)), ("decide", (2, 3)), ("came", (0, 1)),
        ("decide within", (0, 1)), ("over", (0, 1)), ("gone", (0, 1)), ("carried", (300_000, 100_000)),
        ("decide", (2, 3)), ("over", (2, 3)), ("came", (0, 1)),
    ]  # fmt: skip


def test_what_a_slot_carried_is_by_host_and_begins_where_the_last_one_ended() -> None:
    witness = Witness()
    ruling = Ruling(witness, np.array([1e6, 1e6]))
    ruling.add("a", 0, _rows(1.0), ("s0", "s0"))  # both flows leave one host: each has half of what it says
    ruling.begin("a", 0, _rows(1e6))
    ruling.rates(1.0, {("a", "s0"): (0.0, 7e5)})
    ruling.rates(1.2, {("a", "s0"): (2e4, 7.2e5)})
    assert witness.log[-2] == ("carried", (50_000, 50_000))


def test_compatible_jobs_share_unfairly_under_ccml_until_one_is_gone() -> None:
    """Each sends for a fifth of its iteration, so the older one weighs four times as much; alone nobody is limited."""
    conductor = Conductor(CLUSTER, make("pace", "ccml"))
    for name, gpus in (("old", (0, 4)), ("new", (1, 5))):
        conductor.add(name, gpus)
        conductor.hear("s0", report(name, True, left=1e8, volume=1e8), 0.0)
    orders = conductor.decide(0.0)[0]["s0"]
    whole = min(conductor.capacity[link] for link in conductor.members["old"].flows[0].path)
    assert orders["old"][1] == pytest.approx(0.8 * whole)
    assert orders["new"][1] == pytest.approx(0.2 * whole)
    conductor.remove("old")
    assert conductor.decide(0.1)[0]["s0"] == {"new": (conductor.held_at, None, 11)}


PACES = [
    "fair", "equal", "tcp:cubic", "at-most", "adadual", "priority", "shortest", "ccml", "mcs", "pcc", "pcc:vivace",
    "flow", "flow:fill", "weft",
]  # fmt: skip


@pytest.mark.parametrize("pace", PACES)
def test_every_pace_goes_on_while_jobs_come_and_go(pace: str) -> None:
    """Nobody is ever given more than the shared link has, and one that is alone is not held."""
    conductor = Conductor(CLUSTER, make("pace", pace))
    total: dict[str, float] = {}
    for step in range(24):
        now = 0.03 * step
        if step % 6 == 0:
            conductor.add(f"j{step}", (step // 6 % 2, 4 + step // 6 % 2))
        if step in (9, 15):
            conductor.remove(min(conductor.members))
        for name in conductor.members:
            total[name] = total.get(name, 0.0) + 1e5
            conductor.hear("s0", report(name, True, left=5e6, volume=6e6, sent=1e5, total=total[name]), now)
        orders = conductor.decide(now)[0].get("s0", {})
        rates = [rate for _, rate, _ in orders.values() if rate is not None]
        assert sum(rates) <= min(conductor.capacity) * 1.001 + conductor.held_at * len(rates)
        assert any(rate is None or rate > conductor.held_at for _, rate, _ in orders.values())
    for name in sorted(conductor.members)[1:]:
        conductor.remove(name)
    (alone,) = conductor.members
    conductor.hear("s0", report(alone, False), 0.9)
    conductor.hear("s0", report(alone, True, left=5e6, volume=6e6), 1.0)
    rate = conductor.decide(1.0)[0]["s0"][alone][1]
    assert rate is None or rate > conductor.held_at


def test_what_senders_do_by_themselves_needs_no_agent(tmp_path: Path) -> None:
    """`tcp:cubic` is a model of what the kernel does; real sockets are left to the kernel."""
    world = PacedWorld(CLUSTER, tmp_path)
    world.set_pace(make("pace", "tcp:cubic"))
    assert world.control is None
    world.close()
    conductor = Conductor(CLUSTER, make("pace", "tcp:cubic"))
    conductor.add("a", (0, 4))
    conductor.hear("s0", report("a", True), 0.0)
    assert conductor.decide(0.0)[0]["s0"]["a"][:2] == (0.0, None)


def test_a_gate_that_does_not_fit_lets_the_job_go_and_its_own_iterations_are_known() -> None:
    """Iterations of 0.6 s at slots of 0.5 s would wait for every second one; after five of them nobody waits."""
    conductor = Conductor(CLUSTER, make("pace", "fair"))
    conductor.add("a", (0, 4), {"epoch": 0.0, "period": 0.5, "tolerance": 0.05})
    now, waited = 0.1, []
    for _ in range(9):
        conductor.hear("s0", report("a", True), now)
        wake = conductor.decide(now)[1]
        waited.append(0.0 if math.isinf(wake) else wake - now)
        conductor.decide(now + waited[-1])
        conductor.hear("s0", report("a", False), now + waited[-1] + 0.2)
        now += waited[-1] + 0.6
    assert max(waited[:4]) > 0.3
    assert waited[6:] == [0.0] * 3
    assert conductor.own_s("a") == (9, pytest.approx(0.6))
    assert conductor.own_s("b") == (0, 0.0)


def test_a_phase_that_ends_and_begins_before_the_server_looks_is_let_go_again() -> None:
    """The agent has held the job when the phase ended: the same words must come once more, or it would stay so."""
    conductor = Conductor(CLUSTER, make("pace", "adadual"))
    conductor.add("a", (0, 4))
    conductor.hear("s0", report("a", True), 0.0)
    before = conductor.decide(0.0)[0]
    for phases, talking in ((6, False), (6, True)):
        assert conductor.hear("s0", {**report("a", talking), "phases": phases}, 0.1)
    after = conductor.decide(0.1)[0]
    assert after["s0"]["a"][:2] == before["s0"]["a"][:2] == (conductor.held_at, None)
    assert after != before


def test_of_transfers_that_wait_the_one_whose_job_has_least_left_goes_first() -> None:
    """SRSF: a has more left than b when they start and less later, so another of them is let go."""
    first: list[str] = []
    for turns in ({}, {"a": 3.0}):
        conductor = Conductor(CLUSTER, make("pace", "at-most:1"))
        for name, gpus, turn in (("z", (0, 4), 0.0), ("a", (1, 5), 9.0), ("b", (1, 5), 5.0)):
            conductor.add(name, gpus, turn=turn)
        conductor.set_turns({**turns, "gone": 1.0})
        for name in "zab":
            conductor.hear("s0", report(name, True), 0.0)
            conductor.decide(0.0)
        conductor.hear("s0", report("z", False), 0.1)
        orders, _ = conductor.decide(0.1)
        first += [name for name in "ab" if orders["s0"][name][1] is None]
    assert first == ["b", "a"]


def test_a_rule_without_slots_is_asked_again_when_it_wants_to_be() -> None:
    """MLTCP: the weight of a job that has sent half is 0.25 + 1.75 / 2 beside 0.25 of one that begins, and the rule is
    asked again when the faster ratio has grown by 1/16; while nobody shares its links it is not asked."""
    rule = make("pace", "mltcp").rates()
    ruling, senders = Ruling(rule, np.array([1e6, 1e6])), ("s0", "s1")
    for uid, name in enumerate("ab"):
        ruling.add(name, uid, _rows(1e6), senders)
    ruling.begin("a", 0, _rows(1e6))
    ruling.rates(10.0, {})
    assert ruling.wake(10.0) == math.inf
    ruling.begin("b", 1, _rows(1e6))
    half = {("a", host): (5e5, 5e5) for host in senders}
    found = ruling.rates(10.5, half)
    assert found["a", "s0"] / found["b", "s0"] == pytest.approx((0.25 + 1.75 / 2) / 0.25, rel=1e-3)  # type: ignore[operator]
    assert 10.5 < ruling.wake(10.5) <= 10.5 + 1.0 / 16.0 + 1e-9
