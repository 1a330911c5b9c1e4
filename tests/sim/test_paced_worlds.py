import math
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

import weft
from testkit.draws import thorough
from testkit.paced import PACES
from tests.sim.rules import Told
from tests.sim.runs import Together, draw_run, watch
from tests.sim.test_conservation import check_run, check_work
from weft.core.stack import Stack
from weft.errors import EngineError, StackError
from weft.model.job import Job
from weft.model.plan import Candidate, State
from weft.model.view import ClusterView
from weft.network.analytical import Analytical
from weft.network.hierarchy import MODERN
from weft.policies.pace.admission import Fair
from weft.policies.pace.base import Pace
from weft.policies.pace.flow import Flow
from weft.policies.pace.mcs import Mcs
from weft.policies.pace.rates import RateRule
from weft.policies.pace.tcp import Equal
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.sim.spec import Foreign
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import check_world, toy_cluster, toy_job
from weft.testing.probes import Fixed


def test_two_jobs_on_a_gpu_take_turns() -> None:
    """Ten times 1 s each on one GPU and nothing to send: whose turn comes first needs 10 s, the other waits, 20 s."""
    jobs = [toy_job("a", 1, 10, submit_s=0.5), toy_job("b", 1, 10)]
    planner = Fixed({"a": (0,), "b": (0,)}, shares_gpus=True)
    for pace in (Flow(), Mcs(), Equal()):
        result = simulate(toy_cluster(), jobs, Stack("both", planner, pace=pace))
        assert result.jobs["finish_s"].to_list() == pytest.approx([20.0, 10.0], rel=1e-12)
        assert result.jobs["gpu_s"].to_list() == pytest.approx([10.0, 10.0], rel=1e-12)
        assert result.jobs["comm_s"].to_list() == [0.0, 0.0]


@pytest.mark.parametrize("noise", [{}, {"jitter": 0.1, "stragglers": 0.05, "straggler_factor": 3.0}])
def test_nothing_to_send_means_no_slots(noise: dict[str, float]) -> None:
    """Jobs that fit on a server: GPUs shared or not, a pace that sets rates changes nothing."""
    rng = random.Random(7)
    jobs = [toy_job(f"j{i}", rng.choice([1, 2]), rng.randint(3, 20), rng.uniform(0.05, 0.3)) for i in range(8)]
    for place in ("rand", "ls", "lwf"):
        stack = resolve("srsf", place=place)
        plain, ruled = (
            simulate(
                toy_cluster(1, 2, 4), jobs, Stack("x", stack.planner, pace=pace), run=RunSpec(seed=5, **noise)
            )
            for pace in (Fair(), Flow())
        )  # fmt: skip
        for column in ("finish_s", "gpu_s"):
            assert ruled.jobs[column].to_numpy() == pytest.approx(plain.jobs[column].to_numpy(), rel=1e-12)


class Widening(Fixed):
    """Job a on one GPU, and on two as soon as c is there."""

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Its plan."""
        self.placements["a"] = (0, 1) if "c" in (*view.waiting, *view.running) else (0,)
        return super().propose(view, state, n)


@pytest.mark.parametrize("pace", [Fair(), Flow(), Mcs(), Equal()])
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


def five_jobs(seed: int) -> list[Job]:
    """Jobs of one to four GPUs, some of which send."""
    rng = random.Random(seed)
    jobs = []
    for i in range(5):
        gpus, iterations = rng.randint(1, 4), rng.randint(5, 15)
        compute_s, message = rng.uniform(0.08, 0.2), rng.choice([0.0, 2e7, 4e7])
        jobs.append(toy_job(f"j{i}", gpus, iterations, compute_s, message, submit_s=rng.uniform(0.0, 1.0)))
    return jobs


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_equal_is_fair_where_a_ring_has_two_servers(jitter: float) -> None:
    """Five jobs that share the GPUs of two servers and one link each way. Both flows of a ring have one rate then, that
    of the lock-step group, so that opening it changes nothing."""
    for seed in range(10):
        for place in ("lwf", "ls"):
            group, opened = (finish_s(five_jobs(seed), place, pace, jitter=jitter) for pace in (Fair(), Equal()))
            assert opened == pytest.approx(group, rel=1e-9), (seed, place)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("circumstances", [{}, {"jitter": 0.05, "restart_s": 0.02}])
def test_keeps_the_promises_of_worlds(shared: bool, circumstances: dict[str, float]) -> None:
    """The conformance suite on a world whose pace sets rates."""

    class Ruled(SimWorld):
        def set_pace(self, pace: Pace) -> None:
            super().set_pace(Flow())

    def make(jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int) -> SimWorld:
        run = RunSpec(seed=seed, start_latency_s=latency_s, failure_rate=failure_rate, **circumstances)
        return Ruled(toy_cluster(), jobs, NetworkSpec(), run, shared_gpus=shared)

    check_world(make)


def test_simulations_create_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random clusters and jobs that share GPUs or not, with preemption, failures, restart cost, checkpoints, jitter:
    all finish, GPU seconds that were not lost are those of the work, links carry what was sent and no more than they
    can."""
    books = watch(monkeypatch)
    paces = [PACES[name] for name in sorted(PACES) if name != "pcc"]  # which takes long to find its rates
    preempted = shared = 0
    for seed in range(thorough(15)):
        rng = random.Random(seed)
        drawn = draw_run(rng)
        planner = rng.choice([
            Together(), resolve("srsf-preemptive").planner, resolve("srsf-preemptive", place="lwf").planner,
            resolve("fifo", order="time-slice", place="packing").planner,
        ])  # fmt: skip
        stack = Stack("x", planner, pace=rng.choice(paces)())
        run = replace(drawn, stack=stack, network=NetworkSpec(collective=drawn.network.collective))
        result = run.simulate()
        assert (result.jobs["status"] == "finished").all()
        check_run(run, result, books)
        check_work(run, result)
        preempted += result.jobs["preemptions"].sum()
        shared += planner.shares_gpus
    assert preempted > thorough(15) * 4 / 15
    assert thorough(15) / 4 < shared < thorough(15)


