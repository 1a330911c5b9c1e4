from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.toys import decided, played
from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Hold, Start
from weft.model.events import Submitted
from weft.model.plan import State
from weft.model.view import JobStatus, JobView, Spread
from weft.network.topologies import Machine, rails
from weft.policies.place.delay import DelayScheduling
from weft.policies.place.delay.timers import DEFAULT_S, AutoTuned, tier_of
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


class Case:
    """A cluster of 2 racks x 2 servers x 4 GPUs in which so many GPUs of each server are free, at a time."""

    def __init__(self, free: list[int], now: float = 0.0, racks: int = 2, servers: int = 2, each: int = 4) -> None:
        self.cluster = toy_cluster(racks, servers, each)
        self.core = Core(resolve("dally"), ToyWorld(self.cluster, []))
        for server, n in enumerate(free):
            for gpu in self.cluster.servers[server].gpus[n:]:
                self.core.table.gpus.enter(f"other{gpu}", (gpu,), 1e9)
        self.core.view.move_to(now, 1)

    def ask(
        self, place: DelayScheduling, gpus: int, since: float = 0.0, state: State | None = None
    ) -> tuple[Spread | None, str, float | None, State]:
        job = JobView(toy_job("job", gpus), waiting_since_s=since)
        view = self.core.view
        answer = place.place(view, job, gpus, view.offer, place.initial_state() if state is None else state)
        spread = None if answer.gpus is None else Spread.of(self.cluster, answer.gpus)
        return spread, answer.reason, answer.ask_again_s, answer.state


MANUAL = DelayScheduling.from_text("100/300")


@pytest.mark.parametrize(
    ("free", "waited", "spread", "again"),
    [
        ([4, 0, 0, 0], 0.0, Spread(1, 1), None),  # lines 5-8: one machine at once
        ([2, 2, 0, 0], 0.0, None, 100.0),  # line 10: too early for a rack
        ([2, 2, 0, 0], 99.9, None, 100.0),
        ([2, 2, 0, 0], 100.0, Spread(2, 1), None),  # lines 13-16
        ([2, 1, 2, 1], 100.0, None, 300.0),  # line 18: too early for the network
        ([2, 1, 2, 1], 299.9, None, 300.0),
        ([2, 1, 2, 1], 300.0, Spread(2, 2), None),  # lines 21-22
        ([2, 1, 0, 0], 400.0, None, None),  # not that many on offer
    ],
)
def test_algorithm_1(free: list[int], waited: float, spread: Spread | None, again: float | None) -> None:
    found, reason, ask_again, _ = Case(free, now=waited).ask(MANUAL, 4)
    assert (found, ask_again) == (spread, again)
    assert reason


def test_reasons_name_both_tiers() -> None:
    _, reason, _, _ = Case([2, 2, 0, 0]).ask(MANUAL, 4)
    assert reason == "declines 4 GPUs in one rack: waits for 100 s for 4 on one machine"
    _, reason, _, _ = Case([2, 2, 0, 0], now=7200.0).ask(MANUAL, 4)
    assert reason == "takes in one rack after 2 h"
    _, reason, _, _ = Case([2, 2, 0, 0], now=2.5362e7).ask(MANUAL, 4)
    assert reason == "takes in one rack after 7,000 h"


def test_too_big_for_a_machine_or_a_rack() -> None:
    """5 GPUs never fit on a machine of 4: a rack at once. 9 never fit in a rack of 8: anything at once."""
    assert Case([4, 2, 0, 0]).ask(MANUAL, 5)[0] == Spread(2, 1)
    assert Case([2, 2, 2, 2]).ask(MANUAL, 5)[2] == 300.0  # no rack has 5: that timer counts
    assert Case([4, 4, 2, 0]).ask(MANUAL, 9)[0] == Spread(3, 2)
    forever = DelayScheduling.from_text("consolidated")
    assert Case([4, 4, 2, 0], now=1e9).ask(forever, 9)[0] == Spread(3, 2)
    assert Case([2, 2, 2, 2], now=1e9).ask(forever, 5)[:3] == (
        None, "declines 5 GPUs over several racks: waits for as long as it takes for 5 in one rack", None
    )  # fmt: skip


