import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from testkit.draws import examples
from testkit.toys import Move, decided, moves, played
from weft.core.cycle import Core
from weft.core.loop import run
from weft.errors import StackError
from weft.model import Start, Stop
from weft.model.job import Job
from weft.model.view import Spread
from weft.network.topologies import Machine, leaf_spine
from weft.policies.order.weft import BOUND, LEAST_BOUND_S, Weft
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def under(stack: str, jobs: list[Job], **more: Any) -> list[Move]:
    return moves(played(ToyWorld(toy_cluster(), jobs, **more), stack))


@pytest.mark.parametrize("text", ["", "elastic", "rigid,rigid,rigid"])
def test_unknown_parameters_are_refused(text: str) -> None:
    with pytest.raises(StackError, match=r"is not known|twice"):
        Weft.from_text(text)


def test_a_running_job_gives_way_only_if_that_pays_for_its_restart() -> None:
    """At 5 s `long` has 95 s left and a restart is taken to cost 30 s: it gives way to 64 s, not to 66 s."""
    for short_s, stops in ((64, True), (66, False)):
        jobs = [toy_job("long", 16, 100), toy_job("short", 16, short_s, submit_s=5.0)]
        assert ((5.0, Stop, "long") in under("weft", jobs)) == stops


@pytest.mark.parametrize(("soon_s", "stops"), [(40, False), (129, False), (131, True)])
def test_nobody_gives_way_to_a_job_that_would_wait_for_less_than_they_lose(soon_s: int, stops: bool) -> None:
    """`new` needs 100 s on the 8 GPUs that `soon` will leave. Who stops for it loses these and a restart of 30 s."""
    jobs = [toy_job("soon", 8, soon_s), toy_job("long", 8, 1000), toy_job("new", 8, 100, submit_s=1e-3)]
    found = under("weft", jobs)
    assert ((1e-3, Stop, "long") in found) == stops
    assert ((float(soon_s), Start, "new") in found) == (not stops)


@pytest.mark.parametrize(("second_s", "stops"), [(79, True), (81, False)])
def test_who_waits_behind_another_waits_for_that_one_too(second_s: int, stops: bool) -> None:
    """`soon` leaves 8 GPUs after 60 s and `first` then has them for 50 s, so `second` would wait for 110 s."""
    jobs = [toy_job("soon", 8, 60), toy_job("long", 8, 1000)]
    jobs += [toy_job(name, 8, n, submit_s=1e-3) for name, n in (("first", 50), ("second", second_s))]
    assert ((1e-3, Stop, "long") in under("weft", jobs)) == stops


def test_a_higher_priority_takes_gpus_whether_that_pays_or_not() -> None:
    jobs = [toy_job("low", 16, 10), replace(toy_job("high", 16, 1000, submit_s=5.0), priority=1)]
    assert (5.0, Stop, "low") in under("weft", jobs)


def test_what_a_job_sends_counts_as_service() -> None:
    """`quiet` computes for longer than `loud`, but `loud` must send 1 GB in each iteration, over two servers."""
    jobs = [toy_job("all", 16, 10)]
    jobs += [toy_job("loud", 16, 10, message_bytes=1e9, submit_s=1.0), toy_job("quiet", 16, 11, submit_s=2.0)]
    starts = [job for _, what, job in under("weft[place=best-fit]", jobs) if what is Start]
    assert starts == ["all", "quiet", "loud"]


def test_one_that_cannot_resume_never_gives_way() -> None:
    jobs = [replace(toy_job("long", 16, 1000), resumes=False), toy_job("short", 16, 1, submit_s=5.0)]
    assert under("weft", jobs) == [(0.0, Start, "long"), (1000.0, Start, "short")]


def test_unknown_lengths_give_way_at_doublings() -> None:
    """Two jobs of unknown length on all GPUs: `b` comes at 10 s, and `a` gives way when it has run for 2 minutes and is
    expected to run for 2 more, less 30 s for its restart: more than the minute that `b` is expected to need."""
    jobs = [replace(toy_job(name, 16, 300, submit_s=at), known=False) for name, at in (("a", 0.0), ("b", 10.0))]
    assert under("weft", jobs)[:3] == [(0.0, Start, "a"), (120.0, Stop, "a"), (120.0, Start, "b")]


def test_a_job_near_its_bound_goes_first_and_stays() -> None:
    """Short jobs come every 50 s for two hours and would always pass `big`; nine tenths of an hour after its submission
    it goes first, and is not stopped again."""
    small = [toy_job(f"s{i}", 16, 50, submit_s=50.0 * i) for i in range(144)]
    found = under("weft[place=best-fit]", [*small, toy_job("big", 16, 100, submit_s=1.0)])
    assert [m for m in found if m[2] == "big"] == [(0.9 * LEAST_BOUND_S + 1.0, Start, "big")]


