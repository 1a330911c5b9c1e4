"""MCS: the kernel against its plain twin; what a coflow may have of NICs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.paced import CAPACITY, JOBS, Job, partly_sent
from weft.errors import StackError
from weft.model.flows import FlowRows, flow_set
from weft.pace.mcs import Mcs, McsRule, bottleneck_s, coflow_rates, job_order
from weft.pace.rates import Demand, Moment


def test_by_hand() -> None:
    """NICs of 10: job 0 sends 8 from NIC 0 to 2, job 1 sends 4 from 0 to 3 and 2 from 1 to 3, and comes first: NIC 3
    takes 6, so 0.6 s, at 6.67 and 3.33. Job 0 has the 3.33 that are left of NIC 0. Nothing is left to fill: NIC 0 and
    NIC 3 are full. With job 0 first, job 1 cannot send its 4, so as a coflow it has nothing; its 2 are backfilled."""
    flows = ([0, 1, 1], [(0, 2), (0, 3), (1, 3)], [8.0, 4.0, 2.0], [10.0] * 4)
    assert coflow_rates(*flows, {0: 1, 1: 0}) == pytest.approx([10 / 3, 20 / 3, 10 / 3])
    assert coflow_rates(*flows, {0: 0, 1: 1}) == pytest.approx([10.0, 0.0, 10.0])
    assert bottleneck_s([(0, 2, 8.0)], [0.0, 0, 10, 10], [10.0] * 4) == float("inf")


def test_the_order_of_jobs_by_hand() -> None:
    """docs/baselines/mcs.md: NIC 0 has 3 + 2 + 2 seconds to do, NIC 1 has 1 + 4. On NIC 0 job 0 has least weight for
    its seconds, 1/3: it goes last, and jobs 1 and 2 keep 1 - 2/3. Then NIC 1 has most left, 4 s, all of job 2: it goes
    second. By smallest bottleneck first it would be job 1, job 0, job 2."""
    assert job_order([{0: 3.0, 1: 1.0}, {0: 2.0}, {0: 2.0, 1: 4.0}]) == [2, 0, 1]
    assert job_order([{0: 1.0}, {0: 1.0}]) == [0, 1]  # alike: who came first goes first
    assert job_order([]) == []


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 7), st.integers(1, 5)), min_size=1, max_size=4),
                min_size=1, max_size=6))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_kernel_orders_in_the_same_way(jobs: list[list[tuple[int, int, int]]]) -> None:
    """Over NICs of 1 byte a second, so that seconds are whole numbers and sums exact."""
    loads: list[dict[int, float]] = []
    rows = [(j, a, b, size) for j, flows in enumerate(jobs) for a, b, size in flows]
    for flows in jobs:
        mine: dict[int, float] = {}
        for a, b, size in flows:
            for nic in (a, b):
                mine[nic] = mine.get(nic, 0.0) + size
        loads.append(mine)
    job, path = np.array([row[0] for row in rows]), np.array([[row[1], row[2], -1] for row in rows], np.int32)
    left = np.array([float(row[3]) for row in rows])
    assert McsRule().kernel.job_order(job, path, left, np.ones(8)).tolist() == job_order(loads)


def test_jobs_are_ordered_by_all_of_their_stages() -> None:
    """Job 0 pushes 2 bytes and has 8 to broadcast from the same NIC, job 1 pushes 4: job 1 goes first though its coflow
    is the larger. When the broadcast of job 0 is done it counts no more, and job 0 goes first."""
    capacity = np.array([10.0] * 4)
    flows = flow_set(3, 2)
    flows.put(0, 0, FlowRows(((0, 2), (0, 3)), (2.0, 8.0), (0.0, 0.0), ((0, 0),) * 2, ((0, 0),) * 2), capacity)
    flows.put(2, 1, FlowRows(((0, 2),), (4.0,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    flows.active[[0, 2]] = True
    rule = McsRule()
    rule.begin(Demand(capacity))
    assert rule.decide(Moment(0), flows, np.array([0, 2])).caps.tolist() == [0.0, 0.0, 10.0]
    rule.over(np.array([1]), flows)
    assert rule.decide(Moment(1), flows, np.array([0, 2])).caps.tolist() == [10.0, 0.0, 0.0]


@given(JOBS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_kernel_says_the_same(jobs: list[Job], data: st.DataObject) -> None:
    """Of whatever flows have bytes left; no NIC is given away twice, and none that a flow could use is left idle."""
    flows = partly_sent(jobs, data)
    flows.active[:] = flows.sent < flows.size
    live = np.flatnonzero(flows.active)
    rule = McsRule()
    rule.begin(Demand(CAPACITY))
    caps = rule.decide(Moment(0), flows, live).caps
    nics = [(int(flows.path[i, 0]), int(flows.path[i][flows.path[i] >= 0][-1])) for i in live]
    left = [flows.size[i] - flows.sent[i] for i in live]
    places = {int(flows.uid[i]): int(rule.place[i]) for i in live}
    plain = coflow_rates([int(flows.uid[i]) for i in live], nics, left, CAPACITY.tolist(), places)
    assert caps[live].tolist() == plain
    assert caps.sum() == pytest.approx(sum(plain))
    used = np.zeros(len(CAPACITY))
    for (a, b), rate in zip(nics, plain, strict=True):
        used[a] += rate
        used[b] += rate
    assert (used <= CAPACITY * (1 + 1e-9)).all()
    assert all(max(used[a] / CAPACITY[a], used[b] / CAPACITY[b]) > 1 - 1e-6 for a, b in nics)


def test_a_coflow_ends_together() -> None:
    """The dependencies of MCS are those of starts: its lowering makes a broadcast wait for all of its pushes."""
    assert Mcs().transport().start_after
    assert McsRule().everyone


def test_parameters() -> None:
    """Foreign traffic has what its senders leave by default, or a part of its half: 40 % of it is 0.2 of a link."""
    texts = ("reacts", "leaves=100%", "leaves=40%", "leaves=0%")
    names = [Mcs.from_text(text).name for text in (None, *texts)]
    assert names == ["mcs", "mcs:reacts", "mcs:reacts", "mcs:leaves=40%", "mcs"]
    none, whole, some = (Mcs.from_text(text).transport() for text in (None, "reacts", "leaves=40%"))
    assert (none.reacts, whole.reacts, some.reacts) == (False, True, True)
    assert whole.foreign_weight == whole.claim
    assert some.foreign_weight / (some.foreign_weight + some.claim) == pytest.approx(0.2)
    assert all(transport.start_after for transport in (none, whole, some))
    for wrong in ("", "react", "reacts,reacts", "leaves=", "leaves=%", "leaves=40", "leaves=101%", "leaves=nan%", "4%"):
        with pytest.raises(StackError, match="write mcs, mcs:reacts"):
            Mcs.from_text(wrong)
