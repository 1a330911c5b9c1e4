"""Flows on several paths, and paths that change while a job runs: engine against twin, and against equations."""

import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testkit.draws import share, thorough
from testkit.oracles.engine import ReferenceEngine
from weft.network.collectives import FINEST
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import LinkUnits, Program, compute_node, make_program, transfer_node

FEW = settings(
    max_examples=thorough(60), derandomize=share() <= 1, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
Links = list[tuple[int, int]]


def spec_of(capacity: list[float], finest: int, skip: bool = False) -> EngineSpec:
    """Links that only rates limit."""
    return EngineSpec(np.array(capacity), np.zeros(len(capacity), np.bool_), finest=finest, skip=skip)


def program_of(spec: EngineSpec, shape: list[tuple[float, float, float]], links: list[Links]) -> Program:
    """Computing and a transfer in turn: seconds, bytes and latency of each pair."""
    nodes: list[Any] = []
    for (seconds, size, latency), over in zip(shape, links, strict=True):
        before = (len(nodes) - 1,) if nodes else ()
        nodes.append(compute_node(len(nodes), seconds, before))
        nodes.append(transfer_node(len(nodes), size, over, (len(nodes) - 1,), latency=latency))
    return make_program(nodes, spec.capacity, link_units=LinkUnits.of(spec.capacity, spec.finest))


def drawn_links(rng: random.Random, n: int, finest: int) -> Links:
    """Some links, each with a number of flows or with parts of them."""
    return [(k, rng.randint(1, 3 * finest)) for k in sorted(rng.sample(range(n), rng.randint(1, min(3, n))))]


def story(rng: random.Random, finest: int) -> tuple[list[float], list[Any], list[Any]]:
    """Links, jobs (shape, links, iterations) and moves (when, job, links)."""
    n = rng.randint(2, 4)
    capacity = [rng.choice([1.0, 2.0, rng.uniform(0.5, 3.0)]) for _ in range(n)]
    jobs, moves = [], []
    for i in range(rng.randint(1, 4)):
        shape = [
            (rng.choice([0.0, 0.5, rng.uniform(0.1, 1.0)]), rng.uniform(0.2, 2.0), rng.choice([0.0, 0.0, 0.125]))
            for _ in range(rng.randint(1, 2))
        ]
        jobs.append((shape, [drawn_links(rng, n, finest) for _ in shape], rng.randint(2, 25)))
        for _ in range(rng.randint(0, 3)):
            moves.append(
                (rng.choice([1.0, 2.5, rng.uniform(0.0, 12.0)]), i, [drawn_links(rng, n, finest) for _ in shape])
            )
    return capacity, jobs, sorted(moves, key=lambda move: move[:2])


def play(
    make: Any, spec: EngineSpec, jobs: list[Any], moves: list[Any]
) -> tuple[dict[int, Any], list[float], list[float]]:
    """Usage of each job, and bytes and busy seconds of each link."""
    engine, usage = make(spec), {}
    rows = {engine.attach(i, program_of(spec, shape, links), n): i for i, (shape, links, n) in enumerate(jobs)}
    for when, i, links in [*moves, (math.inf, -1, None)]:
        while ended := engine.run(when):
            for row in ended:
                usage[rows.pop(row)] = engine.detach(row)
        for row in [row for row, job in rows.items() if job == i]:
            engine.reroute(row, program_of(spec, jobs[i][0], links))
    if isinstance(engine, Engine):
        return usage, engine.carried().tolist(), engine.links()["busy"].tolist()
    return usage, [b / spec.finest for b in engine.bytes], engine.link_busy()


@given(st.randoms(use_true_random=False), st.sampled_from([1, 8, FINEST]))
@FEW
def test_kernel_equals_twin(rng: random.Random, finest: int) -> None:
    """Usage is equal as floats; bytes are sums in another order."""
    capacity, jobs, moves = story(rng, finest)
    spec = spec_of(capacity, finest)
    kernel, twin = (play(make, spec, jobs, moves) for make in (Engine, ReferenceEngine))
    assert kernel[0] == twin[0]
    for ours, theirs in zip(kernel[1:], twin[1:], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-9)


@given(st.randoms(use_true_random=False), st.sampled_from([1, FINEST]))
@FEW
def test_skipping_equals_plain(rng: random.Random, finest: int) -> None:
    """Skipped stretches end where paths change. (Contended runs amplify rounding, hence 1e-6.)"""
    capacity, jobs, moves = story(rng, finest)
    plain, skipped = (play(Engine, spec_of(capacity, finest, skip), jobs, moves) for skip in (False, True))
    assert {i: u.finish_s for i, u in skipped[0].items()} == pytest.approx(
        {i: u.finish_s for i, u in plain[0].items()}, rel=1e-6
    )
    for ours, theirs in zip(skipped[1:], plain[1:], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-6)


@given(st.randoms(use_true_random=False), st.sampled_from([1, FINEST]))
@FEW
def test_bytes_are_conserved(rng: random.Random, finest: int) -> None:
    """Where every path of a job loads as many links with as much, these carry what the job sends, wherever it goes; and
    no link carries more than capacity times time."""
    capacity, jobs, moves = story(rng, finest)
    whole = [[(0, finest)] for _ in range(9)]
    jobs = [(shape, whole[: len(shape)], n) for shape, _, n in jobs]
    moves = [(when, i, [[(rng.randrange(len(capacity)), finest)] for _ in links]) for when, i, links in moves]
    _, carried, busy = play(Engine, spec_of(capacity, finest, rng.random() < 0.5), jobs, moves)
    assert sum(carried) == pytest.approx(sum(n * sum(size for _, size, _ in shape) for shape, _, n in jobs), rel=1e-9)
    for link, seconds, bound in zip(carried, busy, capacity, strict=True):
        assert -1e-9 <= link <= bound * seconds * (1 + 1e-9) + 1e-9


def test_shares_of_links() -> None:
    """Max-min over shares: x is raised until sum s_lf x_f = C_l. Links of 1; A halves over both, B whole on the first:
    x/2 + x = 1, so both have 2/3, and the second link carries 1/3."""
    spec = spec_of([1.0, 1.0], FINEST)
    engine = Engine(spec)
    half = FINEST // 2
    engine.attach(0, program_of(spec, [(0.0, 2.0, 0.0)], [[(0, half), (1, half)]]), 1)
    engine.attach(1, program_of(spec, [(0.0, 2.0, 0.0)], [[(0, FINEST)]]), 1)
    engine.run(1.0)
    assert engine.link_rates().tolist() == pytest.approx([1.0, 1 / 3], rel=1e-11)
    assert engine.run() == [0, 1]
    assert engine.now == pytest.approx(3.0, rel=1e-11)


def test_a_transfer_goes_on_where_it_is_put() -> None:
    """Four bytes at 1 byte/s; after one of them the flow moves to a link of 2: 1 + 3/2 seconds."""
    spec = spec_of([1.0, 2.0], 1)
    engine = Engine(spec)
    row = engine.attach(0, program_of(spec, [(0.0, 4.0, 0.0)], [[(0, 1)]]), 1)
    engine.run(1.0)
    engine.reroute(row, program_of(spec, [(0.0, 4.0, 0.0)], [[(1, 1)]]))
    assert engine.run() == [row]
    assert engine.now == 2.5
    assert engine.carried().tolist() == [1.0, 3.0]


def test_a_flow_that_leaves_makes_room_at_once() -> None:
    """Two flows of 4 bytes share a link of 1 until one moves at 2 s: both have 3 left, and end at 5 s."""
    spec = spec_of([1.0, 1.0], 1)
    engine = Engine(spec)
    rows = [engine.attach(i, program_of(spec, [(0.0, 4.0, 0.0)], [[(0, 1)]]), 1) for i in range(2)]
    engine.run(2.0)
    engine.reroute(rows[1], program_of(spec, [(0.0, 4.0, 0.0)], [[(1, 1)]]))
    assert engine.run() == rows
    assert engine.now == 5.0


def test_a_job_that_is_done_has_left_its_links() -> None:
    """Of two equal jobs on one link both finish; the route of one changes before it is let go. Who comes then has the
    link for itself: an iteration takes 1 s of computing and 2 bytes at 1 byte/s."""
    spec = spec_of([1.0, 1.0], 1, skip=True)
    program, other = (program_of(spec, [(1.0, 2.0, 0.0)], [[(k, 1)]]) for k in (0, 1))
    engine = Engine(spec)
    rows = [engine.attach(i, program, 3) for i in range(2)]
    while len(ended := engine.run()) < 2:
        pass
    assert sorted(ended) == rows
    for row in rows:
        engine.reroute(row, other)
        engine.detach(row)
    assert engine.arrays.links["attached"][:2].tolist() == [0, 0]
    start = engine.now
    engine.attach(2, other, 2)
    (row,) = engine.run()
    assert engine.detach(row).finish_s - start == pytest.approx(6.0, rel=1e-12)
