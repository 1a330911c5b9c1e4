"""The baselines of flow scheduling, by hand, and what all of them keep to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.sim.test_slotted import CAPACITY, JOBS, play, ring, servers
from weft.errors import StackError
from weft.model.flow_set import FlowRows
from weft.pace.ccml import Ccml, CcmlRule
from weft.pace.equal import Equal, EqualRule
from weft.pace.flow import FlowRule
from weft.pace.mcs import Mcs, McsRule
from weft.pace.pcc import Pcc, PccRule, utility
from weft.pace.rates import RateRule
from weft.pace.tcp import VARIANTS, Tcp, TcpRule, loss_limit
from weft.sim.slotted import Iteration, SlottedEngine
from weft.testing import check_pace

RULES = [EqualRule, McsRule, CcmlRule, PccRule, lambda: TcpRule("bbr"), lambda: TcpRule("reno")]


@pytest.mark.parametrize("make", RULES)
@given(jobs=JOBS)
@settings(max_examples=8, deadline=None)
def test_bytes_are_conserved_and_nobody_runs_ahead(
    make: type[RateRule], jobs: list[tuple[FlowRows, float, int]]
) -> None:
    play(jobs, make(), on_time=False)


def ends(rule: RateRule, jobs: list[FlowRows], loss: float = 0.0, line: float = 1.0) -> list[float]:
    """When each of several jobs that are ready at 0 has sent everything."""
    engine = SlottedEngine(CAPACITY * line, rule, packet_loss=loss)
    for uid, rows in enumerate(jobs):
        engine.attach(uid, Iteration(0.0, 1.0, rows), 1)
    while engine.run(1000.0):
        pass
    return [engine.finish_s(j) for j in range(len(jobs))]


def test_two_jobs_on_one_nic_by_hand() -> None:
    """docs/baselines/equal.md: two pushes of 6 bytes from server 0 to 1 at 10 bytes/s, and their broadcasts."""
    jobs = [servers(1, (0,), 6.0), servers(1, (0,), 6.0)]
    assert ends(EqualRule(), jobs) == pytest.approx([1.2, 1.2], abs=1e-6)
    # 4 : 1 until A has sent 6 at 8 bytes/s (0.75 s, in the 13th slot), then B alone
    assert ends(CcmlRule(), jobs) == pytest.approx([0.75, 1.224], abs=0.05)
    # A's push, then A's broadcast beside B's push, then B's broadcast
    assert ends(McsRule(), jobs) == pytest.approx([1.2, 1.8], abs=0.13)


def test_mcs_waits_where_flow_pipelines() -> None:
    """A push and its broadcast alone: start-after takes twice the time (section VII of the paper)."""
    alone = [servers(1, (0,), 6.0)]
    assert ends(FlowRule(), alone) == pytest.approx([0.6], abs=0.061)
    assert ends(McsRule(), alone) == pytest.approx([1.2], abs=0.061)
    assert ends(McsRule(), [ring((0, 1), 6.0)]) == pytest.approx(ends(FlowRule(), [ring((0, 1), 6.0)]), abs=0.07)


def test_loss() -> None:
    """p = 0.002, RTT 0.2 ms: Reno reaches 1460 / 0.0002 x sqrt(1.5 / 0.002) = 199.9 MB/s, CUBIC the same."""
    assert loss_limit("reno", 0.002) == pytest.approx(199.9e6, rel=1e-3)
    assert loss_limit("cubic", 0.002) == loss_limit("dctcp", 0.002) == loss_limit("reno", 0.002)
    assert loss_limit("cubic", 1e-13) > loss_limit("reno", 1e-13)  # beyond its Reno-friendly region
    assert loss_limit("bbr", 0.01) == loss_limit("reno", 0.0) == float("inf")
    big, fast = [servers(1, (0,), 6e8)], 3.125e8  # 25 Gbit/s
    clean, lossy = ends(TcpRule("cubic"), big, line=fast), ends(TcpRule("cubic"), big, 0.002, fast)
    assert lossy[0] > 5 * clean[0]
    flow, flow_lossy = ends(FlowRule(), big, line=fast), ends(FlowRule(), big, 0.002, fast)
    assert flow_lossy[0] < 1.4 * flow[0]


def test_pcc_prefers_what_is_carried() -> None:
    """More is better while nothing is lost; a loss of 10 % is worth less than half the rate without."""
    some = utility(np.array([1.0, 2.0, 2.0]), np.array([0.0, 0.0, 0.1]))
    assert some[2] < some[0] < some[1]
    assert ends(PccRule(), [servers(1, (0,), 6.0)])[0] > 0.6 + 0.01  # it has to find the rate first


@pytest.mark.parametrize("make", [Equal, Mcs, Ccml, Pcc, *(lambda v=v: Tcp(v) for v in VARIANTS)])
def test_conforms(make: type[Equal]) -> None:
    check_pace(make)
    assert make().rates() is not None


def test_parameters() -> None:
    assert Ccml.from_text("2").unfair == 2.0
    with pytest.raises(StackError, match="write ccml"):
        Ccml.from_text("x")
    with pytest.raises(StackError, match="write tcp:X"):
        Tcp.from_text("vegas")