def test_tightest_machine() -> None:
    place = DelayScheduling.from_text("no-wait")
    case = Case([4, 2, 3, 4])
    job = JobView(toy_job("job", 2))
    assert place.place(case.core.view, job, 2, case.core.view.offer, {}).gpus == (4, 5)  # the server with 2 free


def test_which_rack() -> None:
    """The tightest rack, whichever has the lower number; but one from which fewer GPUs must be taken goes before it."""
    place = DelayScheduling.from_text("no-wait")
    job = JobView(toy_job("job", 4))
    for free, servers in (([2, 2, 3, 3], {0, 1}), ([3, 3, 2, 2], {2, 3})):
        case = Case(free)
        gpus = place.place(case.core.view, job, 4, case.core.view.offer, {}).gpus
        assert gpus is not None
        assert {gpu // 4 for gpu in gpus} == servers
    offered = Case([2, 2, 3, 3]).core.view.offer  # those of the first rack would be taken from running jobs
    gpus = place.place(Case([0, 0, 3, 3]).core.view, job, 4, offered, {}).gpus
    assert gpus is not None
    assert {gpu // 4 for gpu in gpus} == {2, 3}


def test_the_fewest_machines_of_the_rack() -> None:
    """Free are 1, 2, 1 and 3 GPUs of a rack: 5 take the machines with 3 and 2, not those with 1, 2, 1 and 1 of 3."""
    case = Case([1, 2, 1, 3], racks=1, servers=4)
    assert case.ask(DelayScheduling.from_text("no-wait"), 5)[0] == Spread(2, 1)


def test_a_running_job_keeps_its_tier_or_betters_it() -> None:
    """Two of its GPUs on each of two servers: another pair of servers is no better, one server is."""
    for free, expected in (([2, 2, 2, 2], (0, 1, 4, 5)), ([2, 2, 4, 0], (8, 9, 10, 11))):
        case = Case(free)
        job = JobView(toy_job("job", 4), JobStatus.RUNNING, (0, 1, 4, 5), started_s=0.0)
        assert MANUAL.place(case.core.view, job, 4, case.core.view.offer, {}).gpus == expected


def accepted(rule: AutoTuned, waits: list[tuple[float, float]], gpus: int = 4, tier: int = 0) -> State:
    """State after waits (acceptance time, seconds) on a tier."""
    core = Core(resolve("dally"), ToyWorld(toy_cluster(), []))
    state = rule.initial_state()
    for i, (now, seconds) in enumerate(waits):
        core.view.move_to(now, i)
        state = rule.accepted(core.view, JobView(toy_job(f"j{i}", gpus)), gpus, tier, seconds, state)
    return state


def timers(rule: AutoTuned, state: State, now: float, gpus: int = 4) -> tuple[float, float]:
    core = Core(resolve("dally"), ToyWorld(toy_cluster(), []))
    core.view.move_to(now, 1)
    return rule.timers(core.view, JobView(toy_job("x", gpus)), gpus, state)


def test_algorithm_2_by_hand() -> None:
    """Waits 10, 20, 60 s on a machine: mean 30, sample deviation sqrt((400 + 100 + 900) / 2) = 26.458."""
    rule = AutoTuned(1000.0)
    state = accepted(rule, [(100.0, 10.0), (200.0, 20.0), (300.0, 60.0)])
    assert timers(rule, state, 300.0) == pytest.approx((30.0 + 2 * 700.0**0.5, DEFAULT_S[1]))
    assert timers(rule, state, 300.0, gpus=8) == DEFAULT_S  # by GPU demand
    assert timers(rule, state, 1150.0) == pytest.approx((40.0 + 2 * 800.0**0.5, DEFAULT_S[1]))  # the first is too old
    assert timers(rule, state, 1250.0)[0] == 60.0  # one entry has no deviation
    assert timers(rule, state, 1300.0) == DEFAULT_S  # none left


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5)), min_size=1, max_size=20),
    st.floats(1.0, 1e6),
    st.floats(0, 2e6),
)
def test_tuned_timers_are_those_of_the_window(waits: list[tuple[float, float]], window: float, later: float) -> None:
    waits = sorted(waits)
    rule = AutoTuned(window)
    state = accepted(rule, waits, tier=1)
    now = waits[-1][0] + later
    kept = [seconds for when, seconds in waits if when > now - window]
    expected = DEFAULT_S[1] if not kept else fmean(kept) + 2 * (stdev(kept) if len(kept) > 1 else 0.0)
    assert timers(rule, state, now) == pytest.approx((DEFAULT_S[0], expected))


