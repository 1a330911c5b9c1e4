import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import thorough
from testkit.oracles.engine import ReferenceEngine
from testkit.paced import (
    CAPACITY,
    JOBS,
    PACES,
    Job,
    Watched,
    carried_bytes,
    check_physics,
    ends,
    program,
    ring,
    rule_of,
    run_all,
    sent_by,
    servers,
    slowest_s,
    spec_of,
    steps,
)
from tests.sim.cases import draw_case, draw_features, plain
from tests.sim.driver import run_case
from tests.sim.rules import Nothing, Told
from weft.policies.pace.base import Pace
from weft.policies.pace.flow import Flow, FlowSpec
from weft.policies.pace.rates import RateRule
from weft.policies.pace.tcp import Equal
from weft.sim.engine import Engine
from weft.sim.engine.program import Program, compute_node, make_program, transfer_node

LINE = np.array([10.0])
BOTH = pytest.mark.parametrize("make", [Engine, ReferenceEngine])


def play(jobs: list[Job], rule: Any, start_after: bool = False, stop_s: float = math.inf) -> Engine:
    """Run jobs to their end, looking at every change; the first is stopped at `stop_s` unless it has ended."""
    engine = Engine(spec_of(rule))
    programs: dict[int, Program] = {}
    for uid, (flows, compute_s, n) in enumerate(jobs):
        made = program(compute_s, flows, start_after=start_after)
        programs[engine.attach(uid, made, n)] = made
    first, done = 0, {}
    most, least = carried_bytes(jobs), carried_bytes(jobs)
    for finished in steps(engine, len(jobs)):
        check_physics(engine, {row: made for row, made in programs.items() if row not in finished})
        for row in finished:
            done[row] = engine.detach(row)
            del programs[row]
        if engine.now >= stop_s and first in programs:
            sent = sent_by(engine, first)
            usage = engine.detach(first)
            least -= carried_bytes([(jobs[0][0], 0.0, jobs[0][2] - usage.iterations)])
            most = least.copy()
            for spec, bytes_ in zip(programs.pop(first).specs, sent, strict=True):
                for link, n in spec.links:
                    least[link] += n * bytes_ * (1 - 1e-9)
                    most[link] += n * bytes_ * (1 + 1e-9)
        if not programs:
            break
    carried = engine.links()["bytes"]
    assert (carried >= least * (1 - 1e-9) - 1e-9).all()
    assert (carried <= most * (1 + 1e-9) + 1e-9).all()
    for row, usage in done.items():
        assert usage.iterations == jobs[row][2]
        assert usage.finish_s >= usage.iterations * slowest_s(jobs[row]) * (1 - 1e-9)  # never faster than the line
    return engine


@pytest.mark.parametrize("name", PACES)
@given(JOBS, st.one_of(st.just(math.inf), st.floats(0.0, 2.0)))
@settings(max_examples=thorough(12), deadline=None)
def test_what_every_pace_keeps_to(name: str, jobs: list[Job], stop_s: float) -> None:
    """No link above its capacity, nobody ahead of those that feed it, every byte on its links and no other, aborted
    work included; every job ends."""
    pace = PACES[name]()
    play(jobs, rule_of(pace), pace.transport().start_after, stop_s)


@given(JOBS)
@settings(max_examples=thorough(30), deadline=None)
def test_flow_on_time_plans_no_more_than_there_is(jobs: list[Job]) -> None:
    """In no slot of the horizon, after no decision; and nothing is left of flows that are over."""
    made: list[Watched] = []

    def rule() -> RateRule:
        made.append(Watched())
        return made[-1]

    play(jobs, rule)
    assert made[-1].asked >= sum(len(flows) * n for flows, _, n in jobs)
    assert made[-1].table == pytest.approx(np.zeros_like(made[-1].table), abs=1e-8)


