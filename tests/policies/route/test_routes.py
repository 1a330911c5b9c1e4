"""What route policies do on links, against equations; and what cannot go with them.

Two racks of `n` servers under `spines` spines, every link of 1.25e9 bytes/s. Job i has a worker in each rack, on
servers of its own: alone an iteration is `COMPUTE_S` and 1e8 bytes each way, 0.08 s.
"""

from collections import Counter
from fractions import Fraction
from itertools import count

import pytest

from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.plan import Parts
from weft.model.routes import Flow, RouteView
from weft.network.collectives import FINEST, flows_of
from weft.network.collectives.routed import in_parts
from weft.network.cost import TierTable
from weft.network.topologies import Machine, leaf_spine
from weft.policies.interleave.base import NoInterleave
from weft.policies.pace.base import Pace
from weft.policies.route.adaptive import Adaptive
from weft.policies.route.base import Route
from weft.policies.route.load import Floats
from weft.results.run import RunResult
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.stacks.registry import make
from weft.testing.probes import Fixed
from weft.testing.toy import toy_job

COMPUTE_S, SEND_S = 0.25, 0.08
ALONE_S = COMPUTE_S + SEND_S


def fabric(n: int, spines: int, seed: int = 0) -> Cluster:
    """Two racks; uplinks are as fast as NICs where there are as many spines as servers in a rack."""
    return leaf_spine(2, n, Machine(1, 10.0), spines=spines, oversubscription=n / spines, seed=seed)


def run(
    cluster: Cluster, route: str | Route, n: int, iterations: int = 10, pace: str | Pace = "fair", exact: bool = True,
    later_s: float = 0.0,
) -> RunResult:  # fmt: skip
    """n jobs, each so much later than the one before."""
    half = len(cluster.servers) // 2
    jobs = [toy_job(f"j{i}", 2, iterations, COMPUTE_S, 1e8, i * later_s) for i in range(n)]
    chosen = make("route", route) if isinstance(route, str) else route
    paced = make("pace", pace) if isinstance(pace, str) else pace
    stack = Stack("check", Fixed({f"j{i}": (i, i + half) for i in range(n)}), NoInterleave(), paced, chosen)
    return simulate(cluster, jobs, stack, NetworkSpec(), RunSpec(exact=exact))


def seconds(result: RunResult) -> list[float]:
    """Mean iteration of each job."""
    return [float(end) / int(n) for end, n in result.jobs.select("finish_s", "iterations").iter_rows()]


def flows(cluster: Cluster, n: int) -> list[tuple[Flow, ...]]:
    """The two flows of each job."""
    half = len(cluster.servers) // 2
    profile = toy_job("j", 2, 1, COMPUTE_S, 1e8).profile
    return [flows_of(profile, (i, i + half), cluster, "ring", i) for i in range(n)]


def colliding(n: int, spines: int) -> Cluster:
    """A cluster under whose hash two jobs meet on an uplink."""
    for seed in count():
        cluster = fabric(n, spines, seed)
        router = cluster.topology.router
        first, second = ([router.number(f.src, f.dst, f.key) for f in each] for each in flows(cluster, 2))
        if any(a == b for a, b in zip(first, second, strict=True)):
            return cluster
    raise AssertionError


def test_hashes_that_collide_and_paths_that_do_not() -> None:
    """Both send at once on one uplink: half the rate, so 0.25 + 0.16 s; on a path of its own each is as if alone."""
    cluster = colliding(2, 2)
    assert seconds(run(cluster, "ecmp", 2)) == pytest.approx([COMPUTE_S + 2 * SEND_S] * 2, rel=1e-9)
    for route in ("least-loaded", "least-loaded:bytes", "spray"):
        assert seconds(run(cluster, route, 2)) == pytest.approx([ALONE_S] * 2, rel=1e-9), route
    assert seconds(run(cluster, "ecmp", 1)) == pytest.approx([ALONE_S], rel=1e-9)


