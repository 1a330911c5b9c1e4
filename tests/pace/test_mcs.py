"""MCS: the kernel against its plain twin; what a coflow may have of NICs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.test_slotted import CAPACITY, JOBS
from weft.model.flow_set import FlowRows
from weft.pace.mcs import McsRule
from weft.pace.mcs_plan import bottleneck_s, coflow_rates, may_start
from weft.sim.slotted import Iteration, SlottedEngine


def test_by_hand() -> None:
    """NICs of 10: job 0 sends 8 over NIC 0 (0.8 s), job 1 sends 4 over NIC 0 (0.4 s, first) and 2 over NIC 1."""
    rates = coflow_rates([0, 1, 1], [(0, 2), (0, 3), (1, 3)], [8.0, 4.0, 2.0], [10.0] * 4, 0.06)
    # job 1: NIC 3 takes 6, so 0.6 s: 6.67 and 3.33; job 0 has 3.33 of NIC 0 left: 8 / 3.33 = 2.4 s
    assert rates == pytest.approx([10 / 3, 20 / 3, 10 / 3])
    assert bottleneck_s([(0, 2, 8.0)], [0.0, 0, 10, 10], [10.0] * 4) == float("inf")
    assert may_start(0.0, [(4.0, 4.0)])
    assert not may_start(0.0, [(4.0, 4.0), (3.0, 4.0)])
    assert may_start(1.0, [(0.0, 4.0)])


@given(JOBS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_kernel_says_the_same(jobs: list[tuple[FlowRows, float, int]], data: st.DataObject) -> None:
    rule = McsRule()
    engine = SlottedEngine(CAPACITY, rule)
    for uid, (rows, _, n) in enumerate(jobs):
        engine.attach(uid, Iteration(0.0, 1.0, rows), n)
    flows = engine.flows
    n = engine._n_flows
    flows.sent[:n] = [data.draw(st.sampled_from([0.0, 0.3, 1.0])) * size for size in flows.size[:n]]
    live = np.flatnonzero(flows.sent[:n] < flows.size[:n])
    rates = rule.decide(0, flows, live)
    feeders = {i: [(flows.sent[j], flows.size[j]) for j in range(flows.feed0[i], flows.feed1[i])] for i in live}
    ready = [i for i in live if may_start(flows.chunk[i], feeders[i])]
    nics = [(int(flows.path[i, 0]), int(flows.path[i][flows.path[i] >= 0][-1])) for i in ready]
    left = [flows.size[i] - flows.sent[i] for i in ready]
    mine = coflow_rates([int(flows.job[i]) for i in ready], nics, left, CAPACITY.tolist(), rule.slot_s)
    assert rates[ready].tolist() == mine
    assert rates.sum() == pytest.approx(sum(mine))
    used = np.zeros(len(CAPACITY))
    for (a, b), rate in zip(nics, mine, strict=True):
        used[a] += rate
        used[b] += rate
    assert (used <= CAPACITY * (1 + 1e-9)).all()
