"""Worlds in which a pace sets rates: GPUs may be shared, chance may slow them; held against the event engine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import weft
from weft.core.stack import Stack
from weft.errors import StackError
from weft.model.job import Job
from weft.model.plan import Candidate, State
from weft.model.view import ClusterView
from weft.pace.base import Pace
from weft.pace.equal import Equal
from weft.pace.fair import Fair
from weft.pace.flow import Flow
from weft.pace.rates import RateRule
from weft.results.run import RunResult
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import check_world, toy_cluster, toy_job
from weft.testing.probes import Fixed

from .runs import Together, draw_run
from .test_conservation import check_work
from .test_slotted_gpus import Fine

SLOT_S = 0.001
NIC_BYTES_PER_S = float(toy_cluster().topology.capacity.max())


class FineEqual(Equal):
    """Equal shares in slots so short that they hardly matter."""

    def rates(self) -> RateRule:
        """The rule of one run."""
        return Fine(SLOT_S)


def test_two_jobs_on_a_gpu_take_turns() -> None:
    """Ten times 1 s each on one GPU and nothing to send: whose turn comes first needs 10 s, the other waits, 20 s.
    Times are not rounded to slots; only what follows a finish waits for the end of its slot."""
    jobs = [toy_job("a", 1, 10, submit_s=0.5), toy_job("b", 1, 10)]
    planner = Fixed({"a": (0,), "b": (0,)}, shares_gpus=True)
    for pace in (Flow(), Equal()):
        result = simulate(toy_cluster(), jobs, Stack("both", planner, pace=pace))
        assert result.jobs["finish_s"].to_list() == pytest.approx([20.0, 10.0], rel=1e-12)
        assert result.jobs["gpu_s"].to_list() == pytest.approx([10.0, 10.0], rel=1e-12)
        assert result.jobs["comm_s"].to_list() == [0.0, 0.0]


@pytest.mark.parametrize("noise", [{}, {"jitter": 0.1, "stragglers": 0.05, "straggler_factor": 3.0}])
def test_nothing_to_send_means_no_slots(noise: dict[str, float]) -> None:
    """Jobs that fit on a server, all there from the start: GPUs shared or not, slots change nothing."""
    rng = random.Random(7)
    jobs = [toy_job(f"j{i}", rng.choice([1, 2]), rng.randint(3, 20), rng.uniform(0.05, 0.3)) for i in range(8)]
    for place in ("rand", "ls", "lwf"):
        stack = resolve("srsf", place=place)
        plain, slotted = (
            simulate(
                toy_cluster(1, 2, 4), jobs, Stack("x", stack.planner, pace=pace), run=RunSpec(seed=5, **noise)
            )
            for pace in (Fair(), Flow())
        )  # fmt: skip
        for column in ("finish_s", "gpu_s"):
            assert slotted.jobs[column].to_numpy() == pytest.approx(plain.jobs[column].to_numpy(), rel=1e-12)


class Widening(Fixed):
    """Job a on one GPU, and on two as soon as c is there."""

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Its plan."""
        self.placements["a"] = (0, 1) if "c" in (*view.waiting, *view.running) else (0,)
        return super().propose(view, state, n)


@pytest.mark.parametrize("pace", [Fair(), Flow(), Equal()])
def test_resized_while_another_has_the_gpu(pace: Pace) -> None:
    """b has GPU 0 from 0 to 2 s, a waits there. c comes at 0.5, in the middle of a slot, and a is given GPU 1 too:
    0.5 s of each of its two workers in an iteration now. One ends at 1, the other waits for b: 2.5, 3 and 3.5 s. c ends
    at 4.5 on a GPU of its own."""
    jobs = [toy_job("b", 1, 2), toy_job("a", 2, 3, 0.5, sizes=(1,)), toy_job("c", 1, 4, submit_s=0.5)]
    planner = Widening({"b": (0,), "c": (3,)}, shares_gpus=True, resizes=True)
    result = simulate(toy_cluster(), jobs, Stack("x", planner, pace=pace))
    assert result.jobs["finish_s"].to_list() == pytest.approx([2.0, 3.5, 4.5])
    assert result.jobs["gpu_s"].to_list() == pytest.approx([2.0, 3.0, 4.0])
    assert result.spans.filter(result.spans["job_id"] == "a")["gpus"].to_list() == [[0], [0, 1]]


def finish_s(jobs: Sequence[Job], place: str, pace: Pace, **run: float) -> npt.NDArray[np.float64]:
    stack = Stack("x", resolve("srsf", place=place).planner, pace=pace)
    found = simulate(toy_cluster(1, 2, 2), jobs, stack, run=RunSpec(seed=1, **run)).jobs["finish_s"]
    return np.array(found.to_numpy())


