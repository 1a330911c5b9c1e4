from dataclasses import replace

import pytest

from weft.core.occupancy import Draft
from weft.core.table import Table
from weft.core.view import View
from weft.errors import StackError
from weft.model.events import Started, Stopped, Submitted
from weft.model.job import Job
from weft.model.view import Estimate, Spread
from weft.policies.place.base import Answer
from weft.policies.place.pattern import HD, bytes_across, kind_of, pattern_of
from weft.policies.place.tight import Tight
from weft.testing import ToyWorld, toy_cluster, toy_job

GB = 1e9


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
    both would be there, so in 40 iterations, 1 s x 1/2 each: 40 s more for each sender. A sender of which 10 iterations
    are left is there for 20 s only: the job costs it 10 x 1/2 = 5 s, and 40 + 20 + 5 = 65."""
    free = (0, 1, 4, 5)
    assert _gain(free) == pytest.approx(40.0)
    assert _gain(free, (2, 6)) == pytest.approx(80.0)
    assert _gain(free, (2, 6), (3, 7)) == pytest.approx(120.0)
    assert _gain(free, (2, 6), iterations=10) == pytest.approx(65.0)


def test_a_sender_of_unknown_length_is_expected_to_stay_as_long_again() -> None:
    """Its number of iterations, 1, says nothing. It has done 10, so 10 more are expected: 65 s, as above."""
    assert _gain((0, 1, 4, 5), (2, 6), iterations=1, done=10, known=False) == pytest.approx(65.0)


def test_a_sender_that_is_about_to_leave_is_not_met() -> None:
    """The offer has the sender's GPUs, because it gives way: 40 s for the job alone, not 80."""
    assert _gain((0, 1, 4, 5), (2, 6), leaves=True) == pytest.approx(40.0)


def _gain(
    free: tuple[int, ...], *senders: tuple[int, ...], iterations: int = 100, done: int = 0, known: bool = True,
    leaves: bool = False,
) -> float:  # fmt: skip
    """Until when a job of 4 GPUs waits for a closer place than these, beside jobs that send between two GPUs."""
    cluster = toy_cluster(2, 3, 4)
    table = Table(cluster)
    for gpu in range(24):
        if gpu not in (*free, *(gpu for sender in senders for gpu in sender)):
            table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
    for i, sender in enumerate(senders):
        name = f"sender{i}"
        table.take(Submitted(0.0, replace(toy_job(name, 2, iterations, 1.0, 1.25e9), known=known)))
        if done:
            table.starting(name, sender, None)
            table.take(Started(0.0, name))
            table.take(Stopped(0.0, name, done))
        table.starting(name, sender, None)
    job = toy_job("a", 4, 40, 1.0, 1.25e9)
    table.take(Submitted(0.0, job))
    view = View(table, ToyWorld(cluster, []), 0)
    view.move_to(0.0, 1)
    draft = Draft(cluster, table.gpus.offer)
    for sender in senders if leaves else ():
        draft.leave(sender, 0.0)
    place = Tight()
    answer = place.place(view, table.jobs["a"], 4, draft.offer, place.initial_state())
    assert answer.ask_again_s is not None
    return answer.ask_again_s


class BySpread(ToyWorld):
    """A world in which an iteration takes as many seconds as are given for a number of servers and racks."""

    seconds: dict[tuple[int, int], float]

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        return Estimate(self.seconds[spread.servers, spread.racks], 1.0)


@pytest.mark.parametrize(("racks_s", "expected"), [(2.5, {0, 8}), (3.5, {4, 5, 6})])
def test_one_rack_or_fewer_machines_whichever_makes_iterations_shorter(racks_s: float, expected: set[int]) -> None:
    """Free: 2, 2, 2, 1 in the first rack, 2, 2, 2, 0 in the second, 4, 0, 0, 0 in the third; 6 GPUs. The fewest
    machines are two, in two racks; in one rack it takes three, and an iteration 3 s. Of the two racks that have room
    the one with 6 free GPUs has less to spare than that with 7."""
    free = [2, 2, 2, 1, 2, 2, 2, 0, 4, 0, 0, 0]
    seconds = {(2, 1): 1.0, (3, 1): 3.0, (2, 2): racks_s}
    answer = _moves(free, (), toy_job("a", 6, 10), seconds, racks=3, per_rack=4, now=100.0)
    assert answer.gpus is not None
    assert {gpu // 4 for gpu in answer.gpus} == expected


@pytest.mark.parametrize(("left", "moves"), [(60, False), (61, True)])
def test_moving_gains_twice_what_it_costs(left: int, moves: bool) -> None:
    """A job on two machines, 2 s an iteration, is offered one machine, 1 s. A restart costs 30 s, so that 60 iterations
    gain 60 s, which is not more than twice 30."""
    answer = _moves([2, 2, 4], (0, 1, 4, 5), toy_job("a", 4, left), {(1, 1): 1.0, (2, 1): 2.0})
    assert answer.gpus == ((8, 9, 10, 11) if moves else (0, 1, 4, 5))


def test_a_job_moves_to_the_closest_place_only() -> None:
    """On three machines (3 s an iteration) it is offered two others (2 s): though 1,000 s would be gained, it stays,
    because there is a closer place still, one machine, to which it would have to move again."""
    seconds = {(1, 1): 1.0, (2, 1): 2.0, (3, 1): 3.0}
    answer = _moves([2, 1, 1, 2, 2], (0, 1, 4, 8), toy_job("a", 4, 1000), seconds, per_rack=5)
    assert answer.gpus == (0, 1, 4, 8)


def _moves(
    free: list[int], own: tuple[int, ...], job: Job, seconds: dict[tuple[int, int], float], racks: int = 1,
    per_rack: int = 3, now: float = 0.0,
) -> Answer:  # fmt: skip
    """What a job is answered that is on GPUs of its own, or waits; with those, so many are free on servers of 4."""
    cluster = toy_cluster(racks, per_rack, 4)
    table = Table(cluster)
    table.take(Submitted(0.0, job))
    for server, n in enumerate(free):
        for gpu in cluster.servers[server].gpus[n:]:
            table.gpus.enter(f"other{gpu}", (gpu,), 0.0)
    offer = table.gpus.offer
    if own:
        offer = Draft(cluster, offer).copy().offer
        table.starting(job.id, own, None)
    world = BySpread(cluster, [])
    world.seconds = seconds
    view = View(table, world, 0)
    view.move_to(now, 1)
    place = Tight()
    return place.place(view, table.jobs[job.id], job.gpus, offer, place.initial_state())


def test_ranks_are_dealt_out() -> None:
    """Eight ranks on two machines send K across by halving-doubling, each exchange counted once; in plain order 4 K."""
    job = toy_job("a", 8, 10, 1.0, GB)
    answer, view = ask([], job)
    assert answer.gpus is not None
    pattern = pattern_of(kind_of(job.profiles[8], HD))
    assert bytes_across(pattern, view.cluster.server_of_gpu[list(answer.gpus)].tolist()) == pytest.approx(1.0)
    assert bytes_across(pattern, view.cluster.server_of_gpu[sorted(answer.gpus)].tolist()) == pytest.approx(4.0)


def test_parameter() -> None:
    assert Tight.from_text("ring").name == "tight:ring"
    with pytest.raises(StackError, match="not known"):
        Tight.from_text("rong")
