from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.toys import decided
from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.model import Decision, Event, Finished, NodeDown, NodeUp, Start, Withdrawn
from weft.model.view import JobStatus
from weft.stacks import STACKS, resolve
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.testing.check_policies import OneOfThree

LAYERS = [
    *({"name": name} for name in STACKS),
    {"name": "srsf-preemptive", "place": "random:shared"},
    {"name": "fifo-backfill", "place": "first-fit:shared"},
    {"name": "sjf", "place": "even:best-fit"},
]


class Guarded(ToyWorld):
    """A toy world that looks after its GPUs itself: no GPU has two jobs (or too much memory) at any time."""

    shared, n_jobs = False, 0

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        known = super().apply(decisions)
        memory = np.zeros(self.cluster.n_gpus)
        jobs = np.zeros(self.cluster.n_gpus, dtype=int)
        for assignment in self._assigned.values():
            memory[list(assignment.gpus)] += assignment.job.profiles[len(assignment.gpus)].memory_bytes
            jobs[list(assignment.gpus)] += 1
            assert not self._down & {int(self.cluster.server_of_gpu[g]) for g in assignment.gpus}
        assert memory.max() <= self.cluster.gpu_memory_bytes
        assert self.shared or jobs.max() <= 1
        return known


@st.composite
def worlds(draw: st.DrawFn) -> Guarded:
    cluster = toy_cluster(draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    largest = len(cluster.servers[0].gpus)  # fits anywhere, evenly too, whichever server is lost
    jobs = [
        toy_job(
            f"j{i}", draw(st.integers(1, largest)), draw(st.integers(1, 12)), draw(st.sampled_from([0.0, 0.5, 1.0])),
            draw(st.sampled_from([0.0, 1e9])), float(draw(st.integers(0, 8))), draw(st.sampled_from([1e9, 9e9])),
            checkpoint_every=draw(st.sampled_from([1, 3])),
        )
        for i in range(draw(st.integers(1, 14)))
    ]  # fmt: skip
    script: list[NodeDown | NodeUp | Withdrawn] = []
    for server in draw(st.lists(st.integers(0, len(cluster.servers) - 1), max_size=3)):
        down = float(draw(st.integers(0, 10)))
        script += [NodeDown(down, server), NodeUp(down + draw(st.integers(1, 10)), server)]
    for i in draw(st.lists(st.integers(0, len(jobs) - 1), max_size=2)):
        script.append(Withdrawn(float(draw(st.integers(0, 12))), f"j{i}"))
    slow, failing = draw(st.sampled_from([(0.0, 0.0), (0.0, 0.3), (1.0, 0.0), (1.0, 0.3)]))
    world = Guarded(cluster, jobs, latency_s=slow, failure_rate=failing, seed=draw(st.integers(0, 9)), script=script)
    world.n_jobs = len(jobs)
    return world


@given(worlds(), st.sampled_from(LAYERS), st.booleans())
def test_every_job_ends_and_no_gpu_is_given_twice(world: Guarded, layers: dict[str, str], several: bool) -> None:
    stack = resolve(**layers)
    world.shared = stack.planner.shares_gpus
    if several:
        stack = Stack(stack.name, stack.planner, OneOfThree())
    core = Core(stack, world)
    run(core, world)
    assert not core.table.jobs
    assert len(core.table.ended) == world.n_jobs
    assert core.table.gpus.offer.n_free == int(core.table.gpus.offer.usable.sum())
    finished = [event.job for event in world.log if isinstance(event, Finished)]
    assert len(finished) == len(set(finished))
    assert set(finished) == {job for job, status in core.table.ended.items() if status is JobStatus.FINISHED}


@settings(max_examples=examples(25))
@given(st.integers(0, 30), st.sampled_from(LAYERS))
def test_one_seed_one_result(number: int, layers: dict[str, str]) -> None:
    from weft.testing.toy import workload

    runs = []
    for _ in range(2):
        world = workload(number).world(uneven=layers.get("place") != "even:best-fit")
        core = Core(resolve(**layers), world, seed=number)
        run(core, world)
        runs.append((core.journal.entries, world.log))  # type: ignore[attr-defined]
    assert runs[0] == runs[1]


def test_another_seed_another_result() -> None:
    placed = []
    for seed in range(2):
        world = ToyWorld(toy_cluster(), [toy_job("a", 5)])
        core = Core(resolve("srsf-random"), world, seed=seed)
        run(core, world)
        placed.append([d.gpus for _, d in decided(core) if isinstance(d, Start)])
    assert placed[0] != placed[1]
