import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.paced import (
    PACES,
    Flows,
    Job,
    Rule,
    carried_bytes,
    check_physics,
    jobs_on,
    program,
    rule_of,
    servers,
    spec_of,
)
from tests.sim.rules import Told
from weft.errors import StackError
from weft.network.topologies import build_cluster
from weft.policies.pace.admission import AdaDual, Fair
from weft.policies.pace.base import Pace
from weft.policies.pace.flow import Flow, FlowRule
from weft.policies.pace.mcs import Mcs
from weft.policies.pace.rates import Transport
from weft.policies.pace.tcp import Equal, Tcp, loss_limit
from weft.sim.compiled.state import FOREIGN
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import Program, make_program, transfer_node
from weft.sim.foreign import Others
from weft.sim.spec import CrossTraffic, Foreign, NetworkSpec

CLUSTER = build_cluster("single-switch", servers=4, nic_gbps=8e-8)  # 10 bytes/s
S0, S1 = (server.name for server in CLUSTER.servers[:2])
NIC = CLUSTER.topology.route(0, 1)[0]
TREE = build_cluster(
    "leaf-spine", racks=2, servers_per_rack=2, gpus_per_server=1, nic_gbps=8.0, oversubscription=1.5, spines=1
)  # servers of 1 GB/s, and leaves that two of them can fill
NAMES = [server.name for server in TREE.servers]


def push(size: float) -> Flows:
    """A push from server 0 to 1 and its broadcast."""
    return servers(1, (0,), size, CLUSTER.topology.route)


class Lab:
    """Jobs of ours beside others on one engine."""

    def __init__(
        self, cluster: Any, rule: Rule | None, transport: Transport, network: NetworkSpec, seed: int = 0
    ) -> None:
        self.engine = Engine(spec_of(rule, cluster.topology.capacity, packet_loss=network.packet_loss, seed=seed))
        self.others = Others(cluster, network, seed, transport)
        self.programs: dict[int, Program] = {}
        self.transport = transport

    def attach(self, uid: int, compute_s: float, flows: Flows, n: int = 1) -> int:
        """A job of ours."""
        made = program(compute_s, flows, self.engine.spec.capacity, start_after=self.transport.start_after)
        row = self.engine.attach(uid, made, n)
        self.programs[row] = made
        return row

    def step(self, until: float = math.inf) -> list[int]:
        """To the next change, of ours or of theirs; those of ours that finish then, which are let go."""
        if self.others.next_s <= self.engine.now:
            self.others.change(self.engine)
        finished = [k for k in self.engine.step(min(until, self.others.next_s)) if k in self.programs]
        for row in finished:
            del self.programs[row]
        return finished

    def run(self, until: float = 1e4) -> None:
        """Until ours have finished, or up to a moment."""
        while self.programs and self.engine.now < until:
            self.step(until)


def beside(pace: Pace, foreign: Sequence[Foreign], size: float, n: int = 1, compute_s: float = 0.0) -> Lab:
    """A push from server 0 to 1 and its broadcast, again and again, beside flows of others; until it has finished."""
    lab = Lab(CLUSTER, rule_of(pace), pace.transport(), NetworkSpec(foreign=tuple(foreign)))
    lab.attach(0, compute_s, push(size), n)
    lab.run()
    lab.others.end_all(lab.engine)
    return lab


@pytest.mark.parametrize("pace", [Tcp("ideal"), Tcp("ideal-bbr"), Equal(), Fair(), AdaDual()])
def test_senders_that_react_and_a_foreign_flow_have_half_each(pace: Pace) -> None:
    """Section VI-F: one of ours and one of theirs on a NIC of 10 bytes/s: five each, as between TCP flows. 60 bytes
    take 12 s, and so many of theirs pass."""
    assert pace.transport().reacts
    lab = beside(pace, [Foreign(S0, S1)], 60.0)
    assert lab.engine.finish_s(0) == pytest.approx(12.0)
    assert lab.others.bytes[0] == pytest.approx(60.0)


@pytest.mark.parametrize(("cap", "left"), [(8.0, 2.0), (9.5, 0.5), (10.0, 0.0)])
def test_senders_that_do_not_react_leave_a_foreign_flow_the_rest(cap: float, left: float) -> None:
    """One of ours that keeps its rate whatever is lost, at 0.8 of the line: the foreign flow has 0.2 of it. At 0.95
    it has 0.05, and at line rate nothing."""
    network, told = NetworkSpec(foreign=(Foreign(S0, S1),)), Told([{0: (cap, 1, 0)}])
    lab = Lab(CLUSTER, lambda: told, Transport(opened=True, reacts=False), network)
    lab.attach(0, 0.0, push(60.0))
    lab.run(3.0)
    there = lab.engine.on_link(NIC)
    assert (there[0][0], there[FOREIGN][0]) == pytest.approx((cap, left), abs=1e-9)
    lab.run()
    assert lab.engine.finish_s(0) == pytest.approx(60.0 / cap)
    lab.others.end_all(lab.engine)
    assert lab.others.bytes[0] == pytest.approx(left * 60.0 / cap, abs=1e-6)


