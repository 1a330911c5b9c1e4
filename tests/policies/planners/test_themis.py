"""themis: conforms; decision sequences computed by hand (docs/baselines/themis.md)."""

from dataclasses import replace

import pytest

import weft
from testkit.toys import decided, played
from weft.core.cycle import Core
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model import Start, Stop, Submitted
from weft.model.job import Job
from weft.model.plan import Candidate, Plan, State
from weft.model.view import ClusterView, Estimate, Spread
from weft.network.topologies import cassini
from weft.policies.planners.base import Planner
from weft.policies.planners.target import held
from weft.policies.planners.themis import Themis, believed_s
from weft.sim import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import ToyWorld, check_planner, toy_cluster, toy_job
from weft.workload import zoo

FOUR = {"racks": 1, "servers_per_rack": 4, "gpus_per_server": 1}


def test_conforms() -> None:
    check_planner(lambda: Themis(0.5, 60.0), range(2))


def sequence(stack: str, *jobs: object) -> list[tuple[float, str, str, int]]:
    """(time, action, job, GPUs) of every start and stop."""
    world = ToyWorld(toy_cluster(**FOUR), jobs)  # type: ignore[arg-type]
    core = played(world, stack)
    found = []
    for _, time_s, decision in core.journal.entries:  # type: ignore[attr-defined]
        if isinstance(decision, Start | Stop):
            gpus = len(decision.gpus) if isinstance(decision, Start) else 0
            found.append((time_s, type(decision).__name__, decision.job, gpus))
    return [*found, (world.log[-1].time_s, "end", "", 0)]


def placements(stack: str, *jobs: object) -> list[tuple[str, tuple[int, ...]]]:
    """(job, GPUs) of every start."""
    world = ToyWorld(toy_cluster(**FOUR), jobs)  # type: ignore[arg-type]
    core = played(world, stack)
    return [(d.job, d.gpus) for _, d in decided(core) if isinstance(d, Start)]


A = toy_job("a", 1, 10, 4.0, sizes=(1, 2, 4))  # an iteration is 4 / n seconds
B = toy_job("b", 1, 20, 4.0, sizes=(1, 2, 4))


def test_by_hand_everybody_bids() -> None:
    """F = 0. N = 2, shares of 2: both value n GPUs at n/2, so (2, 2); payments halve both, leftovers restore them.
    At 20 s a is done; b, 30 iterations to go, would need 60 s as it is and 30 + 30 s on 4 GPUs: not worth a restart."""
    longer = toy_job("b", 1, 40, 4.0, sizes=(1, 2, 4))
    assert sequence("themis:0", A, longer) == [(0.0, "Start", "a", 2), (0.0, "Start", "b", 2), (80.0, "end", "", 0)]


def test_by_hand_leases_end_at_their_own_times() -> None:
    """Leases of 100 s, F = 0.8; a and c are rigid, b takes 2 or 4.

    0 s: a, waiting, has rho (100 + 20) / 20, b (100 + 300) / 600: a bids and has 2; b has the other 2. 20 s: a is
    done; b takes 2 more (30 + 290 s against 580) until 120 s, keeping the 2 it has until 100 s. 50 s: c waits, no lease
    has ended. 100 s: two leases of b have ended, and c has them (rho 190 / 40 against 310 / 600): b shrinks to the 2
    whose leases run on. 120 s: these end, too; c cannot use them, b has them again and goes on. 140 s: c is done, b
    grows (30 + 190 s against 380). 220 and 240 s: nobody else wants what ends. 330 s: b's last 190 iterations are done.
    """
    jobs = [
        toy_job("a", 2, 10, 2.0, sizes=(2,)),
        toy_job("b", 2, 300, 2.0, sizes=(2, 4)),
        toy_job("c", 2, 20, 2.0, sizes=(2,), submit_s=50.0),
    ]
    assert sequence("themis:0.8,100", *jobs) == [
        (0.0, "Start", "a", 2), (0.0, "Start", "b", 2), (20.0, "Stop", "b", 0), (20.0, "Start", "b", 4),
        (100.0, "Stop", "b", 0), (100.0, "Start", "c", 2), (100.0, "Start", "b", 2),
        (140.0, "Stop", "b", 0), (140.0, "Start", "b", 4), (330.0, "end", "", 0),
    ]  # fmt: skip


