"""Small random simulations, and an engine that keeps account of what was attached to it."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from weft.core.stack import Stack
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Gate
from weft.model.profile import Compute, Profile, Transfer
from weft.model.view import ClusterView
from weft.network.topologies import Machine, leaf_spine, rails
from weft.policies.pace.base import Admission, Pace
from weft.policies.planners.base import Planner
from weft.results.run import RunResult
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.sim.engine import Engine, EngineSpec, Usage
from weft.sim.engine.program import Program
from weft.stacks import resolve
from weft.testing import toy_job


class Held(Pace):
    """A given admission rule."""

    name = "held"
    holds_back = True

    def __init__(self, rule: Admission) -> None:
        self.rule = rule

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """The rule."""
        return self.rule


class Together(Planner):
    """Every job at once on the first GPUs, whoever else is there."""

    name = "together"
    shares_gpus = True

    def propose(self, view: ClusterView, state: dict[str, Any], n: int) -> list[Any]:
        """The plan."""
        from weft.model.plan import Candidate, Plan

        jobs = [*view.running, *view.waiting]
        placements = {job: tuple(range(view.job(job).job.gpus)) for job in jobs}
        return [Candidate(Plan(placements), state)]


@dataclass
class Books:
    """What the engines of a run were asked to do, and what they answered."""

    engines: list[Engine] = field(default_factory=list)
    stays: list[tuple[int, Program, Usage]] = field(default_factory=list)

    def bounds(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bytes that every link must, and may, have carried: full iterations, and one more of each stopped stay."""
        engine = self.engines[-1]
        least, most = np.zeros(len(engine.spec.capacity)), np.zeros(len(engine.spec.capacity))
        for _, program, usage in self.stays:
            for spec in program.specs:
                for k, n in spec.links:
                    least[k] += usage.iterations * spec.amount * n
                    most[k] += (usage.iterations + (usage.finish_s <= 0)) * spec.amount * n
        return least, most


def watch(monkeypatch: pytest.MonkeyPatch) -> Books:
    """Have worlds made from now on use an engine that writes down every stay."""
    books = Books()

    class Watched(Engine):
        def __init__(self, spec: EngineSpec) -> None:
            super().__init__(spec)
            self.there: dict[int, tuple[int, Program]] = {}
            books.engines.append(self)
            books.stays.clear()

        def attach(self, uid: int, program: Program, iterations: int, **more: Any) -> int:
            row = super().attach(uid, program, iterations, **more)
            self.there[row] = (uid, program)
            return row

        def detach(self, row: int) -> Usage:
            usage = super().detach(row)
            books.stays.append((*self.there.pop(row), usage))
            return usage

    monkeypatch.setattr("weft.sim.world.Engine", Watched)
    return books


@dataclass(frozen=True)
class Run:
    """Everything `simulate` needs."""

    cluster: Cluster
    jobs: tuple[Job, ...]
    stack: Stack
    network: NetworkSpec
    run: RunSpec

    def simulate(self, **more: Any) -> RunResult:
        """The result."""
        return simulate(self.cluster, self.jobs, self.stack, self.network, self.run, **more)


def draw_run(rng: random.Random, wired: bool = False, **run: Any) -> Run:
    """A cluster, jobs, a stack and what goes wrong; a `wired` one has two NICs per server and NVLink domains of two
    servers."""
    machine = Machine(
        gpus_per_server=rng.choice([1, 2, 4]),
        nic_gbps=10.0,
        intra_server_gbps=rng.choice([None, 40.0]),
        latency_us=rng.choice([0.0, 50.0]),
    )
    cluster = leaf_spine(rng.randint(1, 3), rng.randint(2, 3), machine, oversubscription=rng.choice([1.0, 2.0, 4.0]))
    if wired:
        more = {"gpus_per_server": 2, "nics_per_server": 2, "nvlink_domain": 2, "nvlink_gbps": 60.0}
        cluster = rails(2, 2, replace(machine, **more), oversubscription=2.0, pxn=rng.random() < 0.5)
    jobs = tuple(draw_job(rng, f"job{i}", cluster) for i in range(rng.randint(4, 12)))
    sharing = rng.choice(["max-min", "max-min", "max-min" if wired else "k-way", "ideal"])
    network = NetworkSpec(sharing=sharing, collective=rng.choice(["ring", "parameter-server"]), a_s=0.001)
    circumstances = RunSpec(
        seed=rng.randrange(100),
        restart_s=rng.choice([0.0, 2.0]),
        jitter=rng.choice([0.0, 0.0, 0.05]),
        stragglers=rng.choice([0.0, 0.0, 0.1]),
        start_latency_s=rng.choice([0.0, 0.0, 1.0]),
        failure_rate=rng.choice([0.0, 0.0, 0.3]),
        checkpoint_every=rng.choice([1, 5]),
    )
    settings = {**{f: getattr(circumstances, f) for f in circumstances.__dataclass_fields__}, **run}
    return Run(cluster, jobs, draw_stack(rng), network, RunSpec(**settings))


def draw_stack(rng: random.Random) -> Stack:
    """Plain, preemptive, scattered, or with GPUs shared; held back at times."""
    name = rng.choice(["fifo", "srsf-preemptive", "srsf-random", "together"])
    stack = Stack("together", Together()) if name == "together" else resolve(name)
    rule = rng.choice([None, None, Admission("at-most", 1), Admission("ratio", 2, (2.5,))])
    return stack if rule is None else Stack(stack.name, stack.planner, stack.interleave, Held(rule))


def draw_job(rng: random.Random, name: str, cluster: Cluster) -> Job:
    """A chain of computing and sending, or buckets that overlap the backward pass."""
    gpus = rng.choice([n for n in (1, 2, 3, 4) if n <= cluster.n_gpus])
    message = rng.choice([0.0, 1e8, 4e8, rng.uniform(1e7, 5e8)])
    plain = toy_job(
        name, gpus, rng.randint(5, 60), rng.choice([0.1, 0.25, rng.uniform(0.05, 0.5)]), message,
        submit_s=rng.choice([0.0, 1.0, rng.uniform(0.0, 20.0)]), checkpoint_every=rng.choice([1, 1, 7]),
    )  # fmt: skip
    if rng.random() < 0.5:
        return plain
    return Job(name, plain.submit_s, gpus, plain.iterations, {gpus: buckets(gpus, message, plain.profile.compute_s)})


def buckets(workers: int, message_bytes: float, compute_s: float) -> Profile:
    """Forward, then three buckets that are sent while the next part of the backward pass runs."""
    tasks: list[Compute | Transfer] = [Compute("forward", compute_s / 4)]
    before: Sequence[int] = (0,)
    for i in range(3):
        tasks.append(Compute(f"backward{i}", compute_s / 4, tuple(before)))
        tasks.append(Transfer(f"bucket{i}", message_bytes / 3, (len(tasks) - 1,)))
        before = (len(tasks) - 2,)
    return Profile("buckets", tuple(tasks), workers)


def gate(epoch_s: float = 0.0, period_s: float = 0.0, task: int = 0, tolerance: float = 0.05) -> Gate:
    """Short for Gate."""
    return Gate(epoch_s, period_s, task, tolerance)
