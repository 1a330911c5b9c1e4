from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.oracles.mcs import bottleneck_s, coflow_rates, job_order
from testkit.paced import CAPACITY, JOBS, Job, partly_sent
from weft.errors import StackError
from weft.model.flows import FlowRows, flow_set
from weft.policies.pace.mcs import Mcs, McsRule
from weft.policies.pace.rates import Demand, Moment


def test_by_hand() -> None:
    """NICs of 10: job 0 sends 8 from NIC 0 to 2, job 1 sends 4 from 0 to 3 and 2 from 1 to 3, and comes first: NIC 3
    takes 6, so 0.6 s, at 6.67 and 3.33. Job 0 has the 3.33 that are left of NIC 0. Nothing is left to fill: NIC 0 and
    NIC 3 are full. With job 0 first, job 1 cannot send its 4, so as a coflow it has nothing; its 2 are backfilled."""
    flows = ([0, 1, 1], [(0, 2), (0, 3), (1, 3)], [8.0, 4.0, 2.0], [10.0] * 4)
    assert coflow_rates(*flows, {0: 1, 1: 0}) == pytest.approx([10 / 3, 20 / 3, 10 / 3])
    assert coflow_rates(*flows, {0: 0, 1: 1}) == pytest.approx([10.0, 0.0, 10.0])
    assert bottleneck_s([(0, 2, 8.0)], [0.0, 0, 10, 10], [10.0] * 4) == float("inf")


def _order_by_kernel(loads: Sequence[Mapping[int, float]]) -> list[int]:
    """`job_order`, asked of the kernel: each load is a flow from its NIC, of 1 byte a second, to a NIC that is so fast
    that it is never the busiest."""
    rows = [(j, nic, seconds) for j, mine in enumerate(loads) for nic, seconds in mine.items()]
    job, path = np.array([row[0] for row in rows], np.int64), np.array([(row[1], 2) for row in rows], np.int32)
    left, capacity = np.array([row[2] for row in rows]), np.array([1.0, 1.0, 1e9])
    return [int(place) for place in McsRule().kernel.job_order(job, path.reshape(-1, 2), left, capacity)]


@pytest.mark.parametrize("order", [job_order, _order_by_kernel])
def test_the_order_of_jobs_by_hand(order: Any) -> None:
    """docs/baselines/mcs.md: NIC 0 has 4 + 2 seconds to do for jobs 0 and 1, NIC 1 has 2 + 3 for jobs 1 and 2. On NIC
    0, which has most, job 0 has the least weight for its seconds (1/4 against 1/2), so job 0 goes last. Job 1 pays 2 s
    x 1/4 and keeps a weight of 1/2. Then NIC 1 has most, 5 s: there job 1 has 1/2 / 2 = 1/4 and job 2 has 1/3, so job 1
    goes second and job 2 first. If job 1 had kept its whole weight it would have 1/2 and go first, as it would by the
    smallest bottleneck."""
    assert order([{0: 4.0}, {0: 2.0, 1: 2.0}, {1: 3.0}]) == [2, 1, 0]
    assert order([{0: 1.0}, {0: 1.0}]) == [0, 1]  # alike: who came first goes first
    assert order([]) == []


def _rates_by_kernel(
    job: Sequence[int], nics: Sequence[tuple[int, int]], left: Sequence[float], capacity: Sequence[float],
    places: Mapping[int, int],
) -> list[float]:  # fmt: skip
    """`coflow_rates`, asked of the kernel."""
    uid, path, size = np.array(job), np.array(nics, np.int32), np.array(left)
    place, found = np.array([places[name] for name in job]), np.zeros(len(job))
    McsRule().kernel.decide(
        np.arange(len(job)), path, uid, np.zeros(len(job)), size, np.array(capacity), place, found
    )  # fmt: skip
    return [float(rate) for rate in found]


@pytest.mark.parametrize("rates", [coflow_rates, _rates_by_kernel])
def test_backfilling_is_in_the_order_of_jobs(rates: Any) -> None:
    """NICs of 10. Job 0 comes first and its flow from NIC 0 to 2 takes all of NIC 0. Jobs 1 and 2 both have a flow from
    NIC 0, so as coflows they have nothing. NIC 1 is free for a flow of each: job 1 comes before job 2 and has all 10 of
    it for its flow to NIC 4, and nothing is left for the flow of job 2 to NIC 5. With the two places exchanged job 2
    has the 10."""
    flows = ([0, 1, 1, 2, 2], [(0, 2), (0, 3), (1, 4), (0, 3), (1, 5)], [8.0, 4.0, 4.0, 4.0, 4.0], [10.0] * 6)
    assert rates(*flows, {0: 0, 1: 1, 2: 2}) == pytest.approx([10.0, 0.0, 10.0, 0.0, 0.0])
    assert rates(*flows, {0: 0, 1: 2, 2: 1}) == pytest.approx([10.0, 0.0, 0.0, 0.0, 10.0])


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(4, 7), st.integers(1, 5)), min_size=1, max_size=4),
                min_size=1, max_size=6))  # fmt: skip
@settings(max_examples=examples(60), deadline=None)
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


def test_the_order_is_remade_when_an_iteration_begins() -> None:
    """A NIC of 10 bytes/s, all within one slot. Job 0 has 2 of its 8 bytes left and job 1 has 6: job 0 goes first. Job
    0 ends and begins its next iteration at once, with 8 bytes: now job 1 has fewer, 6, and goes first. Then job 2 comes
    with 7 bytes: it goes after job 1 and before job 0."""
    capacity = np.array([10.0] * 3)
    flows = flow_set(3, 2)
    for row, size in enumerate((8.0, 6.0, 7.0)):
        flows.put(row, row, FlowRows(((0, 2),), (size,), (0.0,), ((0, 0),), ((0, 0),)), capacity)
    flows.active[:2], flows.sent[0] = True, 6.0
    rule = McsRule()
    rule.begin(Demand(capacity))
    assert rule.decide(Moment(0), flows, np.array([0, 1])).caps.tolist() == [10.0, 0.0, 0.0]
    rule.over(np.array([0]), flows)
    flows.sent[0] = 0.0
    later = Moment(0, 0.5, begins=False)
    assert rule.decide(later, flows, np.array([0, 1])).caps.tolist() == [0.0, 10.0, 0.0]
    flows.active[2] = True
    assert rule.decide(later, flows, np.arange(3)).caps.tolist() == [0.0, 10.0, 0.0]
    rule.over(np.array([1]), flows)
    flows.active[1] = False
    assert rule.decide(later, flows, np.array([0, 2])).caps.tolist() == [0.0, 0.0, 10.0]


@given(JOBS, st.data())
@settings(max_examples=examples(60), deadline=None)
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
        with pytest.raises(StackError, match=r"^mcs:.*(not known|takes a number|twice)"):
            Mcs.from_text(wrong)