def test_a_job_that_grows_keeps_its_workers_and_one_that_shrinks_keeps_running_leases() -> None:
    found = placements("themis:0.8,100", *[
        toy_job("a", 2, 10, 2.0, sizes=(2,)), toy_job("b", 2, 300, 2.0, sizes=(2, 4)),
        toy_job("c", 2, 20, 2.0, sizes=(2,), submit_s=50.0),
    ])  # fmt: skip
    first, grown, shrunk, again = (set(gpus) for job, gpus in found if job == "b")
    (other,) = (set(gpus) for job, gpus in found if job == "c")
    assert first < grown
    assert shrunk == grown - first  # the leases of the first two have ended
    assert other == first
    assert shrunk < again


def test_what_a_job_cannot_run_on_goes_to_others() -> None:
    """b runs on 1 or 3 GPUs. At 100 s one of its three leases has ended, and a's; c and d, who wait, have these two.

    b has two left, can use one, and leaves the other to a. Before, e's 2 GPUs went to b when e was done, at 20 s.
    """
    jobs = [
        toy_job("a", 1, 1000, 1.0, sizes=(1,)),
        toy_job("b", 1, 1000, 3.0, sizes=(1, 3)),
        toy_job("c", 1, 50, 1.0, sizes=(1,), submit_s=50.0),
        toy_job("d", 1, 50, 1.0, sizes=(1,), submit_s=50.0),
        toy_job("e", 2, 10, 2.0, sizes=(2,)),
    ]
    found = sequence("themis:0.8,100", *jobs)
    assert (20.0, "Start", "b", 3) in found
    started = {job: gpus for time_s, what, job, gpus in found if (time_s, what) == (100.0, "Start")}
    assert started == {"a": 1, "b": 1, "c": 1, "d": 1}


def test_an_application_bids_for_all_of_its_jobs() -> None:
    """F = 0. N = 2 applications, shares of 2: x1 and x2 need 40 s alone on 1 GPU each, y 20 s on 2.

    Both value 2 GPUs at 1 and 4 at 2, so they share; each pays half of it; of the 2 left, x2, which has none, has one,
    and y, with rho 2 at one GPU, the other. As three applications of one job y would have had no claim to a second.
    """
    x1, x2, y = (toy_job(name, 1, 10, 4.0, sizes=(1, 2, 4)) for name in ("x1", "x2", "y"))
    found = sequence("themis:0", replace(x1, app="x"), replace(x2, app="x"), y)
    assert {(job, gpus) for time_s, _, job, gpus in found if time_s == 0.0} == {("x1", 1), ("x2", 1), ("y", 2)}


def test_by_hand_the_worst_fifth_bids() -> None:
    """F = 0.8: one bidder, a (rho without GPUs 610/20 against 620/40), takes all four; b follows at 10 s."""
    assert sequence("themis", A, B) == [(0.0, "Start", "a", 4), (10.0, "Start", "b", 4), (30.0, "end", "", 0)]


def test_by_hand_leases_end() -> None:
    """A lease of 5 s: at 5 s a (rho (5 + 5) / 20 with 4 GPUs) is better off than b (rho (5 + 5 + 20) / 40 waiting)."""
    assert sequence("themis:0.8,5", A, B)[:4] == [
        (0.0, "Start", "a", 4), (5.0, "Stop", "a", 0), (5.0, "Start", "b", 4), (10.0, "Stop", "b", 0),
    ]  # fmt: skip


def test_rho_by_hand() -> None:
    world = ToyWorld(toy_cluster(**FOUR), [])
    core = Core(resolve("themis"), world)
    core.step(0.0, [Submitted(0.0, A), Submitted(0.0, B)])
    core.view.move_to(8.0, 2)
    themis = Themis()
    b = core.view.job("b")
    # alone on two GPUs b needs 20 x 2 = 40 s; from 8 s on with 1 GPU 80 s more, waiting for a lease 600 + 20 s
    assert themis.rho(core.view, [b], {"b": 1}) == pytest.approx((8 + 80) / 40)
    assert themis.rho(core.view, [b], {"b": 4}) == pytest.approx((8 + 20) / 40)
    assert themis.rho(core.view, [b], {"b": 0}) == pytest.approx((8 + 600 + 20) / 40)