@pytest.mark.parametrize("name", [name for name in PACES if PACES[name]().rates() is not None])
@given(JOBS)
@settings(max_examples=thorough(4), deadline=None)
def test_the_twin_says_the_same(name: str, jobs: list[Job]) -> None:
    """Usage and bytes to the last bit under the rules that weft has: they see the same of both engines."""
    pace, found = PACES[name](), []
    for make in (Engine, ReferenceEngine):
        engine: Any = make(spec_of(rule_of(pace)))
        for uid, (flows, compute_s, n) in enumerate(jobs):
            made = program(compute_s, flows, start_after=pace.transport().start_after)
            engine.attach(uid, made, min(n, 2))
        run_all(engine, len(jobs))
        carried = engine.links()["bytes"].tolist() if make is Engine else engine.bytes
        found.append(([engine.detach(row) for row in range(len(jobs))], carried, engine.ruled.decisions))
    assert found[0] == found[1]


@BOTH
@pytest.mark.parametrize("graph", ["chain", "overlap", "opened"])
def test_a_rule_that_caps_nothing_is_no_rule(make: Any, graph: str) -> None:
    """Bit for bit the run without it, whatever else is drawn, however often it is asked. (Only the clock of a run
    without an end may go on to the end of a slot in which the last transfer has ended.)"""
    compared = 0
    for seed in range(thorough(40)):
        rng = random.Random(seed)
        chosen = draw_features(rng, skip="off", sharing="max-min", rule="nothing", graph=graph)
        case = plain(draw_case(rng, chosen))
        without = replace(case, spec=replace(case.spec, rule=None))
        ruled, plainly = run_case(case, make), run_case(without, make)
        if any(i not in plainly.done and job.stays[-1].stop_s == math.inf for i, job in enumerate(case.jobs)):
            continue  # some wait for each other for ever, and how long that was depends on when nobody looks any more
        compared += 1
        assert replace(ruled, now=0.0).physics() == replace(plainly, now=0.0).physics(), seed
        assert 0.0 <= ruled.now - plainly.now <= 1.0, seed
    assert compared > thorough(30)


def shares(rule: RateRule, sizes: list[float], at_s: float = 0.5) -> list[float]:
    """What each of several flows that start at 0 has of a link of 10 after a while."""
    engine = Engine(spec_of(lambda: rule, LINE))
    for uid, size in enumerate(sizes):
        engine.attach(uid, make_program([transfer_node(0, size, [(0, 1)])], LINE), 1)
    engine.run(at_s)
    there = engine.on_link(0)
    assert engine.link_rates()[0] == pytest.approx(sum(rate for rate, _ in there.values()))
    return [there[uid][0] for uid in range(len(sizes))]


INF = math.inf


@pytest.mark.parametrize(
    ("told", "rates"),
    [
        ({0: (INF, 1, 0), 1: (INF, 4, 0)}, [2.0, 8.0]),  # 10 x 1/5 and 10 x 4/5
        ({0: (INF, 1, 0), 1: (5.0, 4, 0)}, [5.0, 5.0]),  # what a cap leaves the other has
        ({0: (1e30, 1, 0), 1: (INF, 1 << 20, 0)}, [10.0 / (1 + (1 << 20)), 10.0 * (1 << 20) / (1 + (1 << 20))]),
        ({0: (4.0, 1, 0), 1: (INF, 1, 1), 2: (INF, 1, 1)}, [4.0, 3.0, 3.0]),  # half each of 10 - 4
        ({0: (INF, 1, 1), 1: (6.0, 1, 0), 2: (INF, 3, 1)}, [1.0, 6.0, 3.0]),  # 1 : 3 of 10 - 6
        ({0: (INF, 1, 2), 1: (INF, 1, 0), 2: (INF, 1, 1)}, [0.0, 10.0, 0.0]),
    ],
)
def test_weights_and_levels(told: dict[int, tuple[float, int, int]], rates: list[float]) -> None:
    assert shares(Told([told]), [100.0] * len(rates)) == pytest.approx(rates)


