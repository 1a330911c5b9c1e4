"""Foreign flows and packet loss: who gets how much of a link that is shared with others, and what loss costs whom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.sim.test_slotted import servers
from weft.errors import ScenarioError, StackError
from weft.model.topologies import build_cluster
from weft.pace.equal import EqualRule
from weft.pace.flow import FlowRule
from weft.pace.rates import RateRule
from weft.pace.tcp import TcpRule
from weft.sim.foreign import Others
from weft.sim.slotted import Iteration, SlottedEngine, SlotView
from weft.sim.spec import CrossTraffic, Foreign

CLUSTER = build_cluster("single-switch", servers=4, nic_gbps=8e-8)  # 10 bytes/s
S0, S1 = (server.name for server in CLUSTER.servers[:2])


def play(
    rule: RateRule, others: Others | None, size: float, iterations: int = 1, compute: float = 0.0
) -> SlottedEngine:
    """A push from server 0 to 1 and its broadcast, again and again."""
    engine = SlottedEngine(CLUSTER.topology.capacity, rule, foreign=others)
    rows = servers(1, (0,), size)
    paths = tuple(CLUSTER.topology.route(a, b) for a, b in zip(rows.src, rows.dst, strict=True))
    rows = type(rows)(rows.src, rows.dst, paths, rows.size, rows.chunk, rows.feed, rows.next)
    engine.attach(0, Iteration(compute, 1.0, rows), iterations)
    while engine.run(1e4):
        pass
    return engine


@pytest.mark.parametrize("make", [EqualRule, FlowRule, lambda: TcpRule("cubic")])
def test_a_foreign_flow_gets_its_share_and_so_do_we(make: type[RateRule]) -> None:
    """Section VI-F: one of ours and one of theirs on a NIC of 10 bytes/s, for long: five each, as between TCP flows."""
    engine = play(make(), Others(CLUSTER, [Foreign(S0, S1)]), 60.0)
    slots = engine.events and round(engine.finish_s(0) / engine.rule.slot_s)
    assert engine.finish_s(0) == pytest.approx(12.0, rel=0.03)
    assert engine.foreign_bytes[0] == pytest.approx(5.0 * slots * engine.rule.slot_s, rel=0.03)


def test_the_share_rule() -> None:
    """A link that denied us something in the last 4 slots is ours as far as we got through it (section IV-C)."""
    seen: list[float] = []
    rule = FlowRule()
    others = Others(CLUSTER, [Foreign(S0, S1, start_s=0.24, end_s=1.2)])
    engine = SlottedEngine(CLUSTER.topology.capacity, rule, foreign=others)
    nic = CLUSTER.topology.route(0, 1)[0]

    def watch(view: SlotView) -> None:
        seen.append(float(rule.available[nic]))

    engine.watch = watch
    rows = servers(1, (0,), 15.0)
    paths = tuple(CLUSTER.topology.route(a, b) for a, b in zip(rows.src, rows.dst, strict=True))
    engine.attach(0, Iteration(0.0, 1.0, type(rows)(rows.src, rows.dst, paths, *(
        rows.size, rows.chunk, rows.feed, rows.next))), 1)  # fmt: skip
    engine.run(10.0)
    assert seen[:4] == pytest.approx([10.0] * 4)
    assert 5.0 in np.round(seen[5:20], 6)  # held to what it got
    assert set(np.round(seen[5:19], 6)) <= {5.0, 10.0}  # looking again once in a window, never pushed below its share
    assert seen[30:] == pytest.approx([10.0] * len(seen[30:]))  # the foreign flow is gone


def test_short_transfers_are_not_pushed_out() -> None:
    """Transfers of less than a slot carry little; that is no reason to believe that there is no more to be had."""
    alone = play(FlowRule(), None, 0.4, iterations=40, compute=0.05)
    beside = play(FlowRule(), Others(CLUSTER, [Foreign(S0, S1)]), 0.4, iterations=40, compute=0.05)
    assert beside.finish_s(0) <= 2.1 * alone.finish_s(0)
    late = beside.records()["duration"]
    assert late[-5:].mean() <= late[:5].mean() * 1.2


def test_a_modest_foreign_flow_leaves_the_rest() -> None:
    engine = play(FlowRule(), Others(CLUSTER, [Foreign(S0, S1, bytes_per_s=2.0)]), 60.0)
    assert engine.finish_s(0) == pytest.approx(60.0 / 8.0, rel=0.05)
    assert engine.foreign_bytes[0] == pytest.approx(2.0 * engine.finish_s(0), rel=0.05)


def test_cross_traffic_is_drawn_by_seed_server_and_turn() -> None:
    """Every 2 s each server sends to another, for 0.2 to 2 s (section VI-A)."""
    drawn = CrossTraffic(2.0, 0.2, 2.0)
    others = Others(CLUSTER, (), drawn, seed=3)
    assert len(others) == 4
    lengths, targets = [], set()
    for turn in range(200):
        now = {row: path for row, path, _ in others.at(2.0 * turn)}
        assert sorted(now) == [0, 1, 2, 3]
        for row, path in now.items():
            assert path[0] == CLUSTER.topology.route(row, (row + 1) % 4)[0]  # out of its own NIC
            targets.add((row, path))
        lengths.append(others._turn(0, turn).end_s - 2.0 * turn)
    assert len(targets) == 12
    assert 0.2 <= min(lengths) < 0.3
    assert 1.9 < max(lengths) <= 2.0
    again, other = Others(CLUSTER, (), drawn, seed=3), Others(CLUSTER, (), drawn, seed=4)
    assert list(again.at(100.1)) == list(others.at(100.1))
    assert [list(other.at(2.0 * t)) for t in range(9)] != [list(others.at(2.0 * t)) for t in range(9)]


SCENE: dict[str, Any] = {
    "cluster": {"topology": "single-switch", "servers": 3, "nic_gbps": 25.0, "gpu_memory_gb": 32.0},
    "workload": {
        "source": "jobs", "job": [{"model": "vgg16[parallel=parameter-server]", "gpus": 3, "iterations": 12}],
    },
    "stack": {"order": "fifo", "place": "first-fit"},
}  # fmt: skip


def speed(pace: str, **network: Any) -> float:
    run = weft.simulate({**SCENE, "network": network}, pace=pace)
    return 1.0 / float(run.iterations["duration_s"].mean())  # type: ignore[arg-type]


def test_loss_ruins_reno_and_cubic_only() -> None:
    """Figure 10: at 0.2 % CUBIC and Reno train VGG16 62 % slower; the scheduler loses what is sent again, no more."""
    for pace in ("tcp:cubic", "tcp:reno"):
        assert speed(pace, packet_loss=0.002) < 0.5 * speed(pace), pace
    for pace in ("flow", "tcp:bbr"):
        assert speed(pace, packet_loss=0.002) > 0.95 * speed(pace), pace
        assert speed(pace, packet_loss=0.01) > 0.9 * speed(pace), pace
    assert speed("flow", packet_loss=0.01) > 2.0 * speed("tcp:cubic", packet_loss=0.01)


def test_scenarios_with_others() -> None:
    clean = speed("flow")
    assert speed("flow", foreign=[{"src": "s0", "dst": "s1"}]) < 0.95 * clean
    assert speed("flow", cross_traffic={}) < clean
    assert speed("flow", foreign=[{"src": "s0", "dst": "s1", "start_s": 1e6}]) == clean
    for key, value in (("packet_loss", 0.01), ("foreign", [{"src": "s0", "dst": "s1"}]), ("cross_traffic", {})):
        with pytest.raises(
            StackError, match=f"network.{key} is simulated with a pace that sets rates, and fair sets none"
        ):
            weft.simulate({**SCENE, "network": {key: value}}, pace="fair")


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"packet_loss": 1.0}, "network.packet_loss is 1.0; give less than 1"),
        ({"foreign": [{"src": "s0"}]}, r"network.foreign\[0\].dst is missing; add it"),
        ({"foreign": [{"src": "s0", "dst": "s0"}]}, r"network.foreign\[0\].dst is \"s0\", where the flow comes from"),
        ({"foreign": [{"src": "s0", "dst": "s11"}]}, r"dst is \"s11\", which is no server; did you mean s1"),
        ({"foreign": [{"src": "s0", "dst": "s1", "start_s": 2, "end_s": 1}]}, r"foreign\[0\].end_s is 1, not after"),
        ({"cross_traffic": {"seconds": [2.0, 3.0]}}, r"network.cross_traffic.seconds is \[2, 3\]; give two numbers"),
        ({"cross_traffic": {}, "sharing": "k-way"}, "network.cross_traffic has a meaning only with cost"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(network: dict[str, Any], words: str) -> None:
    with pytest.raises(ScenarioError, match=words) as caught:
        weft.simulate({**SCENE, "network": network}, pace="flow")
    assert "\n" not in str(caught.value)