def test_spray_over_fewer_spines_than_jobs() -> None:
    """Five jobs and three spines, each uplink as fast as a NIC: x is raised until 5 x / 3 = C, so that sending takes
    5/3 times as long."""
    cluster = leaf_spine(2, 5, Machine(1, 10.0), spines=3, oversubscription=5 / 3)
    got = seconds(run(cluster, "spray", 5))
    assert got == pytest.approx([COMPUTE_S + SEND_S * 5 / 3] * 5, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_queue_pairs_in_equal_parts(seed: int) -> None:
    """A flow in eight parts, p of them on its fullest uplink, is as fast as x p / 8 = C of that uplink lets it be, or
    as its NIC."""
    cluster = fabric(4, 2, seed)  # an uplink is twice a NIC
    narrow = leaf_spine(2, 4, Machine(1, 10.0), spines=8, oversubscription=4.0, seed=seed)  # 1/8 of a NIC
    router = narrow.topology.router
    (mine,) = flows(narrow, 1)
    worst = max(
        Fraction(max(Counter(router.number(f.src, f.dst, f.key, lane) for lane in range(8)).values()), 8) for f in mine
    )
    assert seconds(run(cluster, "ecmp:8", 1)) == pytest.approx([ALONE_S], rel=1e-9)
    assert seconds(run(narrow, "ecmp:8", 1)) == pytest.approx([COMPUTE_S + SEND_S * float(8 * worst)], rel=1e-9)


def test_bytes_of_all_paths() -> None:
    """What links carry is what jobs send, over four links each way, however a flow is divided."""
    for route in ("ecmp", "ecmp:8", "spray", "least-loaded", "adaptive:every=70ms"):
        result = run(fabric(4, 3), route, 4, iterations=7)
        assert float(result.links["bytes"].sum()) == pytest.approx(4 * 7 * 2 * 4 * 1e8, rel=1e-9), route


def test_adaptive_moves_in_mid_flight() -> None:
    """It looks at 0.3 s, when both have sent for 0.05 s at half rate, and one moves. What is left goes at full rate,
    in 0.055 s. From then on both are as if alone."""
    result = run(colliding(2, 2), "adaptive:every=300ms", 2, iterations=4)
    first = 0.3 + (SEND_S - 0.025)
    assert result.jobs["finish_s"].to_list() == pytest.approx([first + 3 * ALONE_S] * 2, rel=1e-9)
    moved = [row for row in result.decisions.iter_rows(named=True) if row["action"] == "route"]
    assert len(moved) == 1
    assert moved[0]["time_s"] == pytest.approx(0.3)


def test_adaptive_looks_only_while_flows_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone a job is never looked at, whatever the interval. When another comes at 2 s and both meet, adaptive looks at
    2.1 s and at every 0.1 s from then on, until one has moved; with links of their own nobody is looked at again."""
    looks, moved = [], Adaptive._moved

    def noted(self: Adaptive, view: RouteView, carried: Floats) -> dict[str, tuple[Parts, ...]]:
        looks.append(view.now)
        return moved(self, view, carried)

    monkeypatch.setattr(Adaptive, "_moved", noted)
    result = run(colliding(2, 2), "adaptive:every=100ms", 1, iterations=20)
    assert seconds(result) == pytest.approx([ALONE_S], rel=1e-9)
    assert looks == []
    run(colliding(2, 2), "adaptive:every=100ms", 2, iterations=20, later_s=2.0)
    assert looks == pytest.approx([2.0 + 0.1 * (i + 1) for i in range(len(looks))])
    assert 1 <= len(looks) <= 5


def test_estimates_with_split_flows() -> None:
    """With estimates on, many sprayed jobs take as long as exactly."""
    exact, guessed = (
        run(leaf_spine(2, 5, Machine(1, 10.0), spines=3, oversubscription=5 / 3), "spray", 5, 400, exact=exact)
        for exact in (True, False)
    )
    assert seconds(guessed) == pytest.approx(seconds(exact), rel=0.02)


def test_priorities_over_chosen_paths() -> None:
    """Levels and routes of one path go together: the later job has what the first leaves, once both are in step."""
    cluster = colliding(2, 2)
    slow = seconds(run(cluster, "ecmp", 2, 40, pace="priority"))
    fast = seconds(run(cluster, "adaptive:every=70ms", 2, 40, pace="priority"))
    assert min(slow) == pytest.approx(ALONE_S, rel=1e-6)
    assert fast[1] < slow[1]


@pytest.mark.parametrize(("route", "pace"), [("spray", "flow"), ("ecmp:8", "fair-flows"), ("adaptive", "flow")])
def test_what_paces_cannot_go_with(route: str, pace: str) -> None:
    """A pace that sets rates of single flows."""
    with pytest.raises(StackError, match=route):
        run(fabric(2, 2), route, 2, pace=pace)


def test_networks_without_paths() -> None:
    """k-way sharing and cost models know no links, ideal sharing no limits."""
    stack = Stack("check", Fixed({"j0": (0, 2)}), route=make("route", "spray"))
    table = TierTable({})
    for network in (NetworkSpec(sharing="k-way"), NetworkSpec(sharing="ideal"), NetworkSpec(cost=table)):
        with pytest.raises(StackError, match="spray"):
            simulate(fabric(2, 2), [toy_job("j0", 2)], stack, network)


def test_parts_are_whole_and_complete() -> None:
    """Whatever shares a policy gives, the parts of a flow sum to the whole of it."""
    for shares in ([1 / 3] * 3, [0.1, 0.2, 0.7], [1 / 7] * 7, [0.999999999, 1e-9], [1.0]):
        counts = in_parts(tuple(enumerate(shares)), FINEST)
        assert sum(counts) == FINEST
        assert counts == pytest.approx([share * FINEST for share in shares], abs=1.0)