@BOTH
def test_weights_and_levels_while_a_transfer_runs(make: Any) -> None:
    """A link of 10 and slots of 1 s. Weights 1 and 4: 2 and 8. Alike: 5 and 5. B on a lower level: 10 and 0. A capped
    at 4, B below it: 4 and 6. A has 17 + 2 bytes, so it ends at 3.5 s; B has 13 + 3 then, and 5 more at 10: 4.0 s."""
    # Fails on the compiled engine while limits_kernel._rank lets a transfer become plain again without having its links
    # felt from 0 on: while no transfer is ranked _felt_from then leaves slower transfers alone.
    told = [{0: (INF, 1, 0), 1: (INF, 4, 0)}, {}, {1: (INF, 1, 1)}, {0: (4.0, 1, 0), 1: (INF, 1, 1)}]
    engine = make(spec_of(lambda: Told(told), LINE))
    for uid, size in enumerate((19.0, 21.0)):
        engine.attach(uid, make_program([transfer_node(0, size, [(0, 1)])], LINE), 1)
    run_all(engine, 2)
    assert [engine.detach(row).finish_s for row in range(2)] == pytest.approx([3.5, 4.0])


@BOTH
def test_ranks_that_are_not_given_again_are_gone(make: Any) -> None:
    """A link of 10 and slots of 1 s. Weights 1 and 4 in the first: 2 and 8. Then the rule says nothing of weights, so
    all are alike: 5 and 5. A has 7 bytes and ends at 2 s; B has 13 then, and 2 more at 10: 2.2 s. Left as they were,
    flows that began before and after such an answer kept step with different weights."""

    class Once(Nothing):
        def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
            limits = super().decide(when, flows, live)
            return limits if when.slot else replace(limits, weights=np.where(flows.uid == 1, 4, 1))

    engine = make(spec_of(lambda: Once(1.0), LINE))
    for uid, size in enumerate((7.0, 15.0)):
        engine.attach(uid, make_program([transfer_node(0, size, [(0, 1)])], LINE), 1)
    run_all(engine, 2)
    assert [engine.detach(row).finish_s for row in range(2)] == pytest.approx([2.0, 2.2])


@BOTH
def test_a_transfer_without_links_keeps_step_with_one_that_has_a_rank(make: Any) -> None:
    """A copy inside a server at 15 bytes/s feeds a transfer over a link of 10, which has a weight and a lower level:
    20 bytes take 2 s, however fast the copy could be.
    With a rank of its own the copy gave its rate to the transfer."""
    engine = make(spec_of(lambda: Told([{0: (INF, 3, 1)}]), LINE))
    nodes = [transfer_node(0, 20.0, [], demand=15.0), transfer_node(1, 20.0, [(0, 1)], leads=(0,))]
    row = engine.attach(0, make_program(nodes, LINE), 1)
    run_all(engine, 1)
    assert engine.detach(row).finish_s == pytest.approx(2.0)


@BOTH
def test_a_ring_under_caps(make: Any) -> None:
    """Four bytes from each of two servers, chunk 2. Job 0 is capped at 5 in the first 0.2 s, at 1 until 0.6, then at
    10: 1 + 0.4 bytes by 0.6 s, and 2.6 at 10 bytes/s: 0.86 s."""
    caps = [(5.0, 1, 0), (1.0, 1, 0), (1.0, 1, 0), (10.0, 1, 0)]
    engine = make(spec_of(lambda: Told([{0: cap} for cap in caps], 0.2)))
    row = engine.attach(0, program(0.0, ring((0, 1), 4.0)), 1)
    run_all(engine, 1)
    assert engine.detach(row).finish_s == pytest.approx(0.86)


def test_alone_by_arithmetic() -> None:
    """Two servers, a ring of 1.5 bytes at 10 bytes/s after 0.1 s of computing: a flow starts at once, in the middle of
    the slot from 0.06 s, and ends at 0.25 s. Quantised it waits for the slot from 0.12 s, has two slots at 10 bytes/s
    and spreads the 0.3 bytes that are left over one at 5: 0.30 s."""
    assert ends(Flow(), [ring((0, 1), 1.5)], 0.1) == pytest.approx([0.25])
    assert ends(Flow(FlowSpec(quantised=True)), [ring((0, 1), 1.5)], 0.1) == pytest.approx([0.30])