def test_there_are_two_lists_for_each_demand() -> None:
    """Section IV-B3: 2 to 20 for up to ten GPU demands, one for machines and one for racks."""
    rule, core = AutoTuned(), Core(resolve("dally"), ToyWorld(toy_cluster(), []))
    state, demands = rule.initial_state(), [1, 2, 4, 8, 16, 32, 40, 48, 56, 64]
    for n, gpus in enumerate(demands * 2):
        core.view.move_to(float(n), n)
        for tier in (0, 1, 2):
            state = rule.accepted(core.view, JobView(toy_job(f"j{n}.{tier}", gpus)), gpus, tier, 1.0, state)
        assert sum(map(len, state["waits"].values())) == 2 * min(n + 1, 10)


def test_a_wait_counts_once() -> None:
    """A start that is decided again (its GPUs were not free yet) is the same wait."""
    rule = AutoTuned()
    core = Core(resolve("dally"), ToyWorld(toy_cluster(), []))
    job = JobView(toy_job("a", 4), waiting_since_s=5.0)
    state = rule.initial_state()
    for now in (20.0, 20.0, 22.0):
        core.view.move_to(now, 1)
        state = rule.accepted(core.view, job, 4, 0, now - 5.0, state)
    assert state["waits"]["machine"]["4"] == [[22.0, 17.0, "a"]]


def test_over_several_racks_as_few_of_them_as_possible() -> None:
    """Free: 2, 1 in the first rack, 2, 0 in the second, 2, 2 in the third; 6 GPUs. Three machines have 2 each, and with
    both of the third rack they are in two racks, not in three."""
    assert Case([2, 1, 2, 0, 2, 2], racks=3).ask(DelayScheduling.from_text("no-wait"), 6)[0] == Spread(3, 2)


def test_every_offer_has_its_reason_in_the_log() -> None:
    """Two servers of 4 GPUs; a and b leave 2 free on each; c (4 GPUs) declines them for 20 s, then takes them."""
    jobs = [toy_job("a", 2, 100), toy_job("b", 3, 100), toy_job("c", 3, 5), toy_job("d", 2, 5, submit_s=1.0)]
    core = played(ToyWorld(toy_cluster(1, 2, 4), jobs), "dally", place="delay:20/40")
    log = [(t, type(d), d.job, d.reason) for t, d in decided(core)]
    assert log[:4] == [
        (0.0, Start, "a", "Nw_sens 0; takes on one machine after 0 s"),
        (0.0, Start, "b", "Nw_sens 0; takes on one machine after 0 s"),
        (0.0, Hold, "c", "declines 3 GPUs in one rack: waits for 20 s for 3 on one machine"),
        (1.0, Start, "d", "Nw_sens 0; takes on one machine after 0 s"),
    ]
    start = next(entry for entry in log if entry[2] == "c" and entry[1] is Start)
    assert start == (20.0, Start, "c", "Nw_sens 0; takes in one rack after 20 s")


def test_parameters() -> None:
    assert DelayScheduling.from_text("3600/7200").name == "delay:3600/7200"
    for text in ("", "@5", "3600", "7200/3600", "a/b", "-1/2", "auto@x", "auto@", "auto@0", "never"):
        with pytest.raises(StackError):
            DelayScheduling.from_text(text)


@pytest.mark.parametrize("stack", ["dally", "dally-manual", "dally-consolidated", "dally-benefit"])
@pytest.mark.parametrize(("servers", "each", "expected"), [(2, 4, 1), (2, 3, 1), (3, 2, 2), (4, 8, 2)])
def test_a_job_does_not_wait_for_a_place_that_its_shape_forbids(
    stack: str, servers: int, each: int, expected: int
) -> None:
    """8 GPUs as 4 on each of 2 servers start at once on idle servers of 8, in one rack if one has so many servers."""
    cluster = toy_cluster(2, 2, 8)
    job = replace(toy_job("a", servers * each), per_server=each)
    core = Core(resolve(stack), ToyWorld(cluster, []))
    starts = [d for d in core.step(0.0, [Submitted(0.0, job)]) if isinstance(d, Start)]
    assert [Spread.of(cluster, start.gpus) for start in starts] == [Spread(servers, expected)]
    assert set(cluster.counts(starts[0].gpus).values()) == {each}


