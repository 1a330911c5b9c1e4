import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from live.tests.agent.said import report
from weft.network.topologies import Machine, leaf_spine
from weft.policies.pace.rates import Limits
from weft.stacks.registry import make
from weft_live.agent.conductor import HELD_BYTES_PER_S, Conductor
from weft_live.agent.fill import fill
from weft_live.agent.host import FLOOR_BYTES_PER_S
from weft_live.agent.phases import Phases

CLUSTER = leaf_spine(2, 2, Machine(gpus_per_server=2, nic_gbps=10.0), oversubscription=2.0, spines=1)
HELD = HELD_BYTES_PER_S  # 2 % of 10 Gbit/s would be more


def test_period_volume_and_duty_are_seen_without_a_profile() -> None:
    """Iterations of 0.5 s, 0.2 s of them at 25 MB/s, looked at every 10 ms; small talk in between is no phase."""
    seen, phases, now, sent = [], Phases(), 0.0, 0.0
    for k in range(310):
        now = 0.01 * k
        at = now % 0.5
        sent += 250_000 if 0.3 <= at < 0.4999 else 40.0 if 0.1 <= at < 0.15 else 0.0
        seen.append((phases.look(now, sent, 0), now))
    events = [event for event, _ in seen if event]
    assert events == ["begins", "ends"] * (len(events) // 2)
    pattern = phases.pattern
    assert pattern.period_s == pytest.approx(0.5, abs=0.011)
    assert pattern.phase_bytes == pytest.approx(5e6, rel=0.02)
    assert pattern.duty == pytest.approx(0.4, abs=0.05)


def test_a_phase_whose_volume_is_known_ends_at_once_and_waiting_bytes_begin_one() -> None:
    phases, now, sent = Phases(gap_s=0.03), 0.0, 0.0
    phases.look(now, sent, 0)
    for _ in range(3):
        for event, grows in (("begins", 1e6), ("", 0.0), ("", 0.0), ("ends", 0.0)):  # 0.04 s of silence end it
            sent, now = sent + grows, now + 0.0134
            assert phases.look(now, sent, 0) == event
        now += 1.0
        phases.look(now, sent, 0)
    assert phases.volume == 1e6
    assert phases.look(now + 0.01, sent, 500_000) == "begins"
    assert phases.left == 1e6
    assert phases.look(now + 0.02, sent + 1e6, 0) == ""
    assert phases.look(now + 0.03, sent + 1e6, 0) == "ends"


def test_a_pause_in_the_middle_of_a_ring_does_not_end_a_phase_whose_volume_is_known() -> None:
    """Held at the next step, its host would make all others wait as well."""
    phases, now, sent = Phases(gap_s=0.03), 0.0, 0.0
    phases.look(now, sent, 0)
    for _ in range(3):
        sent, now = sent + 1e6, now + 0.5
        assert phases.look(now, sent, 0) == "begins"
        assert phases.look(now + 0.04, sent, 0) == "ends"
    assert phases.look(now + 0.50, sent + 5e5, 0) == "begins"
    assert phases.look(now + 0.60, sent + 5e5, 0) == ""  # 0.1 s of silence, half way
    assert phases.look(now + 0.61, sent + 1e6, 0) == ""
    assert phases.look(now + 0.62, sent + 1e6, 0) == "ends"
    assert phases.look(now + 1.00, sent + 1.5e6, 0) == "begins"
    assert phases.look(now + 1.74, sent + 1.5e6, 0) == ""  # iterations are 0.5 s apart; 1.5 times that must pass
    assert phases.look(now + 1.76, sent + 1.5e6, 0) == "ends"  # it was a shorter one


def test_who_stood_still_does_not_take_that_for_silence() -> None:
    """Three times a machine stops for 0.3 s in the middle of a phase: nothing is sent, and nobody looks. Taken
    for its end, each stop would have the job wait for the next opening of its gate."""
    phases, sent, ends = Phases(look_s=0.02), 0.0, 0
    looks = [0.02 * k for k in range(400)]  # iterations of 0.4 s
    phases.look(-0.02, sent, 0)
    late = 0.0
    for n, now in enumerate(looks):
        if n in (210, 270, 331):
            late += 0.3
            assert phases.talking
            assert phases.look(now + late, sent, 0) == ""  # it looks before the job has sent again
            late += 0.01
        sent += 1e5 if n % 20 < 12 else 0.0
        ends += phases.look(now + late, sent, 0) == "ends"
    assert ends == 20
    assert phases.volume == pytest.approx(1.2e6)


def _played(phases: Phases, now: float, sent: float, iteration: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Pauses and the bytes after them, looked at every 10 ms: at 10 MB/s."""
    for pause, volume in iteration:
        for _ in range(round(pause / 0.01)):
            now += 0.01
            phases.look(now, sent, 0)
        for _ in range(round(volume / 1e5)):
            now, sent = now + 0.01, sent + 1e5
            phases.look(now, sent, 0)
    return now, sent


@given(st.lists(st.lists(st.integers(4, 15), max_size=4), min_size=8, max_size=8), st.integers(40, 90))
def test_bursts_of_one_iteration_are_put_together_again(stalls: list[list[int]], computing: int) -> None:
    """A host of a ring sends an iteration's 2 MB in one to five bursts: in between it waits for the others, for less
    than half the time that the job computes. Its volume and its period are those of whole iterations."""
    phases, now, sent, starts = Phases(), 0.0, 0.0, []
    for waits in stalls:
        starts.append(now + 0.01 * computing)
        parts = [4e5] * len(waits) + [2e6 - 4e5 * len(waits)]
        pauses = [0.01 * pause for pause in (computing, *waits)]
        now, sent = _played(phases, now, sent, list(zip(pauses, parts, strict=True)))
    _played(phases, now, sent, [(0.01 * computing, 1e5)])  # the next iteration ends the last burst
    assert phases.volume == pytest.approx(2e6, rel=0.06)
    assert phases.pattern.period_s == pytest.approx(median(b - a for a, b in pairwise(starts[-6:])), abs=0.021)


def test_another_volume_is_learned_when_iterations_change() -> None:
    phases, now, sent = Phases(), 0.0, 0.0
    for volume in (1e6, 3e6, 5e5):
        for _ in range(6):
            now, sent = _played(phases, now, sent, [(0.4, volume)])
        now, sent = _played(phases, now, sent, [(0.4, 1e5)])
        assert phases.volume == pytest.approx(volume)


def test_levels_and_weights_become_rates() -> None:
    paths = np.array([[0, 1], [0, 2], [3, -1]], np.int32)
    capacity, rows, no_caps = np.array([10.0, 8.0, 10.0, 5.0]), np.arange(3), np.full(3, math.inf)
    assert fill(paths, capacity, Limits(no_caps), rows) == [None, None, None]
    first = fill(paths, capacity, Limits(no_caps, levels=np.array([0, 1, 1])), rows)
    assert first == [None, pytest.approx(2.0), None]  # the first is held to 8 by its second link
    assert fill(paths, capacity, Limits(no_caps, np.array([3, 1, 1])), rows) == [7.5, 2.5, None]
    assert fill(paths, capacity, Limits(np.array([4.0, 9.0, 9.0])), rows) == [4.0, 6.0, 5.0]


def test_the_older_job_goes_first_and_the_other_has_what_it_leaves() -> None:
    conductor = Conductor(CLUSTER, make("pace", "priority"))
    conductor.add("old", (0, 4))
    conductor.add("new", (2, 6))  # other servers, the same link between the racks
    assert conductor.hear("s1", report("new", True), 0.0)
    assert conductor.decide(0.0)[0]["s1"]["new"][:2] == (HELD, None)
    assert conductor.hear("s0", report("old", True), 0.1)
    orders, _ = conductor.decide(0.1)
    assert orders["s0"]["old"][:2] == (HELD, None)
    assert orders["s1"]["new"][:2] == (HELD, HELD)
    conductor.hear("s0", report("old", False), 0.3)
    orders, _ = conductor.decide(0.3)
    assert orders["s1"]["new"][:2] == (HELD, None)
    assert orders["s0"]["old"][:2] == (HELD, HELD)


@pytest.mark.parametrize(("left", "admitted"), [(2.5e6, True), (1.5e6, False)])
def test_adadual_admits_a_small_transfer_beside_one_with_twice_its_bytes_left(left: float, admitted: bool) -> None:
    conductor = Conductor(CLUSTER, make("pace", "adadual"))
    conductor.add("large", (0, 4))
    conductor.add("small", (1, 5))  # the same servers
    conductor.hear("s0", report("large", True, left), 0.0)
    conductor.decide(0.0)
    conductor.hear("s0", report("small", True, 1e6), 0.1)
    orders, _ = conductor.decide(0.1)
    assert orders["s0"]["large"][:2] == (HELD, None)
    assert orders["s0"]["small"][:2] == (HELD, None if admitted else HELD)


def test_a_gate_holds_a_phase_until_its_slot_and_a_lost_agent_holds_nothing() -> None:
    conductor = Conductor(CLUSTER, make("pace", "fair"))
    conductor.add("shifted", (0, 4), {"epoch": 10.0, "period": 0.5, "tolerance": 0.05})
    conductor.hear("s0", report("shifted", True), 12.1)
    orders, wake = conductor.decide(12.1)
    assert orders["s0"]["shifted"][:2] == (HELD, HELD)
    assert wake == pytest.approx(12.5)
    assert conductor.decide(12.5)[0]["s0"]["shifted"][:2] == (HELD, None)
    conductor.lost("s0")
    assert conductor.decide(12.6)[0] == {}
    conductor.hear("s0", report("shifted", True), 13.01)
    assert conductor.decide(13.01)[0]["s0"]["shifted"][:2] == (HELD, None)  # late by less than the tolerance


@pytest.mark.parametrize(
    ("nic_gbps", "scale", "held"),
    [(25.0, 1.0, HELD), (1.0, 1.0, 2.5e6), (25.0, 125.0, 5e5), (25.0, 12_500.0, FLOOR_BYTES_PER_S)],
)
def test_a_job_that_is_held_keeps_a_fiftieth_of_its_link(nic_gbps: float, scale: float, held: float) -> None:
    """Held more tightly, it would start later when it is let go."""
    cluster = leaf_spine(1, 2, Machine(gpus_per_server=2, nic_gbps=nic_gbps))
    assert Conductor(cluster, make("pace", "priority"), scale).held_at == held


GATE = {"epoch": 10.0, "period": 0.5, "tolerance": 0.05}


def _comes(conductor: Conductor, host: str, job: str, now: float) -> float:
    """A phase of the job begins; when it may."""
    conductor.hear(host, report(job, True), now)
    wake = conductor.decide(now)[1]
    conductor.hear(host, report(job, False), now + 0.01)
    return now if math.isinf(wake) else wake


def test_who_is_late_is_waited_for_if_that_costs_all_less_than_its_wait() -> None:
    """Job "a" comes 0.1 s late: if both slip by that, they lose 0.2 s in all, where it alone would wait 0.4 s. If it
    comes 0.2 s late, they would lose 0.4 s, and it waits 0.3 s."""
    conductor = _two()
    assert _comes(conductor, "s0", "a", 12.1) == pytest.approx(12.1)
    assert _comes(conductor, "s1", "b", 12.25) == pytest.approx(12.35)
    assert _comes(conductor, "s0", "a", 12.59) == pytest.approx(12.6)
    assert _comes(conductor, "s0", "a", 13.3) == pytest.approx(13.6)
    assert _comes(conductor, "s1", "b", 13.36) == pytest.approx(13.36)  # nobody has slipped again


def _two() -> Conductor:
    """Openings of "a" at 12.0, 12.5, ..., of "b" 0.25 s later."""
    conductor = Conductor(CLUSTER, make("pace", "fair"))
    conductor.add("a", (0, 4), GATE)
    conductor.add("b", (2, 6), {**GATE, "epoch": 10.25})
    return conductor


def test_who_waits_for_an_opening_already_waits_for_the_late_one_too() -> None:
    conductor = _two()
    conductor.hear("s1", report("b", True), 12.05)
    assert conductor.decide(12.05)[1] == pytest.approx(12.25)
    conductor.hear("s0", report("a", True), 12.1)
    assert conductor.decide(12.1)[1] == pytest.approx(12.35)
    conductor.decide(12.35)
    conductor.hear("s1", report("b", False), 12.5)
    conductor.hear("s1", report("b", True), 12.85)
    assert conductor.members["b"].keeper.own == deque([pytest.approx(0.5)])  # waiting left out


def test_nobody_slips_for_a_job_that_its_gate_does_not_fit() -> None:
    """Iterations of 0.5 s fit, those of 0.6 s do not: the job is let go when three of the last five are such."""
    conductor, now = _two(), 12.0
    for own_s in (0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6):
        now = _comes(conductor, "s0", "a", now) + own_s
    slipped_s = conductor.members["b"].slip_s
    assert _comes(conductor, "s0", "a", now) == now
    assert conductor.members["a"].keeper.misfits()
    assert conductor.members["b"].slip_s == slipped_s


@pytest.mark.parametrize("gate", [None, {**GATE, "period": 0.0}])
def test_nobody_slips_beside_a_job_that_would_not(gate: dict[str, float] | None) -> None:
    """Its gate acts inside its script, or was a delay once."""
    conductor = _two()
    assert _comes(conductor, "s0", "a", 12.1) == pytest.approx(12.1)
    assert conductor.members["b"].slip_s == pytest.approx(0.1)
    conductor.set_gate("b", gate)
    assert {member.slip_s for member in conductor.members.values()} == {0.0}
    assert _comes(conductor, "s0", "a", 12.6) == pytest.approx(13.0)


def test_another_gate_opens_as_much_later_as_those_beside_it() -> None:
    conductor = _two()
    assert _comes(conductor, "s0", "a", 12.1) == pytest.approx(12.1)
    conductor.set_gate("b", {**GATE, "epoch": 10.2})
    conductor.add("c", (1, 5), {**GATE, "epoch": 10.4})
    assert [member.slip_s for member in conductor.members.values()] == pytest.approx([0.1, 0.1, 0.1])
    assert _comes(conductor, "s1", "b", 12.25) == pytest.approx(12.3)
    assert _comes(conductor, "s0", "c", 12.45) == pytest.approx(12.5)


def test_who_is_given_less_by_a_rule_does_not_get_more(monkeypatch: pytest.MonkeyPatch) -> None:
    conductor = Conductor(CLUSTER, make("pace", "priority"))
    for name, gpus in (("a", (0, 4)), ("b", (1, 5))):
        conductor.add(name, gpus)
        conductor.hear("s0", report(name, True), 0.0)
    assert conductor.ruling is not None
    monkeypatch.setattr(conductor.ruling, "rates", lambda now, sent: {("a", "s0"): 1e6, ("b", "s0"): 1e5})
    orders = conductor.decide(0.0)[0]["s0"]
    assert orders["a"] == orders["b"] == (HELD, HELD, orders["a"][2])
