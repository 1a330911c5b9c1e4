"""The slotted engine beside traffic that is not ours: what every pace keeps to, as properties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.model.flow_set import FlowRows
from weft.model.topologies import build_cluster
from weft.pace.ccml import CcmlRule
from weft.pace.equal import EqualRule
from weft.pace.flow import FlowRule, FlowSpec
from weft.pace.mcs import McsRule
from weft.pace.pcc import PccRule
from weft.pace.rates import RateRule
from weft.pace.tcp import TcpRule, loss_limit
from weft.sim.foreign import Others
from weft.sim.slotted import Iteration, SlottedEngine, SlotView
from weft.sim.spec import CrossTraffic, Foreign

CLUSTER = build_cluster(
    "leaf-spine", racks=2, servers_per_rack=2, gpus_per_server=1, nic_gbps=8.0, oversubscription=1.5, spines=1
)  # servers of 1 GB/s, and leaves that two of them can fill
CAPACITY = CLUSTER.topology.capacity
SERVERS = [server.name for server in CLUSTER.servers]


def _rows(pairs: list[tuple[int, int]], size: float, chunk: float, feed: list[tuple[int, int]],
          after: list[tuple[int, int]]) -> FlowRows:  # fmt: skip
    n = len(pairs)
    paths = tuple(tuple(CLUSTER.topology.route(a, b)) for a, b in pairs)
    src, dst = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return FlowRows(src, dst, paths, (size,) * n, (chunk,) * n, tuple(feed), tuple(after))


def ring(servers: tuple[int, ...], size: float) -> FlowRows:
    n = len(servers)
    pairs = [(servers[i], servers[(i + 1) % n]) for i in range(n)]
    feed = [((i - 1) % n, (i - 1) % n + 1) for i in range(n)]
    after = [((i + 1) % n, (i + 1) % n + 1) for i in range(n)]
    return _rows(pairs, size, size / (2 * (n - 1)), feed, after)


def parameter_server(ps: int, workers: tuple[int, ...], size: float) -> FlowRows:
    n = len(workers)
    pairs = [(w, ps) for w in workers] + [(ps, w) for w in workers]
    return _rows(pairs, size, 0.0, [(0, 0)] * n + [(0, n)] * n, [(n, 2 * n)] * n + [(0, 0)] * n)


SOME = st.permutations(range(4)).flatmap(lambda p: st.integers(2, 4).map(lambda n: tuple(p[:n])))
SIZES = st.floats(0.05e9, 0.6e9)
JOBS = st.lists(
    st.tuples(
        st.one_of(
            st.builds(ring, SOME, SIZES),
            st.builds(lambda servers, size: parameter_server(servers[0], servers[1:], size), SOME, SIZES),
        ),
        st.floats(0.0, 0.4),
        st.integers(1, 3),
    ),
    min_size=1, max_size=4,
)  # fmt: skip
FOREIGN = st.lists(
    st.builds(
        lambda pair, start, length, rate: Foreign(SERVERS[pair[0]], SERVERS[pair[1]], start, start + length, rate),
        st.permutations(range(4)), st.floats(0.0, 1.0), st.floats(0.05, 2.0),
        st.sampled_from([0.1e9, 0.5e9, float("inf")]),
    ),
    max_size=4,
)  # fmt: skip
CROSS = st.sampled_from([None, CrossTraffic(0.5, 0.05, 0.5), CrossTraffic(1.0, 0.2, 1.0, 0.3e9)])
RULES: dict[str, Callable[[], RateRule]] = {
    "flow": FlowRule, "flow late": lambda: FlowRule(FlowSpec(delay_s=0.07, message_loss=0.2)),
    "flow fill": lambda: FlowRule(FlowSpec(fill=True)),
    "flow host-only": lambda: FlowRule(FlowSpec(host_only=True)), "equal": EqualRule, "mcs": McsRule,
    "ccml": CcmlRule, "pcc": PccRule, "tcp": lambda: TcpRule("cubic"),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
@given(JOBS, FOREIGN, CROSS, st.sampled_from([0.0, 0.002]))
@settings(max_examples=10, deadline=None)
def test_beside_others(
    name: str, jobs: list[tuple[FlowRows, float, int]], foreign: list[Foreign], cross: CrossTraffic | None, loss: float
) -> None:
    """No link above its capacity, theirs counted; nobody ahead of those that feed it; all of our bytes, and theirs no
    faster than they ask; and what is planned stays within capacity as long as messages are on time."""
    rule, others = RULES[name](), Others(CLUSTER, foreign, cross, seed=1, packet_loss=loss)
    before = np.zeros(len(others))

    def watch(view: SlotView) -> None:
        engine, flows = view.engine, view.engine.flows
        theirs = (engine.foreign_bytes - before) / rule.slot_s
        before[:] = engine.foreign_bytes
        load = engine._carried / (1.0 - loss)  # what was lost has been on the link too
        asked = {k: (path, rate) for k, path, rate in others.at(view.start_s)}
        for k, rate in enumerate(theirs):
            assert rate <= min(asked[k][1] if k in asked else 0.0, loss_limit("cubic", loss)) * (1 + 1e-9)
            if k in asked:
                load[list(asked[k][0])] += rate
        assert (load <= CAPACITY * (1 + 1e-6)).all()
        for i in view.live:
            feeders = flows.sent[flows.feed0[i] : flows.feed1[i]]
            if len(feeders):
                assert flows.sent[i] <= (flows.chunk[i] + feeders.min()) * (1 + 1e-9) + 1e-3
        if name == "flow":
            assert (rule.table <= CAPACITY[:, None] * (1 + 1e-9)).all()  # type: ignore[attr-defined]
            assert (rule.available <= CAPACITY * (1 + 1e-9)).all()  # type: ignore[attr-defined]

    engine = SlottedEngine(CAPACITY, rule, watch=watch, packet_loss=loss, foreign=others, seed=1)
    for uid, (rows, compute, n) in enumerate(jobs):
        engine.attach(uid, Iteration(compute, 1.0, rows), n)
    finished = 0
    while finished < len(jobs):
        new = engine.run(600.0)
        assert new, f"stuck at {engine.now}"
        finished += len(new)
    expected = np.zeros(len(CAPACITY))
    for rows, _, n in jobs:
        for path, size in zip(rows.paths, rows.size, strict=True):
            expected[list(path)] += n * size
    assert engine.links()["bytes"] == pytest.approx(expected)


def test_one_against_one() -> None:
    """A foreign flow and a push of ours from 0 to 1, for ever: asked for 1 GB/s once in five slots and half of it in
    the others, the NIC gives each half of it in all of them."""
    got: list[tuple[float, float]] = []
    asks: list[float] = []

    def watch(view: SlotView) -> None:
        got.append((float(view.engine.flows.rate[1]), float(view.engine.foreign_bytes[0])))
        asks.append(float(view.asked[1]))

    others = Others(CLUSTER, [Foreign(SERVERS[0], SERVERS[1])])
    engine = SlottedEngine(CAPACITY, FlowRule(), watch=watch, foreign=others)
    engine.attach(0, Iteration(0.0, 1.0, parameter_server(1, (0,), 3e9)), 1)
    engine.run(2.0)
    ours, theirs = np.array(got[:12]).T
    assert ours == pytest.approx(np.full(12, 0.5e9))
    assert np.diff(theirs, prepend=0.0) / 0.06 == pytest.approx(np.full(12, 0.5e9))
    assert asks[:12] == pytest.approx([1e9, *[0.5e9] * 4, 1e9, *[0.5e9] * 4, 1e9, 0.5e9])
