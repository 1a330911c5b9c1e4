"""tight: the closest place or waiting for it while that pays; ranks dealt; machines kept for whoever is overdue."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.table import Table
from weft.core.view import View
from weft.errors import StackError
from weft.model import Hold, Start
from weft.model.events import Submitted
from weft.model.job import Job
from weft.model.plan import State
from weft.place.base import Answer
from weft.place.pattern import HD, bytes_across, kind_of, pattern_of
from weft.place.tight import Tight
from weft.stacks import resolve
from weft.testing import ToyWorld, check_place, toy_cluster, toy_job

GB = 1e9


@pytest.mark.parametrize("text", [None, "ring"])
def test_conforms(text: str | None) -> None:
    check_place(lambda: Tight.from_text(text), range(4))


def ask(busy: list[int], job: Job, now: float = 0.0) -> tuple[Answer, View]:
    """What a job is answered on 2 racks of 3 servers of 4 GPUs, some of them busy."""
    cluster = toy_cluster(2, 3, 4)
    table = Table(cluster)
    for gpu in busy:
        table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
    table.take(Submitted(0.0, job))
    view = View(table, ToyWorld(cluster, []), 0)
    view.move_to(now, 1)
    place = Tight()
    return place.place(view, table.jobs[job.id], job.gpus, table.gpus.offer, place.initial_state()), view


def servers(answer: Answer, view: View) -> list[int]:
    assert answer.gpus is not None
    return sorted(set(view.cluster.server_of_gpu[list(answer.gpus)].tolist()))


def test_the_tightest_machine() -> None:
    """Free: 4, 3, 2 on the first rack; 4, 4, 4 on the second. Two GPUs go where just two are left."""
    answer, view = ask([4, 8, 9], toy_job("a", 2, 10, 1.0, GB))
    assert servers(answer, view) == [2]
    assert answer.reason == "closest place: on one machine"


def test_the_fewest_machines_of_one_rack_before_fewer_to_spare_elsewhere() -> None:
    """Eight GPUs: two whole machines of the second rack, though the first has 9 free GPUs and less to spare."""
    answer, view = ask([4, 8, 9], toy_job("a", 8, 10, 1.0, GB))
    assert servers(answer, view) == [3, 4]


def test_it_waits_for_as_long_as_closer_saves_and_no_longer() -> None:
    """Two GPUs free on each of two servers; a job of 4 sends 1.25 GB in an iteration at 10 Gbit/s: by the estimate of
    the world an iteration takes longer there than on one machine. With n iterations left the difference, n times, is
    how long it waits; then it takes what there is."""
    busy = [g for g in range(24) if g not in (0, 1, 4, 5)]
    job = toy_job("a", 4, 40, 1.0, 1.25e9)
    answer, view = ask(busy, job)
    from weft.model.view import Spread

    longer = view.estimate(job, 4, Spread(2, 1)).iteration_s - view.estimate(job, 4, Spread()).iteration_s
    assert longer > 0
    assert answer.gpus is None
    assert answer.ask_again_s == pytest.approx(40 * longer)
    assert answer.reason == "declines 4 GPUs on 2 machines in one rack: waits for 4 on one machine while that may pay"
    before, _ = ask(busy, job, 40 * longer - 0.1)
    assert before.gpus is None
    after, view = ask(busy, job, 40 * longer + 0.1)
    assert servers(after, view) == [0, 1]
    assert after.reason.startswith("closer would not pay")


def test_a_job_that_sends_nothing_does_not_wait() -> None:
    answer, view = ask([g for g in range(24) if g not in (0, 1, 4, 5)], toy_job("a", 4, 40, 1.0))
    assert servers(answer, view) == [0, 1]


def starts_of(jobs: list[Job], stack: str, place: str) -> tuple[dict[str, float], float]:
    """When jobs first start on one rack of two servers of 2 GPUs, and when `big` is done."""
    world = ToyWorld(toy_cluster(1, 2, 2), jobs)
    core = Core(resolve(stack, place=place), world)
    done: list[float] = []
    core.table.on_end = lambda job: done.append(world.now()) if job.id == "big" else None
    run(core, world)
    starts: dict[str, float] = {}
    for _, t, d in core.journal.entries:  # type: ignore[attr-defined]
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


def test_who_would_share_links_with_others_waits_for_longer() -> None:
    """GPUs 0, 1, 4 and 5 are free, as above, and a job over servers 0 and 1 sends over their links for half of its
    time: beside it, the job of 4 would take turns with it, and it with the job, so both count."""
    assert _gain((0, 1, 4, 5), (2, 6)) > 1.5 * _gain((0, 1, 4, 5))


def test_links_between_racks_are_shared_by_all_who_cross() -> None:
    """Free are two GPUs of server 0 and two of server 3, in the other rack. A job on servers 1 and 4 crosses the racks
    too, on other machines; one on servers 1 and 2 stays in its rack and is not met."""
    free = (0, 1, 12, 13)
    assert _gain(free, (4, 16)) > 1.5 * _gain(free)
    assert _gain(free, (4, 8)) == _gain(free)


def test_how_long_sharing_links_makes_a_job_wait() -> None:
    """An iteration takes 1 s alone and 2 s on two machines, 1 s of it sending; 40 are left: 40 s by itself. Each sender
    (100 iterations of 2 s, 1 s of it sending) adds 40 x 1 s x 1/2 to the job; and the job costs it, over the 80 s that
    both would be there, so in 40 iterations, 1 s x 1/2 each: 40 s more for each sender."""
    free = (0, 1, 4, 5)
    assert _gain(free) == pytest.approx(40.0)
    assert _gain(free, (2, 6)) == pytest.approx(80.0)
    assert _gain(free, (2, 6), (3, 7)) == pytest.approx(120.0)


def _gain(free: tuple[int, ...], *senders: tuple[int, ...]) -> float:
    """Until when a job of 4 GPUs waits for a closer place than these, beside jobs that send between two GPUs."""
    cluster = toy_cluster(2, 3, 4)
    table = Table(cluster)
    for gpu in range(24):
        if gpu not in (*free, *(gpu for sender in senders for gpu in sender)):
            table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
    for i, sender in enumerate(senders):
        table.take(Submitted(0.0, toy_job(f"sender{i}", 2, 100, 1.0, 1.25e9)))
        table.starting(f"sender{i}", sender, None)
    job = toy_job("a", 4, 40, 1.0, 1.25e9)
    table.take(Submitted(0.0, job))
    view = View(table, ToyWorld(cluster, []), 0)
    view.move_to(0.0, 1)
    place = Tight()
    answer = place.place(view, table.jobs["a"], 4, table.gpus.offer, place.initial_state())
    assert answer.ask_again_s is not None
    return answer.ask_again_s


def test_ranks_are_dealt_out() -> None:
    """Eight ranks on two machines send K across by halving-doubling, each exchange counted once; in plain order 4 K."""
    job = toy_job("a", 8, 10, 1.0, GB)
    answer, view = ask([], job)
    assert answer.gpus is not None
    pattern = pattern_of(kind_of(job.profiles[8], HD))
    assert bytes_across(pattern, view.cluster.server_of_gpu[list(answer.gpus)].tolist()) == pytest.approx(1.0)
    assert bytes_across(pattern, view.cluster.server_of_gpu[sorted(answer.gpus)].tolist()) == pytest.approx(4.0)


def late(now: float, *lengths_s: float) -> tuple[State, View, Table]:
    """The memory of `tight` at a moment at which jobs of these lengths, on 4 GPUs each, have waited since 0."""
    cluster = toy_cluster(1, 2, 4)
    table = Table(cluster)
    for i, length_s in enumerate(lengths_s):
        table.take(Submitted(0.0, toy_job(f"j{i}", 4, round(length_s))))
    view = View(table, ToyWorld(cluster, []), 0)
    view.move_to(now, 1)
    place = Tight()
    return place.observe(view, (), place.initial_state()), view, table


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


def test_everybody_is_told_why_it_waits_and_state_can_be_saved() -> None:
    jobs = [toy_job(f"j{i}", 1 + i % 8, 5 + i, 1.0, 2e8, submit_s=i % 5) for i in range(24)]
    world = ToyWorld(toy_cluster(2, 2, 4), jobs)
    core = Core(resolve("srsf-preemptive", place="tight"), world)
    run(core, world, until=20.0)
    core = Core.restore(json.loads(json.dumps(core.snapshot())), core.stack, world)
    core.paced = True
    run(core, world)
    assert all(d.reason for _, _, d in core.journal.entries if isinstance(d, Hold))


def test_parameter() -> None:
    assert Tight.from_text("ring").name == "tight:ring"
    with pytest.raises(StackError, match="there is no such collective"):
        Tight.from_text("rong")