@pytest.mark.parametrize("level", [1, 3])
def test_what_senders_that_do_not_react_leave_on_all_of_their_levels(level: int) -> None:
    """One of ours on a later level keeps its rate just as one on the first does: at 8 of 10 theirs has 2, not half."""
    network, told = NetworkSpec(foreign=(Foreign(S0, S1),)), Told([{0: (8.0, 1, level)}])
    lab = Lab(CLUSTER, lambda: told, Transport(opened=True, reacts=False), network)
    lab.attach(0, 0.0, push(60.0))
    lab.run(3.0)
    there = lab.engine.on_link(NIC)
    assert (there[0][0], there[FOREIGN][0]) == pytest.approx((8.0, 2.0))


@pytest.mark.parametrize("pace", [Flow(), Mcs()])
def test_flow_and_mcs_do_not_react(pace: Pace) -> None:
    """They ask for the whole line while they have bytes, and a foreign flow has it while they compute: of 0.5 s of
    computing and 0.5 s of sending 5 bytes (mcs: a broadcast of 0.5 s after the push) it has all but the latter."""
    assert not pace.transport().reacts
    alone, lab = beside(pace, [], 5.0, 4, 0.5), beside(pace, [Foreign(S0, S1)], 5.0, 4, 0.5)
    total = lab.engine.finish_s(0)
    assert total == pytest.approx(alone.engine.finish_s(0))
    assert lab.others.bytes[0] == pytest.approx(10.0 * total - 4 * 5.0)


def test_mcs_that_reacts_shares_with_others() -> None:
    """A push of 60 bytes at half of 10 bytes/s, then its broadcast over NICs that nobody else uses: 12 and 6 s."""
    pace = Mcs.from_text("reacts")
    assert pace.transport().reacts
    lab = beside(pace, [Foreign(S0, S1)], 60.0)
    assert lab.engine.finish_s(0) == pytest.approx(18.0)
    assert lab.others.bytes[0] == pytest.approx(12 * 5.0 + 6 * 10.0)
    with pytest.raises(StackError, match="is not known"):
        Mcs.from_text("fair")


def test_a_modest_foreign_flow_leaves_the_rest() -> None:
    """It asks for 2 of 10: ours have 8, and beside one that asks for 7 still their half."""
    for asks, ours in ((2.0, 8.0), (7.0, 5.0)):
        lab = beside(Tcp("ideal"), [Foreign(S0, S1, bytes_per_s=asks)], 60.0)
        assert lab.engine.finish_s(0) == pytest.approx(60.0 / ours)
        assert lab.others.bytes[0] == pytest.approx(min(asks, 5.0) * 60.0 / ours)
    below = beside(Flow(), [Foreign(S0, S1, bytes_per_s=2.0)], 60.0)
    assert below.engine.finish_s(0) == pytest.approx(6.0)  # it does not react: theirs are pushed out
    assert below.others.bytes[0] == pytest.approx(0.0, abs=1e-6)


def test_ends_and_starts_in_the_middle() -> None:
    """A foreign flow from 1.25 to 3.5 s beside one of ours on a line of 10: 12.5 bytes, 11.25 in 2.25 s, and the rest
    of 30 from 3.5 s on: 4.125 s. Another comes back at 4 s and finds 1.25 bytes left, at 5 a second: 4.25 s."""
    lab = beside(Tcp("ideal"), [Foreign(S0, S1, 1.25, 3.5)], 30.0)
    assert lab.engine.finish_s(0) == pytest.approx(3.5 + (30.0 - 12.5 - 11.25) / 10.0)
    assert lab.others.bytes[0] == pytest.approx(11.25)
    lab = beside(Tcp("ideal"), [Foreign(S0, S1, 1.25, 3.5), Foreign(S0, S1, 4.0, 9.0)], 30.0)
    assert lab.engine.finish_s(0) == pytest.approx(4.25)
    assert lab.others.bytes.tolist() == pytest.approx([11.25, 1.25])


def test_a_flow_that_ends_when_another_starts() -> None:
    """Ends come before starts at one moment: the second flow has the whole line from 1 s on, and each its 10 bytes."""
    network = NetworkSpec(foreign=(Foreign(S0, S1, 0.0, 1.0), Foreign(S0, S1, 1.0, 2.0)))
    lab = Lab(CLUSTER, None, Transport(), network)
    while lab.others.next_s < math.inf:
        lab.step()
    assert lab.others.bytes.tolist() == pytest.approx([10.0, 10.0])
    assert lab.engine.now == pytest.approx(2.0)


