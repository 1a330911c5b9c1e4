import json

import pytest

from testkit.toys import moves, played
from weft.core.cycle import Core
from weft.core.loop import run
from weft.errors import StackError
from weft.model import Start, Stop
from weft.policies.order.nw_sens import NetworkSensitive
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def test_a_job_that_has_never_run_goes_first_when_a_lease_ends() -> None:
    """One server of 4 GPUs, leases of 10 s. a runs at 0; b (never run: 0) takes over at 10; then both have 1: b stays
    (a tie), until it is done at 22; a goes on where it was."""
    world = ToyWorld(toy_cluster(1, 1, 4), [toy_job("a", 4, 30), toy_job("b", 4, 12)])
    core = played(world, "dally", order="nw-sens:10")
    assert moves(core) == [
        (0.0, Start, "a"), (10.0, Stop, "a"), (10.0, Start, "b"), (22.0, Start, "a"),
    ]  # fmt: skip
    assert world.now() == 22.0 + 20.0  # the 10 iterations of the first lease were saved


def test_the_one_that_waited_for_the_network_goes_first() -> None:
    """Two servers of 2 GPUs in one rack. `slow` (3 GPUs) computes 1 s and sends for 1 s: Nw_sens 0.5. `quick` (1 GPU)
    has 1. `new` comes at 5 s and runs first when the lease ends at 10 (0); at 20 it has 1, so slow comes before it, and
    quick stays (a tie). Slow has 35 of its 40 iterations left: 70 s."""
    slow = toy_job("slow", 3, 40, 1.0, 1.25e9)
    world = ToyWorld(toy_cluster(1, 2, 2), [slow, toy_job("quick", 1, 100), toy_job("new", 2, 100, submit_s=5.0)])
    core = played(world, "dally-nowait", order="nw-sens:10")
    assert moves(core) == [
        (0.0, Start, "slow"), (0.0, Start, "quick"), (10.0, Stop, "slow"), (10.0, Start, "new"),
        (20.0, Stop, "new"), (20.0, Start, "slow"), (90.0, Start, "new"),
    ]  # fmt: skip


def test_a_lease_of_its_own_ends_when_it_has_lasted() -> None:
    """Two servers of 4 GPUs, leases of 10 s. a starts at 0 and b at 4. c (never run: 0) comes at 5 and takes over at
    10, when a's lease ends; d (0) comes at 11 and takes over at 14, when b's does, and is done at 22. Then a and b have
    1 each: a gave up its lease before b. c has the other server until it is done at 40. Ending together, both leases
    would end at 10."""
    jobs = [toy_job("a", 4, 30), toy_job("b", 4, 22, submit_s=4.0), toy_job("c", 4, 30, submit_s=5.0)]
    world = ToyWorld(toy_cluster(1, 2, 4), [*jobs, toy_job("d", 4, 8, submit_s=11.0)])
    core = played(world, "dally", order="nw-sens:10")
    assert moves(core) == [
        (0.0, Start, "a"), (4.0, Start, "b"), (10.0, Stop, "a"), (10.0, Start, "c"), (14.0, Stop, "b"),
        (14.0, Start, "d"), (22.0, Start, "a"), (40.0, Start, "b"),
    ]  # fmt: skip


def test_of_leases_that_end_at_once_each_is_offered_alone() -> None:
    """Four jobs of one GPU start at 0 on one server of 4; `big` (4 GPUs, never run: 0) comes at 5. When leases end
    together at 10 s it takes all four GPUs; where each lease ends by itself it never sees more than one, and waits
    until the others are done at 40 s: they renew, since nobody wants one GPU."""
    for order, start in (("nw-sens:10", 40.0), ("nw-sens:together@10", 10.0)):
        jobs = [*(toy_job(f"small{i}", 1, 40) for i in range(4)), toy_job("big", 4, 10, submit_s=5.0)]
        core = played(ToyWorld(toy_cluster(1, 1, 4), jobs), "dally", order=order)
        assert [t for t, what, job in moves(core) if job == "big" and what is Start] == [start]


