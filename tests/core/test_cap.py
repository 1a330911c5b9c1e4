from dataclasses import replace

from weft.core.cycle import Core
from weft.core.loop import run
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def stops(most: int, window_s: float = 1e9) -> list[str]:
    """Who gave way: twenty long jobs run, and a job of `greedy` that claims to be short comes every second."""
    long = [replace(toy_job(f"long{i}", 1, 1000), user=f"u{i}") for i in range(4)]
    short = [replace(toy_job(f"s{i}", 1, 50, submit_s=1.0 + i), user="greedy") for i in range(4)]
    world = ToyWorld(toy_cluster(1, 1, 4), [*long, *short])
    stack = resolve("srsf-preemptive")
    if most:
        stack.planner.cap_preemptions(most, window_s)
    core = Core(stack, world)
    seen: list[str] = []

    def look(now: float, core: Core) -> None:
        seen.extend(
            j.id for j in core.table.jobs.values() if j.id.startswith("long") and j.preemptions and j.id not in seen
        )

    run(core, world, 20.0, look)
    return seen


def test_without_a_cap_everybody_gives_way() -> None:
    assert len(stops(0)) == 4


def test_a_user_has_no_more_than_the_cap() -> None:
    assert len(stops(2)) == 2
    assert len(stops(1)) == 1


def test_what_is_long_ago_does_not_count() -> None:
    assert len(stops(1, window_s=1.5)) >= 2