def test_a_flow_without_an_end_goes_on() -> None:
    """Longer than any of the stretches it is sent in: all bytes of 5,000 s are counted."""
    lab = Lab(CLUSTER, None, Transport(), NetworkSpec(foreign=(Foreign(S0, S1),)))
    lab.others.change(lab.engine)
    lab.engine.run(5000.0)
    lab.others.end_all(lab.engine)
    assert lab.others.bytes[0] == pytest.approx(50_000.0)
    assert lab.engine.links()["bytes"][NIC] == pytest.approx(50_000.0)


def test_what_is_lost_was_sent() -> None:
    """One packet in fifty is lost: what is delivered is 0.98 of what the link carried, at CUBIC's rate for it."""
    fast = build_cluster("single-switch", servers=2, nic_gbps=25.0)
    lab = Lab(fast, None, Transport(), NetworkSpec(foreign=(Foreign("s0", "s1"),), packet_loss=0.02))
    lab.others.change(lab.engine)
    lab.engine.run(10.0)
    lab.others.end_all(lab.engine)
    limit = loss_limit("cubic", 0.02)
    assert limit < 25e9 / 8
    assert lab.engine.links()["bytes"][fast.topology.route(0, 1)[0]] == pytest.approx(10.0 * limit)
    assert lab.others.bytes[0] == pytest.approx(0.98 * 10.0 * limit)


def test_short_transfers_are_not_pushed_out() -> None:
    """Transfers of less than a slot carry little; that is no reason for `flow` to believe that there is no more to be
    had: beside a flow that shares fairly an iteration of 0.09 s takes at most 2.1 times as long, and none longer."""
    lab = Lab(CLUSTER, FlowRule, Transport(opened=True), NetworkSpec(foreign=(Foreign(S0, S1),)))
    lab.attach(0, 0.05, push(0.4), 40)
    lab.run()
    assert lab.engine.finish_s(0) <= 2.1 * 40 * (0.05 + 0.04)
    late = np.repeat(lab.engine.records()["duration"], lab.engine.records()["count"].astype(int))
    assert late[-5:].mean() <= late[:5].mean() * 1.2


def test_the_share_rule() -> None:
    """A link that denied us something in the last 4 slots is ours as far as we got through it (section IV-C). A foreign
    flow that shares fairly is there from 0.24 to 1.2 s: we have half of the line, and look again once in a window."""
    rules: list[FlowRule] = []

    def rule() -> FlowRule:
        rules.append(FlowRule())
        return rules[-1]

    lab = Lab(CLUSTER, rule, Transport(opened=True), NetworkSpec(foreign=(Foreign(S0, S1, 0.24, 1.2),)))
    lab.attach(0, 0.0, push(15.0))
    seen: dict[int, float] = {}
    while lab.programs:
        lab.step()
        assert lab.engine.ruled is not None
        seen[lab.engine.ruled._slot] = round(float(rules[0].available[NIC]), 6)
    assert [seen[slot] for slot in range(5)] == pytest.approx([10.0] * 5)
    held = [seen[slot] for slot in range(5, 20)]
    assert held.count(5.0) >= 10
    assert set(held) <= {5.0, 10.0}  # looking again once in a window, never pushed below its share
    assert [seen[slot] for slot in seen if slot >= 25] == pytest.approx([10.0] * len([s for s in seen if s >= 25]))


def test_cross_traffic_is_drawn_by_seed_server_and_turn() -> None:
    """Every 2 s each server sends to another, for 0.2 to 2 s (section VI-A)."""
    network = NetworkSpec(cross_traffic=CrossTraffic(2.0, 0.2, 2.0))
    others, again, other = (Others(CLUSTER, network, seed, Transport()) for seed in (3, 3, 4))
    assert len(others.bytes) == 4
    lengths, targets = [], set()
    for turn in range(200):
        for server in range(4):
            drawn = others.drawn(server, turn)
            assert drawn == again.drawn(server, turn)
            assert drawn.when_s == 2.0 * turn
            assert drawn.path[0] == CLUSTER.topology.route(server, (server + 1) % 4)[0]  # out of its own NIC
            targets.add((server, drawn.path))
            lengths.append(drawn.end_s - drawn.when_s)
    assert len(targets) == 12
    assert 0.2 <= min(lengths) < 0.3
    assert 1.9 < max(lengths) <= 2.0
    assert [other.drawn(0, t) for t in range(9)] != [others.drawn(0, t) for t in range(9)]