def five_jobs(seed: int, longer_s: float = 0.0) -> list[Job]:
    """Jobs of one to four GPUs; what they send takes longer by so much on a link of their own, if they send."""
    rng = random.Random(seed)
    jobs = []
    for i in range(5):
        gpus, iterations = rng.randint(1, 4), rng.randint(5, 15)
        compute_s, message = rng.uniform(0.08, 0.2), rng.choice([0.0, 2e7, 4e7])
        if message > 0.0 and gpus > 1:
            message += longer_s * NIC_BYTES_PER_S / (2 * (gpus - 1) / gpus)
        jobs.append(toy_job(f"j{i}", gpus, iterations, compute_s, message, submit_s=rng.uniform(0.0, 1.0)))
    return jobs


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_equal_shares_are_those_of_the_event_engine(jitter: float) -> None:
    """Five jobs that share two servers' GPUs and one link each way: max-min is equal shares there. A transfer waits for
    a slot, and what another leaves of a slot is lost: some slots in a run of fifty iterations, of 1 ms. Where the event
    engine's own result hangs on a millisecond of each transfer there is nothing to compare."""
    compared = 0
    for seed in range(10):
        for place in ("lwf", "ls"):
            exact, *nudged = (
                finish_s(five_jobs(seed, longer_s), place, Fair(), jitter=jitter)
                for longer_s in (0.0, 0.3 * SLOT_S, 0.6 * SLOT_S, 1.2 * SLOT_S)
            )
            if max(np.abs(other - exact).max() for other in nudged) > 20 * SLOT_S:
                continue
            slotted = finish_s(five_jobs(seed), place, FineEqual(), jitter=jitter)
            assert np.abs(slotted - exact).max() <= 20 * SLOT_S, (seed, place)
            compared += 1
    assert compared >= 16


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("circumstances", [{}, {"jitter": 0.05, "restart_s": 0.02}])
def test_keeps_the_promises_of_worlds(shared: bool, circumstances: dict[str, float]) -> None:
    """The conformance suite on a world whose network is simulated in slots."""

    class Slotted(SimWorld):
        def set_pace(self, pace: Pace) -> None:
            super().set_pace(FineEqual())

    def make(jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int) -> SimWorld:
        run = RunSpec(seed=seed, start_latency_s=latency_s, failure_rate=failure_rate, **circumstances)
        return Slotted(toy_cluster(), jobs, NetworkSpec(), run, shared_gpus=shared)

    check_world(make)


def test_simulations_create_nothing() -> None:
    """Random clusters and jobs that share GPUs or not, with preemption, failures, restart cost, checkpoints, jitter:
    all finish, GPU seconds that were not lost are those of the work, links carry no more than they can."""
    preempted = shared = 0
    for seed in range(30):
        rng = random.Random(seed)
        drawn = draw_run(rng)
        planner = rng.choice([
            Together(), resolve("srsf-preemptive").planner, resolve("srsf-preemptive", place="lwf").planner,
            resolve("fifo", order="time-slice", place="packing").planner,
        ])  # fmt: skip
        stack = Stack("x", planner, pace=rng.choice([Flow(), Equal()]))
        run = replace(drawn, stack=stack, network=NetworkSpec(collective=drawn.network.collective))
        result = run.simulate()
        check_result(run.cluster.n_gpus, result)
        check_work(run, result)
        preempted += result.jobs["preemptions"].sum()
        shared += planner.shares_gpus
    assert preempted > 8
    assert 10 < shared < 30


def check_result(n_gpus: int, result: RunResult) -> None:
    jobs, links = result.jobs, result.links
    assert (jobs["status"] == "finished").all()
    end_s = float(jobs["finish_s"].max())  # type: ignore[arg-type]
    assert (links["bytes"] <= links["bytes_per_s"] * (end_s + 0.06) * (1 + 1e-6)).all()
    assert jobs["gpu_s"].sum() <= n_gpus * end_s * (1 + 1e-9)
    assert ((jobs["lost_gpu_s"] >= 0) & (jobs["lost_gpu_s"] <= jobs["gpu_s"] * (1 + 1e-9))).all()


def test_chance_in_traffic() -> None:
    """What CASSINI is told of a job that is slowed: a longer iteration, and how much it varies."""
    job = toy_job("a", 4, 10, 0.5, 1e8)
    told = {}
    for jitter in (0.0, 0.2):
        world = SimWorld(toy_cluster(1, 2, 2), [job], NetworkSpec(), RunSpec(jitter=jitter))
        world.set_pace(FineEqual())
        told[jitter] = world.traffic(job, (0, 1, 2, 3))
    assert told[0.0].spread_s == 0.0
    assert told[0.2].spread_s > 0.02
    # the slowest of four, each 1 + 0.2 z: 1.03 of a standard deviation above the mean
    assert told[0.2].iteration_s - told[0.0].iteration_s == pytest.approx(0.5 * 0.2 * 1.03, rel=0.1)
    assert told[0.2].links.keys() == told[0.0].links.keys()


def test_what_a_network_does_not_allow_is_refused() -> None:
    scene = {
        "cluster": {"topology": "single-switch", "servers": 2},
        "workload": {"source": "batch", "jobs": 1, "models": ["resnet50"], "gpus": {"2": 1}, "iterations": [2, 2]},
        "stack": {"name": "fifo"},
    }
    for network, words in (
        ({"sharing": "k-way"}, 'network.sharing "k-way"'),
        ({"cost": "analytical"}, 'network.cost "analytical"'),
    ):
        with pytest.raises(StackError, match=f"pace flow sets the rate of every flow, which {words} does not allow"):
            weft.simulate({**scene, "network": network}, pace="flow")