def test_a_timer_that_runs_out_between_ends_of_leases_is_met() -> None:
    """Three servers of 6 GPUs with three jobs of 2 each, one of which is done at 5 s. `wide` (5 GPUs) comes at 6 s and
    waits for one machine for 25 s: 2 GPUs are free on each, and a lease that ends gives up only 2. So it is told to ask
    again at 31 s, when no lease ends (they do at 10, 20, 30, ...) and nobody leaves."""
    jobs = [toy_job(f"j{i}", 2, 5 if i % 3 == 2 else 500) for i in range(9)]
    for order in ("las:10", "nw-sens:10", "fifo:backfill"):
        world = ToyWorld(toy_cluster(1, 3, 6), [*jobs, toy_job("wide", 5, 5, submit_s=6.0)])
        core = played(world, "dally", order=order, place="delay:25/50")
        assert [t for t, what, job in moves(core) if job == "wide" and what is Start] == [31.0], order


def test_leases_that_end_before_one_that_is_awaited_are_not_overlooked() -> None:
    """Three servers of 3 GPUs. Two jobs of 2 GPUs leave one free on each of two servers, where `apart` is; it asks for
    a better place at 10, 20, 30 s, ... Nobody waits until `new` comes at 21 s. `whole` has the third server since 3 s:
    its lease ends at 23 s, before 30 s, and new takes over."""
    jobs = [toy_job("x", 2, 200), toy_job("y", 2, 200), toy_job("apart", 2, 200, 1.0, 1.0)]
    jobs += [toy_job("whole", 3, 200, submit_s=3.0), toy_job("new", 3, 5, submit_s=21.0)]
    core = played(ToyWorld(toy_cluster(1, 3, 3), jobs), "dally-nowait", order="nw-sens:10")
    assert [t for t, what, job in moves(core) if job == "new" and what is Start] == [23.0]


@pytest.mark.parametrize("text", ["together", "together@10", "10"])
def test_names(text: str) -> None:
    assert NetworkSensitive.from_text(text).name == f"nw-sens:{text}"


def test_nobody_is_displaced_in_between() -> None:
    world = ToyWorld(toy_cluster(1, 1, 4), [toy_job("a", 4, 30), toy_job("b", 4, 12, submit_s=5.0)])
    core = played(world, "dally", order="nw-sens:1000")
    assert moves(core) == [(0.0, Start, "a"), (30.0, Start, "b")]


@pytest.mark.parametrize(("stack", "order"), [("dally", "nw-sens:10"), ("tiresias:10", None), ("gandiva:10", None)])
def test_who_comes_in_the_middle_of_a_lease_waits_for_its_end(stack: str, order: str | None) -> None:
    """Nobody waits from 0 to 24 s, so the leases that end at 10 and 20 s are renewed; the next ends at 30 s."""
    world = ToyWorld(toy_cluster(1, 1, 4), [toy_job("a", 4, 100), toy_job("b", 4, 8, submit_s=24.0)])
    core = played(world, stack, **({"order": order} if order else {}))
    assert moves(core) == [(0.0, Start, "a"), (30.0, Stop, "a"), (30.0, Start, "b"), (38.0, Start, "a")]


def test_state_survives_saving() -> None:
    """The same decisions follow whether or not its memory is written down and read again in the middle."""

    def drive(cut_s: float | None) -> list[tuple[float, type, str]]:
        jobs = [toy_job(f"j{i}", 1 + i % 4, 10 + i, 1.0, 2e8, submit_s=i % 7) for i in range(14)]
        world = ToyWorld(toy_cluster(2, 2, 2), jobs)
        core = Core(resolve("dally", order="nw-sens:10"), world)
        if cut_s is not None:
            run(core, world, until=cut_s)
            core.planner_state = json.loads(json.dumps(core.planner_state))
        run(core, world)
        return moves(core)

    whole = drive(None)
    assert len(whole) > 20
    assert drive(15.5) == whole
    assert drive(30.5) == whole


def test_parameter() -> None:
    for text in ("0", "-1", "inf", "together@0", "1e-300", "0.999"):
        with pytest.raises(StackError, match="it takes a number from 1"):
            NetworkSensitive.from_text(text)
    for text in ("together@", "soon", "togethers@5", "moving@staying", "moving@moving"):
        with pytest.raises(
            StackError, match=r"is not known; behind the colon write together, moving\|staying, X|twice"
        ):
            NetworkSensitive.from_text(text)