def test_cross_traffic_is_the_same_whatever_ours_do() -> None:
    """Who sends whereto, and when, is no matter of pace; how much comes through is."""
    network, seen = NetworkSpec(cross_traffic=CrossTraffic(0.5, 0.05, 0.5)), []
    for pace in (Flow(), Equal()):
        lab = Lab(CLUSTER, rule_of(pace), pace.transport(), network, seed=5)
        lab.attach(0, 0.0, push(20.0))
        there: list[tuple[float, tuple[int, ...]]] = []
        while lab.engine.now < 2.0:
            lab.step(2.0)
            if lab.others._job_rows.keys() and (not there or there[-1][1] != tuple(sorted(lab.others._job_rows))):
                there.append((lab.engine.now, tuple(sorted(lab.others._job_rows))))
        seen.append({when for when, _ in there if when % 0.5 == 0.0})
        assert lab.others.bytes.sum() > 0.0
    assert seen[0] == seen[1]


JOBS = jobs_on(TREE.topology.route, st.floats(0.05e9, 0.6e9), 4)
THEIRS = st.lists(
    st.builds(
        lambda pair, start, length, rate: Foreign(NAMES[pair[0]], NAMES[pair[1]], start, start + length, rate),
        st.permutations(range(4)), st.floats(0.0, 1.0), st.floats(0.05, 2.0),
        st.sampled_from([0.1e9, 0.5e9, math.inf]),
    ),
    max_size=4,
)  # fmt: skip
CROSS = st.sampled_from([None, CrossTraffic(0.5, 0.05, 0.5), CrossTraffic(1.0, 0.2, 1.0, 0.3e9)])


@pytest.mark.parametrize("name", PACES)
@given(JOBS, THEIRS, CROSS)
@settings(max_examples=examples(6), deadline=None)
def test_beside_others(name: str, jobs: list[Job], theirs: list[Foreign], cross: CrossTraffic | None) -> None:
    """No link above its capacity, theirs counted; nobody ahead of those that feed it; all of our bytes, and theirs no
    faster than they ask."""
    pace = PACES[name]()
    network = NetworkSpec(foreign=tuple(theirs), cross_traffic=cross)
    lab = Lab(TREE, rule_of(pace), pace.transport(), network, seed=1)
    for uid, (flows, compute_s, n) in enumerate(jobs):
        lab.attach(uid, compute_s, flows, min(n, 3))
    asked = [f.bytes_per_s for f in theirs]
    while lab.programs:
        assert lab.engine.now < 600.0, "stuck"
        lab.step(600.0)
        check_physics(lab.engine, lab.programs)
        for link in {int(TREE.topology.route(a, b)[0]) for a in range(4) for b in range(4) if a != b}:
            for uid, (rate, _) in lab.engine.on_link(link).items():
                if FOREIGN <= uid < FOREIGN + len(asked):
                    assert rate <= asked[uid - FOREIGN] * (1 + 1e-9)
    lab.others.end_all(lab.engine)
    ours = carried_bytes([(flows, 0.0, min(n, 3)) for flows, _, n in jobs], len(TREE.topology.capacity))
    carried = lab.engine.links()["bytes"]
    nics = sorted({TREE.topology.route(a, b)[0] for a in range(4) for b in range(4) if a != b})
    assert carried[nics].sum() == pytest.approx(ours[nics].sum() + lab.others.bytes.sum())
    assert (carried >= ours * (1 - 1e-9)).all()


def test_a_program_of_one_transfer_counts_its_bytes() -> None:
    """`sent_bytes`: 3 bytes an iteration at 2 bytes/s, seen after 4 s: two iterations, and 2 bytes of a third."""
    engine = Engine(spec_of(None, np.array([2.0])))
    row = engine.attach(0, make_program([transfer_node(0, 3.0, [(0, 1)])], engine.spec.capacity), 9)
    engine.run(4.0)
    assert engine.sent_bytes(row) == pytest.approx(8.0)


@pytest.mark.parametrize("every_s", [2.0, 0.7, 0.3, 0.1])
def test_cross_traffic_without_a_pause_never_pauses(every_s: float) -> None:
    """Every turn lasts as long as the turns are apart: the end of one must not stop the next, whatever is rounded."""
    network = NetworkSpec(cross_traffic=CrossTraffic(every_s, every_s, every_s))
    capacity = CLUSTER.topology.capacity
    engine = Engine(EngineSpec(capacity, np.ones(len(capacity), np.bool_), skip=False))
    others = Others(CLUSTER, network, 1, Transport())
    while engine.now < 60 * every_s:
        if others.next_s <= engine.now:
            others.change(engine)
        if others.next_s > engine.now + 1e-9:  # an end may come a bit in the last place before the next start
            assert len(others._job_rows) == len(CLUSTER.servers)
        engine.run(others.next_s)
