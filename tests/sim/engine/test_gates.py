from typing import Any

import numpy as np
import pytest

from testkit.oracles.engine import ReferenceEngine
from testkit.paced import program, ring, rule_of, run_all, servers, spec_of
from weft.model.plan import Gate
from weft.model.profile import Compute, Profile, Transfer
from weft.network.topologies import build_cluster
from weft.policies.pace.base import Pace
from weft.policies.pace.flow import Flow
from weft.policies.pace.tcp import Equal
from weft.sim.compiled.state import TRANSFER
from weft.sim.engine import Engine
from weft.sim.engine.program import compute_node, make_program, transfer_node
from weft.sim.lower import Lowering
from weft.sim.spec import NetworkSpec

LINE = np.array([10.0])
BOTH = pytest.mark.parametrize("make", [Engine, ReferenceEngine])


@pytest.mark.parametrize("pace", [Flow(), Equal()])
def test_a_gate_counts_from_when_a_job_has_computed(pace: Pace) -> None:
    """A job computes from 0 to 0.5 s. At 0.2 s its gate becomes that of 0.9 s: all of its flows start then."""
    engine = Engine(spec_of(rule_of(pace)))
    at = engine.attach(0, program(0.5, ring((0, 1, 2), 0.4)), 1)
    assert engine.run(0.2) == []
    engine.set_gate(at, Gate(0.9, 0.0, 1))
    assert engine.run(0.89) == []
    assert engine.carried().sum() == 0.0  # nobody may slip through
    assert engine.run(10.0) == [at]
    assert engine.finish_s(at) == pytest.approx(0.9 + 0.4 / 6.0)
    assert engine.detach(at).gate_s == pytest.approx(0.4)


@BOTH
def test_a_gate_holds_up_the_first_stage_only(make: Any) -> None:
    """The gate opens at 1 s and then every 10 s. A collective of two stages, 5 bytes each at 10 bytes/s, follows 0.5 s
    of computing. It is held until 1 s and ends at 2 s, since its second stage is no start of its own. The job then
    computes until 2.5 s, and the next opening is at 11 s: 12 s in all, of which 0.5 and 8.5 were the gate's."""
    stages = [
        compute_node(0, 0.5), transfer_node(1, 5.0, [(0, 1)], (0,)),
        transfer_node(1, 5.0, [(0, 1)], (1,), continued=True),
    ]  # fmt: skip
    engine = make(spec_of(None, LINE))
    at = engine.attach(0, make_program(stages, LINE), 2, gate=Gate(1.0, 10.0, 1))
    run_all(engine, 1)
    usage = engine.detach(at)
    assert (usage.finish_s, usage.gate_s, usage.comm_s, usage.adjusted) == pytest.approx((12.0, 9.0, 2.0, 0))


@BOTH
@pytest.mark.parametrize("collective", ["halving-doubling", "parameter-server"])
def test_a_gate_on_a_lowered_collective(make: Any, collective: str) -> None:
    """The same of what a job is lowered to: held up once, then all of its stages as fast as without a gate. A message
    of 6 bytes at 10 bytes/s: 2 x 3/4 of it out of every NIC, or three times all of it into one NIC and out again."""
    cluster = build_cluster("leaf-spine", racks=2, servers_per_rack=2, gpus_per_server=1, nic_gbps=8e-8)
    profile = Profile("job", (Compute("c", 0.5), Transfer("t", 6.0, (0,), collective=collective)), 4)
    lowering = Lowering(cluster, NetworkSpec())
    ends_s = {}
    for gate in (None, Gate(1.0, 100.0, 1)):
        made = lowering.program(profile, (0, 1, 2, 3))
        assert sum(spec.kind == TRANSFER for spec in made.specs) > 1  # several stages
        engine = make(spec_of(None, lowering.capacity))
        at = engine.attach(0, made, 1, gate=gate)
        run_all(engine, 1)
        ends_s[gate] = engine.detach(at)
    free, held = ends_s.values()
    assert free.comm_s == pytest.approx(0.9 if collective == "halving-doubling" else 3.6)
    assert held.gate_s == pytest.approx(0.5)
    assert held.finish_s == pytest.approx(free.finish_s + 0.5)


@BOTH
@pytest.mark.parametrize("period", [0.0, 2.0])
@pytest.mark.parametrize("flows", [ring((0, 1, 2), 0.6), servers(0, (1, 2), 0.5)], ids=["ring", "servers"])
def test_a_gate_holds_up_all_flows_of_a_collective(make: Any, period: float, flows: Any) -> None:
    """Computing ends at 0.5 s, the gate opens at 1.5 s, and all flows of the collective start then: alone they take 0.1
    s over the core of 6 bytes/s (the ring), or into the server's NIC (two pushes of 0.5 at 10 bytes/s)."""
    # Fails while a one-off gate (period 0) counts as used after the first flow of the collective: gate_opens in
    # events_kernel.py and _gate_opens in testkit/oracles/engine.py.
    engine = make(spec_of(None))
    at = engine.attach(0, program(0.5, flows), 1, gate=Gate(1.5, period, 1))
    assert engine.run(1.4) == []
    run_all(engine, 1)
    usage = engine.detach(at)
    assert (usage.gate_s, usage.comm_s, usage.finish_s) == pytest.approx((1.0, 0.1, 1.6))
