import json
from dataclasses import replace

import numpy as np
import pytest

from testkit.toys import decided, played
from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.table import Table
from weft.core.view import View
from weft.model import Hold, Start
from weft.model.events import Finished, NodeDown, NodeUp, Started, Stopped, Submitted
from weft.model.job import Job
from weft.model.plan import State
from weft.policies.place.tight import Tight
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def starts_of(jobs: list[Job], stack: str, place: str, *down: NodeDown) -> tuple[dict[str, float], float]:
    """When jobs first start on one rack of two servers of 2 GPUs, and when `big` is done."""
    world = ToyWorld(toy_cluster(1, 2, 2), jobs, script=down)
    core = Core(resolve(stack, place=place), world)
    done: list[float] = []
    core.table.on_end = lambda job: done.append(world.now()) if job.id == "big" else None
    run(core, world)
    starts: dict[str, float] = {}
    for t, d in decided(core):
        if isinstance(d, Start):
            starts.setdefault(d.job, t)
    return starts, done[0]


def test_machines_are_kept_for_whoever_is_overdue() -> None:
    """`big` (4 GPUs, 30 s) comes at 1; small ones of one GPU and 40 s come every 10 s until 1,190 s and would keep at
    least one GPU busy for ever. When big has waited for 10 times its 30 s, at 301 or after, no small one is put where
    big will be, so it starts when those that run are done, at 350 at the latest."""
    jobs = [toy_job("big", 4, 30, submit_s=1.0), *(toy_job(f"s{i:03}", 1, 40, submit_s=10.0 * i) for i in range(120))]
    assert starts_of(jobs, "fifo-backfill", "tight")[0]["big"] <= 350.0
    assert starts_of(jobs, "fifo-backfill", "best-fit")[0]["big"] > 1190.0


def test_a_preemptive_order_does_not_starve_a_large_job() -> None:
    """The same under shortest remaining service first, preemptive, with 38 s for small ones: each has less left to do
    than big (120 GPU seconds), and goes before it. Big waits for 300 s, then for those that run (38 s), and once it
    has started nobody takes its GPUs: it is done 30 s later, at 1 + 300 + 10 + 38 + 30 = 379 at the latest (a small one
    that starts within 10 s of the moment at which big is seen to be overdue is waited for). Without, it is done after
    the last small one has come."""
    jobs = [toy_job("big", 4, 30, submit_s=1.0), *(toy_job(f"s{i:03}", 1, 38, submit_s=10.0 * i) for i in range(120))]
    assert starts_of(jobs, "srsf-preemptive", "tight")[1] <= 379.0
    assert starts_of(jobs, "srsf-preemptive", "best-fit")[1] > 1190.0


def late(now: float, *lengths_s: float) -> tuple[State, View, Table]:
    """The memory of `tight` at a moment at which jobs of these lengths, on 4 GPUs each, have waited since 0."""
    view, table = waiting(*(toy_job(f"j{i}", 4, round(length_s)) for i, length_s in enumerate(lengths_s)))
    return kept_at(now, view), view, table


def waiting(*jobs: Job, racks: int = 1) -> tuple[View, Table]:
    """Jobs that wait on racks of two servers of 4 GPUs."""
    cluster = toy_cluster(racks, 2, 4)
    table = Table(cluster)
    for job in jobs:
        table.take(Submitted(job.submit_s, job))
    return View(table, ToyWorld(cluster, []), 0), table


def kept_at(now: float, view: View, state: State | None = None) -> State:
    """The memory of `tight` after a cycle at a moment."""
    view.move_to(now, 1)
    place = Tight()
    return place.observe(view, (), state or place.initial_state())


def test_a_job_is_overdue_after_ten_times_its_own_length() -> None:
    assert late(300.0, 30.0)[0]["kept"] is None
    assert late(300.1, 30.0)[0]["kept"] == {"job": "j0", "servers": [0]}


@pytest.mark.parametrize("lengths_s", [(30.0, 20.0, 29.0), (20.0, 30.0, 29.0), (30.0, 29.0, 20.0)])
def test_of_several_the_one_that_is_longest_overdue_is_protected(lengths_s: tuple[float, ...]) -> None:
    """After 310 s a job of 20 s is overdue since 200 s, those of 29 and 30 s since 290 and 300 s."""
    assert late(310.0, *lengths_s)[0]["kept"]["job"] == f"j{lengths_s.index(20.0)}"


