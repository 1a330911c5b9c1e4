"""What a job sends, alone, under a pace that sets rates: by arithmetic, and held against a run."""

from __future__ import annotations

import numpy as np
import pytest

from tests.sim.test_slotted import CAPACITY, ring, servers
from weft.model.flow_set import FlowRows
from weft.model.traffic import Traffic
from weft.pace.equal import Equal
from weft.pace.flow import Flow
from weft.sim.slotted import Iteration, SlottedEngine
from weft.sim.slotted_traffic import PlayedTraffic

PROFILED = Traffic(0.25, 3, 0.1)


def test_by_arithmetic() -> None:
    """1.5 bytes from 0 to 1 at 10 bytes/s, 0.1 s of computing, slots of 60 ms: three slots, the last at half the rate,
    then 0.1 s, then up to the next slot, 0.30 s after the first began."""
    found = PlayedTraffic(Flow(), CAPACITY).of(PROFILED, Iteration(0.1, 1.0, ring((0, 1), 1.5)))
    assert found.iteration_s == pytest.approx(0.30)
    assert found.offset_s == pytest.approx(0.12)
    assert found.task == 3
    assert sorted(found.links) == [0, 1, 4, 5]
    for arcs in found.links.values():
        assert np.array(arcs) == pytest.approx(np.array([(0.0, 0.12, 10.0), (0.12, 0.06, 5.0)]))


def test_whoever_shares_fairly_ends_within_a_slot() -> None:
    """The same with `equal`: 0.15 s of sending, 0.1 s of computing, and up to the next slot; all bytes are there."""
    found = PlayedTraffic(Equal(), CAPACITY).of(PROFILED, Iteration(0.1, 1.0, ring((0, 1), 1.5)))
    assert found.iteration_s == pytest.approx(0.30)
    assert found.offset_s == pytest.approx(0.15)
    assert sum(length * rate for _, length, rate in found.links[0]) == pytest.approx(1.5)


def test_nothing_to_send() -> None:
    nothing = FlowRows((), (), (), (), (), (), ())
    assert PlayedTraffic(Flow(), CAPACITY).of(PROFILED, Iteration(0.1, 1.0, nothing)) == PROFILED


def test_as_a_run_has_it() -> None:
    """The time of an iteration is that of a long run alone; placements alike are known, on links of their own."""
    played = PlayedTraffic(Flow(), CAPACITY)
    work = Iteration(0.13, 1.0, servers(0, (1, 2), 2.2))
    engine = SlottedEngine(CAPACITY, Flow().rates())
    engine.attach(0, work, 30)
    engine.run()
    assert played.of(PROFILED, work).iteration_s == pytest.approx(engine.records()["duration"][10:].mean())
    assert played.of(PROFILED, Iteration(0.1, 1.0, ring((0, 1), 1.5))).links.keys() == {0, 1, 4, 5}
    assert played.of(PROFILED, Iteration(0.1, 1.0, ring((2, 3), 1.5))).links.keys() == {2, 3, 6, 7}
    assert len(played._known) == 2