def test_chance_in_traffic() -> None:
    """What CASSINI is told of a job that is slowed: a longer iteration, and how much it varies."""
    job = toy_job("a", 4, 10, 0.5, 1e8)
    told = {}
    for jitter in (0.0, 0.2):
        world = SimWorld(toy_cluster(1, 2, 2), [job], NetworkSpec(), RunSpec(jitter=jitter))
        world.set_pace(Equal())
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
        ({"sharing": "ideal"}, 'network.sharing "ideal"'),
        ({"cost": "tiers", "table": "themis"}, 'network.cost "tiers"'),
    ):
        for pace in ("flow", "fair-flows", "mcs"):
            refused = f"pace {pace} needs single flows on links, and {words} has none"
            with pytest.raises(StackError, match=refused):
                weft.simulate({**scene, "network": network}, pace=pace)
    for network, words in (
        (NetworkSpec(cost=Analytical(MODERN), packet_loss=0.01), "packet_loss is a property of links"),
        (NetworkSpec(sharing="k-way", foreign=(Foreign("a", "b"),)), "foreign traffic goes over links"),
    ):
        with pytest.raises(StackError, match=words):
            SimWorld(toy_cluster(), [], network, RunSpec()).set_pace(Fair())


def test_why_nothing_is_skipped_is_said() -> None:
    """A rule has a memory and foreign traffic never repeats; without either runs are skipped over as ever."""
    jobs, foreign = [toy_job("a", 4, 10, 0.5, 1e8)], (Foreign("r0s0", "r0s1"),)
    found = {}
    for pace, network in ((Flow(), NetworkSpec()), (Equal(), NetworkSpec(foreign=foreign)), (Equal(), NetworkSpec())):
        cluster = toy_cluster(1, 2, 2)
        names = [server.name for server in cluster.servers]
        network = replace(network, foreign=tuple(replace(f, src=names[0], dst=names[1]) for f in network.foreign))
        world = SimWorld(cluster, jobs, network, RunSpec())
        world.set_pace(pace)
        found[pace.name, bool(network.foreign)] = (world.why_exact, world.engine.spec.skip)
    assert found == {
        ("flow", False): ("the rates of pace flow have a memory", False),
        ("fair-flows", True): ("foreign traffic never repeats", False),
        ("fair-flows", False): ("", True),
    }
    cluster, stack = toy_cluster(2, 2, 1), Stack("x", resolve("fifo").planner, pace=Flow())
    told = [simulate(cluster, jobs, stack, run=RunSpec(exact=exact)).notes for exact in (True, False)]
    words = "exact = false changes nothing here: the rates of pace flow have a memory, so every event was simulated"
    assert told == [(), (words,)]


class Capped(Pace):
    """Lock-step groups, each of whose flows may have so much."""

    name = "capped"
    steers = True

    def __init__(self, cap: float) -> None:
        self.cap = cap

    def rates(self) -> RateRule:
        """The same for all, for ever."""
        return Told([dict.fromkeys(range(9), (self.cap, 1, 0))])


def test_a_cap_holds_for_a_lock_step_group() -> None:
    """A ring of four, 100 MB, so 150 MB out of every NIC of 1.25 GB/s: 0.12 s, and 0.3 s at 500 MB/s."""
    for cap, comm_s in ((math.inf, 0.12), (5e8, 0.3)):
        job = toy_job("a", 4, 3, 0.5, message_bytes=1e8)
        result = simulate(toy_cluster(2, 2, 1), [job], Stack("x", resolve("fifo").planner, pace=Capped(cap)))
        assert result.jobs["comm_s"][0] == pytest.approx(3 * comm_s, rel=1e-6)


@pytest.mark.parametrize("sharing", ["ideal", "k-way"])
def test_caps_where_links_know_no_flows_are_refused(sharing: str) -> None:
    """Such networks give a transfer its rate whatever a rule says: the caps of a lock-step group were left out."""
    stack = Stack("x", resolve("fifo").planner, pace=Capped(1e6))
    with pytest.raises(StackError, match="pace capped needs single flows on links"):
        simulate(toy_cluster(), [toy_job("a", 2, 3)], stack, network=NetworkSpec(sharing=sharing))


def test_a_rule_that_lets_nothing_through_ends_a_run() -> None:
    """It went on for ever, looking at the links again and again."""
    with pytest.raises(EngineError, match="the rule Told lets nothing through, and nothing else will happen"):
        simulate(
            toy_cluster(2, 2, 1),
            [toy_job("a", 4, 3, message_bytes=1e8)],
            Stack("x", resolve("fifo").planner, pace=Capped(0.0)),
        )
