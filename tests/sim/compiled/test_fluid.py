import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.oracles.fluid import fluid_paces
from weft.sim.compiled.state import FINISHED, FREE
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import Program, compute_node, make_program, transfer_node

LINKS = 4


@st.composite
def programs(draw: st.DrawFn, b: float | None) -> Program:
    """Compute, then one to three transfers in turn over links of the first few."""
    nodes = [compute_node(0, draw(st.floats(0.1, 3.0)))]
    claim = 1 if b else draw(st.sampled_from([1, 1, 2, 5]))
    for i in range(draw(st.integers(1, 3))):
        links = draw(st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=3))
        flows = [(link, 1 if b else draw(st.integers(1, 2))) for link in sorted(links)]
        nodes.append(
            transfer_node(
                i + 1, draw(st.floats(0.1, 3.0)), flows, (i,), latency=draw(st.sampled_from([0.0, 0.1])), claim=claim
            )
        )
    return make_program(nodes, np.ones(LINKS), kway_b=b)


@pytest.mark.parametrize("kway", [None, (1.0, 0.25)])
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_paces_do_not_depend_on_what_was_before(kway: tuple[float, float] | None, data: st.DataObject) -> None:
    """Jobs join and leave one by one; those left have the paces of the fixed point, as if they had come together."""
    b = kway[0] if kway else None
    capacity = np.ones(LINKS)
    spec = EngineSpec(capacity, np.ones(LINKS, np.bool_), exact=False, budget=-10_000,
                      sharing="k-way" if kway else "max-min", b_s_per_byte=b or 0.0,
                      eta_s_per_byte=kway[1] if kway else 0.0)  # fmt: skip
    engine = Engine(spec)
    there: dict[int, Program] = {}
    for uid, program in enumerate(data.draw(st.lists(programs(b), min_size=2, max_size=6))):
        there[engine.attach(uid, program, 10**6)] = program
        engine.run(10.0 * (uid + 1))  # alone, a job finds that it repeats itself; then the next one comes
        if len(there) > 2 and data.draw(st.booleans()):
            row = data.draw(st.sampled_from(sorted(there)))
            engine.detach(row)
            del there[row]
    jobs = engine.arrays.jobs
    assert not set(jobs["state"][sorted(there)].tolist()) & {FREE, FINISHED}
    compared = 0
    for comp in {int(c) for c in jobs["comp"][sorted(there)]} - {-1}:
        members = [row for row in there if int(jobs["comp"][row]) == comp]
        if len(members) == 1 or engine.arrays.comps["fluid"][comp] == 0:
            continue
        expected = fluid_paces([there[row] for row in members], capacity, kway=kway)
        compared += 1
        found = [float(jobs["fluid"][row]) for row in members]
        assert found == pytest.approx(expected, rel=2e-3)
    assume(compared)


def test_two_alike() -> None:
    """Compute c = 1, send s = 1 at full rate: with the share a = t / (c + t) of the other, t = s (1 + a), so that
    t^2 - t - 1 = 0 and an iteration takes 1 + (1 + sqrt 5) / 2."""
    program = make_program([compute_node(0, 1.0), transfer_node(1, 1.0, [(0, 1)], (0,))], np.ones(1))
    expected = 1.0 / (1.0 + (1.0 + math.sqrt(5.0)) / 2.0)
    assert fluid_paces([program, program], np.ones(1)) == pytest.approx([expected, expected], rel=1e-9)
    engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), exact=False, budget=-10_000))
    rows = [engine.attach(0, program, 10**6)]
    engine.run(10.0)
    rows.append(engine.attach(1, program, 10**6))
    assert engine.arrays.jobs["fluid"][rows] == pytest.approx([expected, expected], rel=1e-3)


def test_two_weights() -> None:
    """As above with weights 3 and 1: with shares a and b of the time of sending, the times of sending are
    t = s (1 + b / 3) and u = s (1 + 3 a), where a = t / (c + t) and b = u / (c + u)."""
    heavy, light = (
        make_program([compute_node(0, 1.0), transfer_node(1, 1.0, [(0, 1)], (0,), claim=claim)], np.ones(1))
        for claim in (3, 1)
    )
    t = u = 1.0
    for _ in range(200):
        t, u = 1.0 + u / (1.0 + u) / 3.0, 1.0 + 3.0 * t / (1.0 + t)
    expected = [1.0 / (1.0 + t), 1.0 / (1.0 + u)]
    assert fluid_paces([heavy, light], np.ones(1)) == pytest.approx(expected, rel=1e-9)
