"""MCS: the kernel against its plain twin; what a coflow may have of NICs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.paced import CAPACITY, JOBS, Job
from weft.model.flows import flow_set
from weft.pace.mcs import Mcs, McsRule, bottleneck_s, coflow_rates
from weft.pace.rates import Demand, Moment
from weft.sim.engine.program import make_program
from weft.sim.engine.ruled import flow_rows


def test_by_hand() -> None:
    """NICs of 10: job 0 sends 8 over NIC 0 (0.8 s), job 1 sends 4 over NIC 0 (0.4 s, first) and 2 over NIC 1."""
    rates = coflow_rates([0, 1, 1], [(0, 2), (0, 3), (1, 3)], [8.0, 4.0, 2.0], [10.0] * 4)
    # job 1: NIC 3 takes 6, so 0.6 s: 6.67 and 3.33; job 0 has 3.33 of NIC 0 left: 8 / 3.33 = 2.4 s
    assert rates == pytest.approx([10 / 3, 20 / 3, 10 / 3])
    assert bottleneck_s([(0, 2, 8.0)], [0.0, 0, 10, 10], [10.0] * 4) == float("inf")


@given(JOBS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_kernel_says_the_same(jobs: list[Job], data: st.DataObject) -> None:
    """Of whatever flows have bytes left; and no NIC is given away twice."""
    rows = [flow_rows(make_program(flows, CAPACITY)) for flows, _, _ in jobs]
    flows = flow_set(sum(map(len, rows)), 3)
    at = 0
    for job, mine in enumerate(rows):
        flows.put(at, job, mine, CAPACITY)
        at += len(mine)
    flows.sent[:] = [data.draw(st.sampled_from([0.0, 0.3, 1.0])) * size for size in flows.size]
    live = np.flatnonzero(flows.sent < flows.size)
    rule = McsRule()
    rule.begin(Demand(CAPACITY))
    caps = rule.decide(Moment(0), flows, live).caps
    nics = [(int(flows.path[i, 0]), int(flows.path[i][flows.path[i] >= 0][-1])) for i in live]
    left = [flows.size[i] - flows.sent[i] for i in live]
    plain = coflow_rates([int(flows.job[i]) for i in live], nics, left, CAPACITY.tolist())
    assert caps[live].tolist() == plain
    assert caps.sum() == pytest.approx(sum(plain))
    used = np.zeros(len(CAPACITY))
    for (a, b), rate in zip(nics, plain, strict=True):
        used[a] += rate
        used[b] += rate
    assert (used <= CAPACITY * (1 + 1e-9)).all()


def test_a_coflow_ends_together() -> None:
    """The dependencies of MCS are those of starts: its lowering makes a broadcast wait for all of its pushes."""
    assert Mcs().transport().start_after
    assert McsRule().everyone