def test_a_bound_counts_what_a_job_sends() -> None:
    """`big` computes for 100 s and sends for 200 s in all, so its bound is 20 x 300 s."""
    small = [toy_job(f"s{i}", 16, 50, submit_s=50.0 * i) for i in range(144)]
    big = toy_job("big", 16, 100, message_bytes=2e9, submit_s=1.0)
    found = under("weft[place=best-fit]", [*small, big], bytes_per_s=1e9)
    assert next(m for m in found if m[2] == "big") == (pytest.approx(0.9 * 20 * 300 + 1.0), Start, "big")


def test_priorities_come_first_and_the_bound_holds_among_equals() -> None:
    """`high` gives way to short jobs of its own priority, and to none of a lower one: not to `late`, which is shorter,
    nor to `low`, which has waited for longer than its bound. Among those two `low` is due, so it goes first."""
    high = [replace(toy_job("high", 16, 5000), priority=1)]
    high += [replace(toy_job(f"s{i}", 16, 50, submit_s=2.0 + i), priority=1) for i in range(3)]
    low = [toy_job("low", 16, 100, submit_s=2.0), toy_job("late", 16, 10, submit_s=4990.0)]
    starts = [(t, job) for t, what, job in under("weft[place=best-fit]", [*high, *low]) if what is Start]
    short = [(2.0, "s0"), (52.0, "s1"), (102.0, "s2")]
    assert starts == [(0.0, "high"), *short, (152.0, "high"), (5150.0, "low"), (5250.0, "late")]


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 600), st.integers(0, 4000)), min_size=5, max_size=40
    ),
    st.booleans(),
)
def test_nobody_waits_beyond_the_bound_while_later_ones_have_its_gpus(
    drawn: list[tuple[int, int, int]], known: bool
) -> None:
    """Whenever a job starts, no job that has waited beyond its bound and came before it could have had those GPUs."""
    jobs = [
        replace(toy_job(f"j{i}", gpus, 10 * length, submit_s=float(at)), known=known)
        for i, (gpus, length, at) in enumerate(drawn)
    ]
    world = ToyWorld(toy_cluster(), jobs)
    core = Core(resolve("weft", place="best-fit"), world)
    late: list[str] = []

    def look(now: float, core: Core) -> None:
        for job in core.table.waiting.values():
            waited_s = now - job.job.submit_s - job.run_s
            length_s = job.job.compute_s if known else job.run_s
            if waited_s > max(LEAST_BOUND_S, BOUND * length_s):
                later = sum(
                    len(other.gpus) for other in core.table.running.values() if other.job.submit_s > job.job.submit_s
                )
                front = core.planner_state["order"]["front"]
                ahead = [core.table.jobs[name] for name in front if name in core.table.jobs]
                first = sum(len(a.gpus) for a in ahead if a.job.submit_s <= job.job.submit_s)
                if later and 16 - first >= job.job.gpus:
                    late.append(job.id)

    run(core, world, on_progress=look)
    assert not late


def test_elastic_jobs_share_out_the_cluster() -> None:
    """Two alike jobs that computing alone limits have half of it each; when one is gone, the other has all it may."""
    jobs = [toy_job(name, 4, n, sizes=(1, 2, 4, 8, 16)) for name, n in (("a", 1000), ("b", 3000))]
    core = played(ToyWorld(toy_cluster(), jobs), "weft")
    starts = [(t, d.job, len(d.gpus)) for t, d in decided(core) if isinstance(d, Start)]
    assert starts == [(0.0, "a", 8), (0.0, "b", 8), (500.0, "b", 16)]


def test_a_resize_that_does_not_pay_is_not_made() -> None:
    """When `a` is gone `b` has 20 s left on 8 GPUs; 16 would save 10 s, less than a restart costs."""
    jobs = [toy_job(name, 4, n, sizes=(1, 2, 4, 8, 16)) for name, n in (("a", 1000), ("b", 1040))]
    assert [m for m in under("weft", jobs) if m[1] is Stop] == []


def test_a_job_that_meets_others_between_racks_moves_when_a_closer_place_is_free() -> None:
    """The demo, busier and with short restarts: each job that moves leaves for fewer racks or fewer machines."""
    demo = tomllib.loads((Path(__file__).parents[3] / "examples" / "demo.toml").read_text())
    demo["run"]["restart_s"], demo["workload"]["load"] = 5, 1.1
    result = weft.simulate(demo, stack="weft", seed=3)
    moved = result.decisions.filter(result.decisions["reason"].str.starts_with("closer together; placed anew"))
    assert len(moved) > 0
    cluster = leaf_spine(4, 4, Machine(gpus_per_server=4))  # as the demo's
    for job, at in moved.select("job_id", "time_s").iter_rows():
        spans = result.spans.filter(result.spans["job_id"] == job).sort("start_s")
        before = spans.filter(spans["start_s"] < at)["gpus"].to_list()[-1]
        after = spans.filter(spans["start_s"] >= at)["gpus"].to_list()[0]
        old, new = (Spread.of(cluster, tuple(gpus)) for gpus in (before, after))
        assert (new.racks, new.servers) < (old.racks, old.servers)