def test_what_is_used_of_an_iteration() -> None:
    """The same with usage: 0.15 s of it waited for the network, and 0.1 GPU seconds were computed."""
    engine = Engine(spec_of(rule_of(Flow())))
    row = engine.attach(0, program(0.1, ring((0, 1), 1.5)), 1)
    run_all(engine, 1)
    usage = engine.detach(row)
    assert (usage.comm_s, usage.gpu_s, usage.finish_s) == pytest.approx((0.15, 0.1, 0.25))


def test_what_a_flow_leaves_is_free_at_once() -> None:
    """A sends 0.3 bytes from 0 on, B 0.6 bytes over the same links from 0.04 s on, in the same slot. A is over after
    0.03 s, so B has the links to itself: 0.10 s. Quantised A has all of its slot, and B the next: 0.12 s."""
    for quantised, expected in ((False, [0.03, 0.10]), (True, [0.06, 0.12])):
        engine = Engine(spec_of(rule_of(Flow(FlowSpec(quantised=quantised)))))
        engine.attach(0, program(0.0, servers(1, (0,), 0.3)), 1)
        engine.attach(1, program(0.04, servers(1, (0,), 0.6)), 1)
        run_all(engine, 2)
        assert [engine.finish_s(row) for row in range(2)] == pytest.approx(expected)


def test_two_jobs_are_staggered() -> None:
    """Both are ready at 0 on one NIC, 6 bytes each at 10 bytes/s: one after the other, 0.6 and 1.2 s, not 1.2 both."""
    both = [servers(1, (0,), 6.0)] * 2
    assert sorted(ends(Flow(), both)) == pytest.approx([0.6, 1.2], abs=1e-6)
    assert ends(Equal(), both) == pytest.approx([1.2, 1.2])


def test_a_ring_that_fits_into_a_slot_takes_no_longer() -> None:
    """Three servers, 0.3 bytes in each flow, and two of three flows over the core of 6 bytes/s, in both directions:
    0.05 s. Whoever decides first must not take its predecessor, which has not decided yet, for one that sends nothing.
    Quantised it has one rate for the whole slot: 0.06 s."""
    assert ends(Flow(), [ring((0, 2, 1), 0.3)]) == pytest.approx([0.05])
    assert ends(Flow(FlowSpec(fill=True)), [ring((0, 2, 1), 0.3)]) == pytest.approx([0.05])
    # Fails while Ruled.stirred says begins=False to flows that start, after silence, at the very start of a slot.
    assert ends(Flow(FlowSpec(quantised=True)), [ring((0, 2, 1), 0.3)]) == pytest.approx([0.06])


def test_a_job_does_not_give_way_to_itself() -> None:
    """Two workers push 1.8 bytes each to a server behind 10 bytes/s and get as much back: 3.6 bytes in and out, at the
    same time, are 0.36 s. One push after the other would hold the broadcasts back for 0.18 s."""
    flows = servers(0, (1, 2), 1.8)
    through = [sum(link in dict(spec.links) for spec in flows) for link in range(len(CAPACITY))]
    assert max(n * 1.8 / CAPACITY[link] for link, n in enumerate(through)) == pytest.approx(0.36)
    assert ends(Flow(), [flows]) == pytest.approx([0.36])


