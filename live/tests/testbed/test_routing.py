"""Paths on a testbed: two jobs whose hashes collide, and the same jobs on paths of their own."""

from itertools import count

import pytest

from live.tests.testbed.needs import need_testbed
from weft.core.stack import Stack
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.profile import Phase, Profile
from weft.network.topologies import Machine, leaf_spine
from weft.policies.interleave.base import NoInterleave
from weft.policies.pace.admission import Fair
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.stacks.registry import make
from weft.testing.probes import Fixed
from weft_live.testbed.build import Links
from weft_live.testbed.plan import blueprint
from weft_live.testbed.routing import choose, forwarding
from weft_live.testbed.trials import Job as Trial
from weft_live.testbed.trials import Settings, trial

SCALE = 125.0
PROFILE = Profile.from_phases("steady", [Phase(0.05), Phase(bytes=1.25e9)], 2)  # 50 ms, and 0.4 s on a NIC
JOBS: list[Trial] = [("a", PROFILE, (0, 2)), ("b", PROFILE, (1, 3))]
WHAT = [("a", PROFILE, (0, 2)), ("b", PROFILE, (1, 3))]


def colliding() -> Cluster:
    """Two racks under two spines; an uplink is one and a half times as fast as a NIC, and in both directions the hashes
    of the two jobs meet on one."""
    for seed in count():
        cluster = leaf_spine(2, 2, Machine(nic_gbps=25.0), spines=2, oversubscription=2 / 3, seed=seed)
        paths = choose(cluster, WHAT, make("route", "ecmp"))
        if {*paths[0, 2]} & {*paths[1, 3]} and {*paths[2, 0]} & {*paths[3, 1]}:
            return cluster
    raise AssertionError


def simulated(cluster: Cluster, route: str, n: int) -> float:
    """Seconds of an iteration when the first n jobs run."""
    jobs = [Job(f"j{i}", 0.0, 2, 20, {2: PROFILE}) for i in range(n)]
    plan = Fixed({f"j{i}": (i, i + 2) for i in range(n)})
    stack = Stack("check", plan, NoInterleave(), Fair(), make("route", route))
    return float(simulate(cluster, jobs, stack, NetworkSpec(), RunSpec()).jobs["finish_s"][0]) / 20


def test_paths_apart() -> None:
    """What switches do is what was chosen: each host is reached over the spine of its flow."""
    cluster = colliding()
    plan = blueprint(cluster, SCALE)
    links = cluster.topology.links
    for route in ("ecmp", "least-loaded"):
        chosen = choose(cluster, WHAT, make("route", route))
        table = forwarding(plan, cluster, chosen)
        for (src, dst), path in chosen.items():
            at, walked = plan.host(src).name, []
            while at != plan.host(dst).name:
                onwards = table.get((at, plan.host(dst).mac), links[path[0]].dst)
                walked.append((at, onwards))
                at = onwards
            assert walked == [(links[k].src, links[k].dst) for k in path]
    spines = {links[path[1]].dst for path in choose(cluster, WHAT, make("route", "least-loaded")).values()}
    assert len(spines) == 2


@pytest.mark.parametrize("route", ["spray", "adaptive"])
def test_what_a_testbed_cannot_carry_out(route: str) -> None:
    """Parts of a flow, and paths that change while jobs run."""
    with pytest.raises(InputError, match=route):
        choose(colliding(), WHAT, make("route", route))


def test_two_ways_to_one_host() -> None:
    """Switches forward by destination."""
    cluster = colliding()
    first, second = (cluster.topology.router.path(src, 2, i) for i, src in enumerate((0, 1)))
    with pytest.raises(InputError, match="s2"):
        forwarding(blueprint(cluster, SCALE), cluster, {(0, 2): first, (1, 2): second})


@pytest.mark.testbed
@pytest.mark.alone
def test_collision_on_real_links() -> None:
    """Together the jobs take as many times longer as simulated, within 10 %; on paths of their own they are as if
    alone."""
    need_testbed()
    cluster = colliding()
    alone, together, apart = (simulated(cluster, *how) for how in (("ecmp", 1), ("ecmp", 2), ("least-loaded", 2)))
    assert together / alone == pytest.approx(1.3, abs=0.02)
    assert apart == pytest.approx(alone, rel=1e-9)
    outcome = trial(cluster, blueprint(cluster, SCALE), Links(), JOBS, Settings(20, route="least-loaded"))
    for row in outcome.jobs().values():
        assert row["alone_s"] == pytest.approx(alone, rel=0.1)
        assert row["together_times"] == pytest.approx(together / alone, rel=0.1)
        assert row["routed_times"] == pytest.approx(apart / alone, rel=0.1)