def test_a_shape_waits_for_a_rack_as_long_as_a_rack_can_have_it() -> None:
    """One server of each rack has a job: 2 x 4 waits for the rack timer, 3 x 1 (no rack has three) not at all."""
    for servers, each, waits in ((2, 4, True), (3, 1, False)):
        cluster = toy_cluster(2, 2, 4)
        core = Core(resolve("dally-manual"), ToyWorld(cluster, []))
        for server in (0, 2):
            gpus = cluster.servers[server].gpus[: 4 if waits else 2]
            core.table.gpus.enter(f"other{server}", gpus, 1e9)
        job = replace(toy_job("a", servers * each), per_server=each)
        assert any(isinstance(d, Start) for d in core.step(0.0, [Submitted(0.0, job)])) is not waits
        assert core.planner_state.get("ask_s") == (DEFAULT_S[1] if waits else None)


def test_waits_are_tuned_apart_for_each_shape() -> None:
    """What a job of 2 x 4 waited says nothing about jobs of 8 that may be on one machine."""
    view, rule = Case([4, 4, 4, 4]).core.view, AutoTuned()
    plain = JobView(toy_job("plain", 4))
    job = JobView(replace(toy_job("job", 4), per_server=2))
    state = rule.accepted(view, job, 4, 1, 60.0, rule.initial_state())
    assert rule.timers(view, job, 4, state) == (DEFAULT_S[0], 60.0)
    assert rule.timers(view, plain, 4, state) == DEFAULT_S


class Deep(Case):
    """Two pods of two rail groups of two NVLink domains of two trays, 4 GPUs each."""

    def __init__(self, free: list[int], now: float = 0.0) -> None:
        self.cluster = rails(4, 4, Machine(4, nvlink_domain=2, nvlink_gbps=900), racks_per_pod=2)
        self.core = Core(resolve("dally"), ToyWorld(self.cluster, []))
        for server, n in enumerate(free):
            for gpu in self.cluster.servers[server].gpus[n:]:
                self.core.table.gpus.enter(f"other{gpu}", (gpu,), 1e9)
        self.core.view.move_to(now, 1)


@pytest.mark.parametrize(
    ("free", "tier", "again"),
    [
        ([1, 4] + [0] * 14, 0, (None, None, None)),
        ([2, 2] + [0] * 14, 1, (100.0, None, None)),
        ([2, 0, 2, 0] + [0] * 12, 2, (100.0, 300.0, None)),
        ([2, 0, 0, 0, 2] + [0] * 11, 3, (100.0, 300.0, None)),
        ([2] + [0] * 8 + [2] + [0] * 6, 4, (100.0, 300.0, None)),
    ],
)
def test_every_level_is_a_tier(free: list[int], tier: int, again: tuple[float | None, ...]) -> None:
    """A machine until 100 s, an NVLink domain until 300 s; rail groups, pods and the rest have the rack's timer."""
    for now, expected in zip((0.0, 100.0, 300.0), again, strict=True):
        case = Deep(free, now)
        job = JobView(toy_job("job", 4))
        answer = MANUAL.place(case.core.view, job, 4, case.core.view.offer, {})
        assert answer.ask_again_s == expected
        assert (answer.gpus is None) == (expected is not None)
        if answer.gpus is not None:
            assert tier_of(case.core.view, replace(job, gpus=answer.gpus)) == tier


def test_waits_are_learnt_level_by_level() -> None:
    """4 GPUs taken in one rail group after 20 s: that level's timer is 20 s, but no shorter than a closer one's."""
    case = Deep([2, 0, 2, 0] + [0] * 12, now=1e6)
    rule = AutoTuned()
    job = JobView(toy_job("job", 4))
    state = rule.accepted(case.core.view, job, 4, 2, 20.0, rule.initial_state())
    assert list(state["waits"]) == ["rail group"]
    assert tuple(rule.timers(case.core.view, job, 4, state)) == (*DEFAULT_S, 20.0, DEFAULT_S[1])