def test_more_workers_are_believed_to_share_the_work_equally() -> None:
    """serial time / n x S: S knows racks, not numbers, though an all-reduce takes ever longer."""
    jobs = [Job("a", 0.0, 8, 100, {n: zoo.profile("vgg16", n, batch=64 // n, gpu="A100") for n in (1, 2, 8, 16)})]
    world = SimWorld(cassini(), jobs, NetworkSpec(), RunSpec())
    core = Core(resolve("themis"), world)
    core.step(0.0, [Submitted(0.0, jobs[0])])
    serial_s = 8 * jobs[0].profiles[8].compute_s
    assert believed_s(core.view, jobs[0], 1) == pytest.approx(serial_s)
    slow = core.view.estimate(jobs[0], 8, Spread(8, 2)).iteration_s / jobs[0].profiles[8].compute_s
    assert slow > 1.5
    for n in (8, 16):
        assert believed_s(core.view, jobs[0], n) == pytest.approx(slow * serial_s / n)
    near = core.view.estimate(jobs[0], 2, Spread(2, 1)).iteration_s / jobs[0].profiles[2].compute_s
    assert believed_s(core.view, jobs[0], 2) == pytest.approx(near * serial_s / 2)


class Racks(ToyWorld):
    """Over racks a job takes twice as long."""

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        near = super().estimate(job, workers, spread)
        return Estimate(near.iteration_s * (1 + (spread.racks > 1)), near.compute_s)


def test_by_hand_who_can_do_without_a_gpu_leaves_it_to_who_cannot() -> None:
    """Two racks of two servers, F = 0. b, on GPU 0, can use a second; a waits for one; c has GPU 2. Offered: 1 and 3.

    a values both alike. For b, 1 is worth twice as much as 3, which is in the other rack; b would wait for 3 rather
    than have it. So b has 1 and a has 3, although a, the worse off, would be the first to choose if it came to that.
    """
    cluster = toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=1)
    jobs = [
        toy_job("b", 1, 1000, 8.0, sizes=(1, 2)), toy_job("c", 1, 1000, 8.0), toy_job("a", 1, 10, 8.0),
    ]  # fmt: skip
    world = Racks(cluster, jobs)
    there = {"b": (0,), "c": (2,)}
    core = Core(Stack("s", Fixed(there)), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
    core.view.move_to(5.0, 2)
    themis = Themis(0.0)
    state = {**themis.initial_state(), "target": there, "leases": {"b": [600.0], "c": [600.0]}}
    assert themis.propose(core.view, state, 1)[0].plan.placements == {"a": (3,), "b": (0, 1), "c": (2,)}


def test_a_job_that_wins_gpus_keeps_its_workers() -> None:
    """b has GPU 2 and wins one more, c has GPU 3: b has one of the other rack beside its own, not that rack for two."""
    cluster = toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=1)
    world = ToyWorld(cluster, [toy_job("b", 1, 1000, 8.0, sizes=(1, 2)), toy_job("c", 1, 1000, 8.0)])
    there = {"b": (2,), "c": (3,)}
    core = Core(Stack("s", Fixed(there)), world)
    core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
    core.view.move_to(5.0, 2)
    themis = Themis(0.0)
    state = {**themis.initial_state(), "target": there, "leases": {"b": [600.0], "c": [600.0]}}
    assert themis.propose(core.view, state, 1)[0].plan.placements == {"b": (0, 2), "c": (3,)}


def test_candidates_are_plans_over_all_jobs_with_their_restarts() -> None:
    """Two racks of two servers. a has one GPU in each rack, b too; c comes and takes no part, there is no room.

    Plans keep sizes, and no job is further apart. Where a and b both have a rack to themselves, both must restart:
    4 GPUs x 30 s of the 4 x 600 s that are leased, 0.05 of the time. But once jobs are known to stay for a minute only,
    0.5; and where they end in 100 s, no restart is spread over more than that.
    """
    cluster = toy_cluster(racks=2, servers_per_rack=2, gpus_per_server=1)
    across = {"a": (0, 2), "b": (1, 3)}
    for iterations, stays, share in (
        (1000, [5.0, 0.0, 0], 0.05), (1000, [5.0, 3000.0, 59], 0.5), (1000, [0.0, 2990.0, 59], 0.5),
        (100, [5.0, 0.0, 0], 0.3), (100, [5.0, 3000.0, 59], 0.5),
    ):  # fmt: skip
        world = ToyWorld(cluster, [toy_job(name, 2, iterations, 1.0) for name in "ab"])
        core = Core(Stack("s", Fixed(across)), world)
        core.confirm(world.apply(core.step(0.0, world.next_events(0.0))))
        core.view.move_to(5.0, 2)
        themis = Themis()
        leases = {"a": [600.0] * 2, "b": [600.0] * 2}
        state = {**themis.initial_state(), "target": across, "leases": leases, "stays": stays}
        found = themis.propose(core.view, state, 10)  # somebody has gone: state["jobs"] is empty
        shares = {tuple(sorted(c.plan.placements.items())): c.restart_share for c in found}
        assert len(shares) == len(found) > 3
        assert shares[("a", (0, 2)), ("b", (1, 3))] == 0.0
        assert shares[("a", (0, 1)), ("b", (2, 3))] == pytest.approx(share)
        assert found[0].plan.placements == across
        assert all({len(gpus) for gpus in c.plan.placements.values()} == {2} for c in found)


def test_by_hand_how_long_jobs_stay() -> None:
    """The jobs of `test_by_hand_leases_end_at_their_own_times`. By 140 s b has been on GPUs for 140 s, a for 20 s and c
    for 40 s. Five stays have ended: a's and c's, and three of b's, which grew, shrank and grew again. b ends at 330 s.
    """
    jobs = [
        toy_job("a", 2, 10, 2.0, sizes=(2,)),
        toy_job("b", 2, 300, 2.0, sizes=(2, 4)),
        toy_job("c", 2, 20, 2.0, sizes=(2,), submit_s=50.0),
    ]
    core = played(ToyWorld(toy_cluster(**FOUR), jobs), "themis:0.8,100")
    assert core.planner_state["stays"] == [330.0, pytest.approx(140 + 20 + 40 + 190), 6]


def test_no_candidate_spreads_a_job_wider() -> None:
    """Four jobs of three workers on the testbed, each in one rack in the first plan, and so in all ten."""
    cluster = cassini()
    core = Core(resolve("themis"), ToyWorld(cluster, []))
    for i in range(4):
        core.table.take(Submitted(0.0, toy_job(f"j{i}", 3, 100, 1.0, 1e8)))
    core.view.move_to(0.0, 1)
    found = Themis().propose(core.view, Themis().initial_state(), 10)
    assert len(found) == 10
    assert all(Spread.of(cluster, gpus).racks == 1 for c in found for gpus in c.plan.placements.values())


@pytest.mark.parametrize("name", ["themis", "pollux"])
def test_jobs_on_their_way_stay_in_every_candidate(name: str) -> None:
    """Four jobs of three workers have been told to start and have not yet; a fifth comes. No candidate moves them."""
    cluster = cassini()
    world = ToyWorld(cluster, [toy_job(f"j{i}", 3, 100, 1.0, 1e8) for i in range(4)])
    core = Core(resolve(name), world)
    core.step(0.0, world.next_events(0.0))
    core.table.take(Submitted(0.0, toy_job("late", 3, 100, 1.0, 1e8)))
    core.view.move_to(0.0, 2)
    coming = held(core.view)
    assert len(coming) == 4
    found = resolve(name).planner.propose(core.view, core.planner_state, 10)
    assert len({c.plan.placements["late"] for c in found}) > 1
    assert all({job: c.plan.placements[job] for job in coming} == coming for c in found)


@pytest.mark.parametrize(("name", "other"), [("themis", "themis:0.8,1200"), ("pollux", "pollux:10,61")])
def test_another_lease_or_interval_draws_the_same_candidates(name: str, other: str) -> None:
    """What is drawn at random does not depend on a parameter; else a sweep of the parameter would change two things."""
    core = Core(resolve(name), ToyWorld(cassini(), []))
    for i in range(4):
        core.table.take(Submitted(0.0, toy_job(f"j{i}", 3, 100, 1.0, 1e8)))
    core.view.move_to(0.0, 1)
    planners = [resolve(stack).planner for stack in (name, other)]
    ours, others = ([c.plan for c in p.propose(core.view, p.initial_state(), 10)] for p in planners)
    assert len(ours) > 1
    assert ours == others


class Fixed(Planner):
    """These placements, whatever else."""

    name = "fixed"

    def __init__(self, placements: dict[str, tuple[int, ...]]) -> None:
        self.placements = placements

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """One plan."""
        return [Candidate(Plan(self.placements), state)]


@pytest.mark.parametrize("text", ["x", "1", "0.5,0", "-1", "0.5,60,7", "0.5,0.001", "0.5,nan", "0.5,", ""])
def test_parameters(text: str) -> None:
    with pytest.raises(StackError, match=r"not known|takes a (whole )?number|twice"):
        Themis.from_text(text)
    assert Themis.from_text("0.5,60").lease_s == 60.0


def test_leases_no_longer_than_a_restart_are_refused() -> None:
    """Three jobs that cannot run beside each other would stop each other for ever."""
    job = {"model": "vgg16@cassini", "gpus": 20, "iterations": 100}
    jobs = [{"id": name, **job} for name in "abc"]
    scenario = {
        "cluster": {"topology": "cassini"}, "workload": {"source": "jobs", "job": jobs}, "run": {"restart_s": 10.0},
    }  # fmt: skip
    for stack in ("themis:0.8,10", "themis:0.8,2+cassini"):
        with pytest.raises(StackError, match=r"after \S+ s, and a restart takes 10 s, .*; choose a longer time"):
            weft.simulate(scenario, stack=stack)
    assert weft.simulate(scenario, stack="themis:0.8,20").jobs["finish_s"].null_count() == 0