def test_nobody_is_put_on_the_gpus_of_a_protected_job_that_runs() -> None:
    """A preemptive order offers those GPUs as if they were free. Only the protected job itself may have them."""
    state, view, table = late(310.0, 30.0, 25.0)
    protected = state["kept"]["job"]
    assert protected == "j1"
    everything = late(310.0, 30.0, 25.0)[1].offer  # as it was before the protected job had started
    table.starting(protected, (0, 1, 2, 3), None)
    place = Tight()
    answer = place.place(view, table.jobs["j0"], 4, everything, state)
    assert answer.gpus == (4, 5, 6, 7)
    both = everything.without(np.arange(4, 8), view.cluster.server_of_gpu)
    assert place.place(view, table.jobs["j0"], 4, both, state).gpus is None
    assert place.place(view, table.jobs[protected], 4, both, state).gpus == (0, 1, 2, 3)
    unprotected = place.place(view, table.jobs["j0"], 4, both, place.initial_state())
    assert unprotected.gpus == (0, 1, 2, 3)


@pytest.mark.parametrize("stack", ["fifo-backfill", "srsf-preemptive"])
@pytest.mark.parametrize("down", [0, 1])
def test_a_server_that_is_down_is_not_kept(stack: str, down: int) -> None:
    """One of the two servers is down; small jobs of 7 s come every 3 s until 897 s, so that both of the GPUs left are
    always taken. Big (2 GPUs, 30 s) is overdue 300 s after 1 s; this is seen within 3 s, and those that run by then are
    done 7 s later: at 311 s it has started."""
    jobs = [toy_job("big", 2, 30, submit_s=1.0), *(toy_job(f"s{i:03}", 1, 7, submit_s=3.0 * i) for i in range(300))]
    assert starts_of(jobs, stack, "tight", NodeDown(0.0, down, "lost"))[0]["big"] <= 311.0
    assert starts_of(jobs, stack, "best-fit", NodeDown(0.0, down, "lost"))[0]["big"] > 890.0


def test_a_kept_server_that_fails_is_replaced() -> None:
    """Of two equal servers the second is kept; it fails, and the first is kept instead, at the same moment too. With
    both down the job cannot start, and nothing is kept, until one is back."""
    state, view, table = late(310.0, 30.0)
    first, second = state["kept"]["servers"][0], 1 - state["kept"]["servers"][0]
    table.take(NodeDown(310.0, first, "lost"))
    state = kept_at(310.0, view, state)
    assert state["kept"] == {"job": "j0", "servers": [second]}
    table.take(NodeDown(311.0, second, "lost"))
    state = kept_at(311.0, view, state)
    assert state["kept"] is None
    table.take(NodeUp(312.0, first))
    assert kept_at(312.0, view, state)["kept"] == {"job": "j0", "servers": [first]}


def test_who_cannot_run_keeps_nothing() -> None:
    """One server of 4 is down: a job of 8 GPUs is passed over, though it is longest overdue, and one of 4 is protected.
    The same holds for a job whose workers need more memory than a GPU has, and for one that must have 1 worker on each
    of 2 servers; while both servers are up, the latter keeps both."""
    for hopeless in (
        toy_job("a", 8, 1), toy_job("a", 4, 1, memory_bytes=1e12), replace(toy_job("a", 2, 1), per_server=1)
    ):  # fmt: skip
        view, table = waiting(hopeless, toy_job("b", 4, 30))
        up = kept_at(310.0, view)
        assert up["kept"]["job"] == ("a" if hopeless.memory_bytes < 1e12 else "b")
        assert hopeless.per_server == 0 or sorted(up["kept"]["servers"]) == [0, 1]
        table.take(NodeDown(311.0, 0, "lost"))
        assert kept_at(311.0, view)["kept"] == {"job": "b", "servers": [1]}
        assert kept_at(311.0, view, up)["kept"] == {"job": "b", "servers": [1]}


def test_nothing_is_kept_under_an_order_in_which_nobody_passes() -> None:
    """`fifo` asks about nobody behind the first job that does not fit. Machines that are kept for a small one behind a
    big one would be of use to neither. Big comes at 1 and starts when the first job is done, at 100; the small one is
    overdue by then (10 x 1 s), and starts when big is done, at 1,100."""
    jobs = [toy_job("first", 1, 100), toy_job("big", 4, 1000, submit_s=1.0), toy_job("small", 1, 1, submit_s=2.0)]
    jobs += [toy_job("last", 1, 1, submit_s=50.0)]
    for place in ("tight", "dealt:tight"):
        starts, done = starts_of(jobs, "fifo", place)
        assert (starts["big"], starts["small"], done) == (100.0, 1100.0, 1100.0)


