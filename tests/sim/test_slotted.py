"""The slotted engine: what flow scheduling promises, as properties; bytes conserved; times by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model.flow_set import FlowRows
from weft.pace.flow import FlowRule, FlowSpec
from weft.pace.rates import RateRule
from weft.sim.slotted import Iteration, SlottedEngine, SlotView

CAPACITY = np.array(
    [10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 6.0, 6.0]
)  # 4 servers out, in; a core link each way


def _path(a: int, b: int) -> tuple[int, ...]:
    """Servers 0, 1 and 2, 3 hang on two switches."""
    middle = () if a // 2 == b // 2 else (8,) if a < b else (9,)
    return (a, *middle, 4 + b)


def ring(servers: tuple[int, ...], size: float) -> FlowRows:
    n = len(servers)
    pairs = [(servers[i], servers[(i + 1) % n]) for i in range(n)]
    feed = tuple(((i - 1) % n, (i - 1) % n + 1) for i in range(n))
    after = tuple(((i + 1) % n, (i + 1) % n + 1) for i in range(n))
    chunk = size / (2 * (n - 1))
    return FlowRows(
        tuple(a for a, _ in pairs), tuple(b for _, b in pairs), tuple(_path(a, b) for a, b in pairs),
        (size,) * n, (chunk,) * n, feed, after,
    )  # fmt: skip


def servers(ps: int, workers: tuple[int, ...], size: float) -> FlowRows:
    n = len(workers)
    pairs = [(w, ps) for w in workers] + [(ps, w) for w in workers]
    return FlowRows(
        tuple(a for a, _ in pairs), tuple(b for _, b in pairs), tuple(_path(a, b) for a, b in pairs),
        (size,) * (2 * n), (0.0,) * (2 * n), ((0, 0),) * n + ((0, n),) * n, ((n, 2 * n),) * n + ((0, 0),) * n,
    )  # fmt: skip


JOBS = st.lists(
    st.tuples(
        st.one_of(
            st.builds(ring, st.permutations(range(4)).flatmap(
                lambda p: st.integers(2, 4).map(lambda n: tuple(p[:n]))), st.floats(0.5, 8.0)),
            st.builds(lambda p, n, s: servers(p[0], tuple(p[1 : n + 1]), s), st.permutations(range(4)),
                      st.integers(1, 3), st.floats(0.5, 8.0)),
        ),
        st.floats(0.0, 0.5),
        st.integers(1, 4),
    ),
    min_size=1, max_size=5,
)  # fmt: skip


def play(jobs: list[tuple[FlowRows, float, int]], rule: RateRule, on_time: bool, loss: float = 0.0) -> SlottedEngine:
    """Run jobs to their end, looking at every slot."""

    def watch(view: SlotView) -> None:
        engine, flows = view.engine, view.engine.flows
        assert (engine._carried <= CAPACITY * (1 + 1e-6)).all()  # a flow with 1e-9 left is done
        for i in view.live:
            feeders = flows.sent[flows.feed0[i] : flows.feed1[i]]
            if len(feeders):
                assert flows.sent[i] <= flows.chunk[i] + feeders.min() + 1e-9
        if on_time and isinstance(rule, FlowRule):
            assert (rule.table <= CAPACITY[:, None] * (1 + 1e-9)).all()
            assert (rule.table >= -1e-9).all()
            load = np.zeros(len(CAPACITY))
            engine.kernel.demand(view.live, flows.path, view.asked, load)
            assert (load <= CAPACITY * (1 + 1e-9)).all()
            # the plans themselves keep to it, not only what the network lets through
            reach = flows.sent + (view.asked - flows.rate) * rule.slot_s
            for i in view.live:
                feeders = reach[flows.feed0[i] : flows.feed1[i]]
                if len(feeders):
                    assert reach[i] <= flows.chunk[i] + feeders.min() + 1e-9

    engine = SlottedEngine(CAPACITY, rule, watch=watch, packet_loss=loss)
    slots = [engine.attach(uid, Iteration(compute, 1.0, rows), n) for uid, (rows, compute, n) in enumerate(jobs)]
    finished: list[int] = []
    while len(finished) < len(jobs):
        new = engine.run(120.0)
        assert new, f"stuck at {engine.now}"
        finished += new
    expected = np.zeros(len(CAPACITY))
    for rows, _, n in jobs:
        for path, size in zip(rows.paths, rows.size, strict=True):
            expected[list(path)] += n * size
    assert engine.links()["bytes"] == pytest.approx(expected)
    for slot, (rows, compute, n) in zip(slots, jobs, strict=True):
        usage = engine.detach(slot)
        slowest = max(size / min(CAPACITY[list(path)]) for path, size in zip(rows.paths, rows.size, strict=True))
        assert usage.iterations == n
        assert usage.finish_s >= n * (compute + slowest) * (1 - 1e-9)  # never faster than the line
    return engine


@given(JOBS)
@settings(max_examples=40, deadline=None)
def test_on_time(jobs: list[tuple[FlowRows, float, int]]) -> None:
    """Never ahead; planned load never above capacity, in no slot of the horizon; bytes conserved."""
    engine = play(jobs, FlowRule(), on_time=True)
    table = engine.rule.table  # type: ignore[attr-defined]
    assert table == pytest.approx(np.zeros_like(table), abs=1e-9)  # nothing is left of flows that are over


@given(JOBS, st.sampled_from([0.0, 0.02, 0.06, 0.1, 0.18]), st.sampled_from([0.0, 0.1, 0.5]), st.booleans(),
       st.sampled_from([0.0, 0.05]))  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_late_or_lost_messages(
    jobs: list[tuple[FlowRows, float, int]], delay_s: float, lost: float, host_only: bool, loss: float
) -> None:
    """Links may be asked for too much; still nobody runs ahead, no link carries more than it can, no byte is lost, and
    every job comes to its end."""
    spec = FlowSpec(delay_s=delay_s, message_loss=lost, host_only=host_only)
    play(jobs, FlowRule(spec), on_time=False, loss=loss)


def test_alone_by_arithmetic() -> None:
    """Two servers, a ring: computing ends at 0.1 s, the next slot starts at 0.12 s; 1.5 bytes take two slots at
    10 bytes/s and one at 5. The first chunk (0.75) is what lets both ends start at full rate."""
    engine = SlottedEngine(CAPACITY, FlowRule())
    slot = engine.attach(0, Iteration(0.1, 2.0, ring((0, 1), 1.5)), 1)
    assert engine.run() == [slot]
    usage = engine.detach(slot)
    assert usage.finish_s == pytest.approx(0.3)
    assert usage.comm_s == pytest.approx(0.2)
    assert usage.gpu_s == 2.0


def test_two_jobs_are_staggered() -> None:
    """Both are ready at 0 on one NIC, 6 bytes each at 10 bytes/s: one after the other, 0.6 and 1.2 s, not 1.2 both."""
    engine = SlottedEngine(CAPACITY, FlowRule())
    for uid in range(2):
        engine.attach(uid, Iteration(0.0, 1.0, servers(1, (0,), 6.0)), 1)
    while engine.run(10.0):
        pass
    assert sorted(engine.finish_s(j) for j in range(2)) == pytest.approx([0.6, 1.2], abs=0.06)


def _alone(rows: FlowRows, spec: FlowSpec | None = None) -> tuple[int, SlottedEngine]:
    """Slots that one job needs for one iteration without computing."""
    slots: list[int] = []
    engine = SlottedEngine(CAPACITY, FlowRule(spec), watch=lambda view: slots.append(view.slot))
    engine.attach(0, Iteration(0.0, 1.0, rows), 1)
    engine.run(20.0)
    return len(slots), engine


def test_a_ring_that_fits_into_a_slot_takes_one() -> None:
    """Three servers, 0.3 bytes: each flow carries 4/3 of that, 0.4 of the 0.6 bytes of a slot at 10 bytes/s. Whoever
    decides first must not take its predecessor, which has not decided yet, for one that sends nothing."""
    slots, engine = _alone(ring((0, 2, 1), 0.3))
    assert slots == 1
    assert engine.finish_s(0) == pytest.approx(0.06)


def test_a_job_does_not_give_way_to_itself() -> None:
    """Two workers push 1.8 bytes each to a server behind 10 bytes/s and get as much back: 3.6 bytes in and out, at the
    same time, are 6 slots. One push after the other would hold the broadcasts back for 3 slots: 9."""
    slots, engine = _alone(servers(0, (1, 2), 1.8))
    path = engine.flows.path[:4].tolist()
    through = [sum(link in row for row in path) for link in range(len(CAPACITY))]
    assert max(n * 1.8 / CAPACITY[link] for link, n in enumerate(through)) == pytest.approx(0.36)
    assert slots == 6


def test_a_host_knows_how_long_its_answers_take() -> None:
    """0.5 bytes, answers 6 ms late: 54 ms at 10 bytes/s carry 0.54, so one slot is enough."""
    assert _alone(servers(1, (0,), 0.5), FlowSpec(delay_s=0.006))[0] == 1


def test_what_is_not_planned_is_used() -> None:
    """The ring of 0.3 bytes again, with `fill`: the slowest link has 6 bytes/s, so it is over after 0.05 s of
    the slot. And of two jobs on a NIC nobody is later than without."""
    slots, engine = _alone(ring((0, 2, 1), 0.3), FlowSpec(fill=True))
    assert slots == 1
    slowest = min(CAPACITY[link] for path in ring((0, 2, 1), 0.3).paths for link in path)
    assert engine.finish_s(0) == pytest.approx(0.3 / slowest)
    plain, filled = (
        [_two(servers(1, (0,), size), servers(1, (0,), 0.9), fill) for size in (0.6, 0.75)] for fill in (False, True)
    )
    assert plain[0] == pytest.approx((0.06, 0.18))  # a slot is full; then 0.9 in one and a half, spread over two
    assert filled[0] == pytest.approx((0.06, 0.15))
    assert all(a <= b + 1e-9 for x, y in zip(filled, plain, strict=True) for a, b in zip(x, y, strict=True))


def _two(first: FlowRows, second: FlowRows, fill: bool) -> tuple[float, float]:
    """When two jobs that are ready at 0 are done."""
    engine = SlottedEngine(CAPACITY, FlowRule(FlowSpec(fill=fill)))
    for uid, rows in enumerate((first, second)):
        engine.attach(uid, Iteration(0.0, 1.0, rows), 1)
    while engine.run(20.0):
        pass
    return engine.finish_s(0), engine.finish_s(1)