def test_answers_that_take_part_of_a_slot() -> None:
    """Answers 6 ms late. At the start of a slot a host has none for a tenth of it, and nothing was planned before: 0.54
    of 0.6 bytes may go, so 0.5 bytes fit into one slot, whose rate then is 9 bytes/s. Of 1.2 bytes 0.54 go in the first
    slot, 0.6 in the second, as planned, and 0.06 are left, of which a tenth of a slot carries what was planned, 1
    byte/s, and the rest 10: 9.1. A flow that starts in the middle of a slot has no answer for a tenth of it either:
    0.24 of its 0.3 bytes go in the rest."""
    late = Flow(FlowSpec(delay_s=0.006))
    assert ends(late, [servers(1, (0,), 0.5)]) == pytest.approx([0.5 / 9.0])
    assert ends(late, [servers(1, (0,), 0.3)], 0.03) == pytest.approx([0.06 + 0.06 / 9.1])
    assert ends(late, [servers(1, (0,), 1.2)]) == pytest.approx([0.12 + 0.06 / 9.1])


def test_fill_gives_priorities() -> None:
    """Two jobs on a NIC. The first has planned the whole slot and goes first, 0.06 s; then the second, 0.9 bytes."""
    both = [servers(1, (0,), 0.6), servers(1, (0,), 0.9)]
    assert ends(Flow(FlowSpec(fill=True)), both) == pytest.approx([0.06, 0.15])
    assert ends(Flow(FlowSpec(quantised=True)), both) == pytest.approx([0.06, 0.18])  # 0.9 spread over two slots


def test_two_jobs_in_step_on_a_gpu() -> None:
    """They alternate on the GPU: 0.1 + 0.08 s a round, and while one computes the other sends. a's k-th round ends at
    0.1 + 0.18 (k - 1), and its last bytes 0.05 s later; b's 0.08 and 0.06 s after a's."""
    for pace in (Flow(), Equal()):
        engine = Engine(spec_of(rule_of(pace), n_gpus=1))
        engine.attach(0, program(0.1, servers(1, (0,), 0.5), gpu=0), 10)
        engine.attach(1, program(0.08, servers(3, (2,), 0.6), gpu=0), 10)
        run_all(engine, 2)
        expected = (0.1 + 9 * 0.18 + 0.05, 10 * 0.18 + 0.06)
        assert (engine.finish_s(0), engine.finish_s(1)) == pytest.approx(expected)


@pytest.mark.parametrize("pace", [Flow(), Equal()])
def test_a_stopped_job_gives_its_gpu_to_who_waits(pace: Pace) -> None:
    """a computes from 0, b waits behind it. a is stopped at 0.4 s: b computes until 0.7 s and sends 0.3 bytes until
    0.73 s. a is back at 0.5 s and waits for b: 0.7 + 1 s."""
    engine = Engine(spec_of(rule_of(pace), n_gpus=1))
    long = make_program([compute_node(0, 1.0, gpu=0)], CAPACITY)
    a = engine.attach(0, long, 1)
    b = engine.attach(1, program(0.3, servers(1, (0,), 0.3), gpu=0), 1)
    assert engine.run(0.4) == []
    assert engine.detach(a).gpu_s == pytest.approx(0.4)
    assert engine.run(0.5) == []
    again = engine.attach(0, long, 1)
    assert engine.run(10.0) == [b]
    assert engine.run(10.0) == [again]
    assert (engine.finish_s(b), engine.finish_s(again)) == pytest.approx((0.73, 1.7))


def test_slots_cost_nothing_while_nobody_sends() -> None:
    """A rule with slots of 10 ms is not asked while a job computes for an hour."""
    asked: list[float] = []

    class Counting(Nothing):
        def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
            asked.append(when.slot)
            return super().decide(when, flows, live)

    engine = Engine(spec_of(lambda: Counting(0.01)))
    engine.attach(0, program(3600.0, servers(1, (0,), 0.25)), 2)
    run_all(engine, 1)
    assert engine.finish_s(0) == pytest.approx(7200.05)
    assert len(asked) <= 12


@BOTH
def test_a_rule_that_lets_nothing_through_is_given_up(make: Any) -> None:
    """It is asked for a while; then a run without an end comes back with nothing finished."""
    engine = make(spec_of(lambda: Told([{0: (0.0, 1, 0)}], 0.01)))
    engine.attach(0, program(0.0, servers(1, (0,), 0.25)), 1)
    assert engine.run() == []
    assert engine.now < 100.0