def test_a_job_of_unknown_length_may_wait_for_an_hour() -> None:
    """Its number of iterations, 1 (of 1 s), says nothing. The stream of small jobs goes on for 4,500 s, and big starts
    after 3,600 s, at 1 + 3,600 + 10 + 40 = 3,651 s at the latest."""
    big = replace(toy_job("big", 4, 1, submit_s=1.0), known=False)
    jobs = [big, *(toy_job(f"s{i:03}", 1, 40, submit_s=10.0 * i) for i in range(450))]
    assert 3601.0 < starts_of(jobs, "fifo-backfill", "tight")[0]["big"] <= 3651.0


@pytest.mark.parametrize(("ran_s", "may_wait_s"), [(0.0, 3600.0), (100.0, 3600.0), (500.0, 5000.0)])
def test_unknown_length_patience_and_end_of_protection(ran_s: float, may_wait_s: float) -> None:
    """It may wait for an hour, or for ten times as long as it has run. When it runs again, it is protected until it has
    run for as long again, and for an hour at least; then somebody else may be."""
    view, table = waiting(replace(toy_job("a", 4, 1), known=False))
    _ran(table, "a", ran_s)
    now = ran_s + may_wait_s
    assert kept_at(now, view)["kept"] is None
    state = kept_at(now + 0.1, view)
    assert state["kept"]["job"] == "a"
    table.starting("a", (0, 1, 2, 3), None)
    table.take(Started(now, "a"))
    assert kept_at(now + 3599.0, view, state) == state
    assert kept_at(now + 3600.0, view, state)["kept"] is None
    known, table = waiting(toy_job("a", 4, 30))
    table.starting("a", (0, 1, 2, 3), None)
    table.take(Started(now, "a"))
    assert kept_at(now + 1e6, known, state) == state


def test_running_is_not_waiting() -> None:
    """A job of 30 s that has run for 100 s (it lost its work) has waited, in all, for 300 s at 400 s."""
    view, table = waiting(toy_job("a", 4, 30))
    _ran(table, "a", 100.0)
    assert kept_at(400.0, view)["kept"] is None
    assert kept_at(400.1, view)["kept"]["job"] == "a"


def _ran(table: Table, name: str, seconds: float) -> None:
    table.starting(name, (0, 1, 2, 3), None)
    table.take(Started(0.0, name))
    table.take(Stopped(seconds, name, 0))


def test_the_protected_job_changes_once_at_a_moment() -> None:
    """The job of 25 s, 60 s overdue, ends at 310 s. The job of 30 s is overdue too, but machines are kept for it from
    the next moment on."""
    state, view, table = late(310.0, 30.0, 25.0)
    table.starting("j1", (0, 1, 2, 3), None)
    table.take(Started(310.0, "j1"))
    table.take(Finished(310.0, "j1"))
    state = kept_at(310.0, view, state)
    assert state["kept"] is None
    assert kept_at(310.0, view, state) is state
    assert kept_at(310.5, view, state)["kept"]["job"] == "j0"


@pytest.mark.parametrize("most", range(4))
def test_the_machines_nearest_to_being_free_are_kept(most: int) -> None:
    """Of four servers in two racks three have one free GPU each and one has two: that one is kept for a job of 4. For a
    job of 8, which needs a whole rack, it is the rack with three free GPUs, not that with two."""
    for gpus, expected in ((4, {most}), (8, {most, most ^ 1})):
        view, table = waiting(toy_job("a", gpus, 1), racks=2)
        for server in range(4):
            for gpu in view.cluster.servers[server].gpus[2 if server == most else 1 :]:
                table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
        assert set(kept_at(100.0, view)["kept"]["servers"]) == expected


def test_everybody_is_told_why_it_waits_and_state_can_be_saved() -> None:
    jobs = [toy_job(f"j{i}", 1 + i % 8, 5 + i, 1.0, 2e8, submit_s=i % 5) for i in range(24)]
    world = ToyWorld(toy_cluster(2, 2, 4), jobs)
    core = played(world, "srsf-preemptive", place="tight", until=20.0)
    core.planner_state = json.loads(json.dumps(core.planner_state))
    run(core, world)
    assert all(d.reason for _, _, d in core.journal.entries if isinstance(d, Hold))
