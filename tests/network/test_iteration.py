import random
from itertools import pairwise

import pytest

import weft
from weft.errors import ScenarioError, StackError
from weft.model import Compute, Profile, Transfer
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Placement
from weft.model.view import Spread
from weft.network.analytical import Analytical
from weft.network.cost import Shape, TierTable
from weft.network.estimates import example_placement
from weft.network.hierarchy import MODERN
from weft.network.iteration import play_on
from weft.network.topologies import Machine, fat_tree, leaf_spine, rails, single_switch
from weft.sim import NetworkSpec, RunSpec
from weft.sim.engine import Engine, EngineSpec
from weft.sim.lower import Lowering
from weft.sim.spec import estimates
from weft.sim.world import SimWorld
from weft.workload import zoo
from weft_live.measured import Speeds

SHARINGS = [
    NetworkSpec(),
    NetworkSpec(sharing="ideal"),
    NetworkSpec(sharing="k-way", a_s=1e-3),
    NetworkSpec(collective="halving-doubling"),
]
CLUSTERS = [
    leaf_spine(4, 4, Machine(gpus_per_server=2, nic_gbps=25, intra_server_gbps=300), oversubscription=8.0),
    leaf_spine(3, 5, Machine(gpus_per_server=3, nic_gbps=10, latency_us=7, intra_latency_us=2), oversubscription=3.0),
    fat_tree(4, Machine(gpus_per_server=2, nic_gbps=40, intra_server_gbps=100)),
    single_switch(6, Machine(gpus_per_server=4, nic_gbps=1)),
]


TRAYS = Machine(4, 50, intra_server_gbps=900, nics_per_server=2, nvlink_domain=2, nvlink_gbps=700, nvlink_latency_us=1)
WIRED = [
    rails(2, 2, Machine(8, nic_gbps=25, nics_per_server=8, intra_server_gbps=300, latency_us=3), oversubscription=4.0),
    rails(2, 2, Machine(8, nic_gbps=25, nics_per_server=4), spines=2, pxn=False),
    rails(2, 4, TRAYS, racks_per_pod=1, oversubscription=[1, 3]),
]


def by_engine(cluster: Cluster, network: NetworkSpec, profile: Profile, gpus: Placement, key: int) -> float:
    lowering = Lowering(cluster, network)
    spec = EngineSpec(
        lowering.capacity,
        lowering.ports,
        sharing=network.sharing,
        b_s_per_byte=network.b_s_per_byte,
        eta_s_per_byte=network.eta_s_per_byte,
    )
    engine = Engine(spec)
    engine.attach(0, lowering.program(profile, gpus, "m", key), 1)
    engine.run()
    return engine.now


def drawn_profile(draw: random.Random, workers: int) -> Profile:
    """A graph in which several transfers are under way at once, some of them among a few workers or capped."""
    tasks: list[Compute | Transfer] = [Compute("c0", draw.choice([0.0, 0.01, 1 / 3]))]
    for i in range(1, draw.randint(2, 9)):
        after = tuple(sorted(draw.sample(range(i), draw.randint(1, min(i, 2)))))
        some = tuple(draw.sample(range(workers), draw.randint(2, workers))) if draw.random() < 0.4 else None
        cap = draw.choice([None, None, 1e8])
        tasks.append(Transfer(f"t{i}", draw.choice([0.0, 1e6, 7e7 / 3]), after, some, None, cap))
    return Profile("drawn", (*tasks, Compute("last", 0.02, tuple(range(len(tasks))))), workers)


@pytest.mark.parametrize("network", SHARINGS, ids=lambda n: f"{n.sharing}-{n.collective}")
@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda c: c.topology.name)
def test_agrees_with_the_engine_to_the_last_bit(cluster: Cluster, network: NetworkSpec) -> None:
    draw = random.Random(5)
    for key in range(25):
        workers = draw.choice([2, 3, 4, 8])
        gpus = tuple(draw.sample(range(cluster.n_gpus), workers))
        profile = drawn_profile(draw, workers)
        played = play_on(cluster, profile, gpus, network.collective, key, network.alone)
        assert played.seconds == by_engine(cluster, network, profile, gpus, key)


@pytest.mark.parametrize("network", [n for n in SHARINGS if n.sharing != "k-way"], ids=lambda n: n.collective)
@pytest.mark.parametrize("cluster", WIRED, ids=lambda c: f"{c.n_nics} NICs")
def test_agrees_with_the_engine_over_nics_and_nvlink(cluster: Cluster, network: NetworkSpec) -> None:
    test_agrees_with_the_engine_to_the_last_bit(cluster, network)


def test_k_way_sharing_knows_one_nic_per_server() -> None:
    with pytest.raises(ScenarioError, match="k-way"):
        estimates(WIRED[0], NetworkSpec(sharing="k-way"))


def test_agrees_with_the_engine_on_models_of_the_zoo() -> None:
    cluster = CLUSTERS[0]
    for model in ("vgg16", "resnet50", "gpt2-a", "gpt3-cassini", "dlrm"):
        for overlap in (False, True):
            profile = zoo.profile(model, 8, gpu="A100", overlap=overlap)
            gpus = tuple(range(0, 32, 4))
            assert play_on(cluster, profile, gpus).seconds == by_engine(cluster, NetworkSpec(), profile, gpus, 0)


def test_links_carry_what_the_collective_sends() -> None:
    """A ring of four over each NIC: 2 (n - 1) / n of every message, whichever transfers overlap."""
    cluster = single_switch(4, Machine(nic_gbps=8))
    tasks = (Compute("c", 0.1), Transfer("a", 1e6, (0,)), Transfer("b", 3e6, (0,)), Transfer("d", 2e6, (1,)))
    played = play_on(cluster, Profile("p", tasks, 4), (0, 1, 2, 3))
    for link in cluster.topology.links:
        pieces = played.links[link.id]
        assert sum((end - start) * rate for start, end, rate in pieces) == pytest.approx(1.5 * 6e6)
        assert all(rate <= link.bytes_per_s * (1 + 1e-12) for _, _, rate in pieces)
        assert all(a[1] <= b[0] for a, b in pairwise(pieces))
    assert played.first == 1


def both_worlds(
    cluster: Cluster, model: str, workers: int, spread: Spread, network: NetworkSpec | None = None
) -> tuple[float, float]:
    """An estimate of each. The live world must also have the same iteration on given GPUs, with and without gates, and
    the same traffic, or refuse it as well."""
    job = Job("j", 0.0, workers, 10, {workers: zoo.profile(model, workers, gpu="V100")}, model)
    world = SimWorld(cluster, [job], network or NetworkSpec(), RunSpec())
    simulated = world.estimate(job, workers, spread)
    speeds = Speeds(cluster)
    if network is not None:
        speeds.alone = estimates(cluster, network)
    live = speeds.estimate(job, workers, spread)
    assert simulated.compute_s == live.compute_s
    gpus = example_placement(cluster, workers, spread)
    assert speeds.alone_s(job, gpus) == simulated.iteration_s
    try:
        traffic = world.traffic(job, gpus)
    except StackError:
        with pytest.raises(StackError):
            speeds.alone.traffic(job.profiles[workers], gpus)
    else:
        assert speeds.alone.traffic(job.profiles[workers], gpus) == traffic
        if traffic.task is not None:
            measured = speeds.offset_s(job, gpus, traffic.task, simulated.iteration_s)  # as long as the profile says
            assert (measured, speeds.offset_s(job, gpus, traffic.task)) == pytest.approx((traffic.offset_s,) * 2)
    return simulated.iteration_s, live.iteration_s


def test_vgg16_over_four_racks_takes_as_long_in_both_worlds() -> None:
    """16 GPUs over 4 racks of 4 servers, 25 Gbit/s, 8:1: the uplinks set the pace, 0.754 s instead of 0.422 s."""
    cluster = leaf_spine(4, 4, Machine(gpus_per_server=4, nic_gbps=25), oversubscription=8.0)
    assert both_worlds(cluster, "vgg16", 16, Spread(4, 4)) == pytest.approx((0.7536, 0.7536), abs=1e-4)
    assert both_worlds(cluster, "vgg16", 16, Spread(4, 1)) == pytest.approx((0.4216, 0.4216), abs=1e-4)


@pytest.mark.parametrize(
    "network",
    [
        NetworkSpec(collective="tree"),
        NetworkSpec(collective="halving-doubling"),
        NetworkSpec(sharing="ideal"),
        NetworkSpec(sharing="k-way"),
        NetworkSpec(cost=Analytical(MODERN)),
        NetworkSpec(cost=TierTable({})),
    ],
    ids=["tree", "halving-doubling", "ideal", "k-way", "analytical", "tiers"],
)
def test_both_worlds_give_the_same_answers_on_other_networks(network: NetworkSpec) -> None:
    cluster = leaf_spine(4, 4, Machine(gpus_per_server=4, nic_gbps=25), oversubscription=8.0)
    simulated, live = both_worlds(cluster, "vgg16", 16, Spread(4, 4), network)
    assert simulated == live
    assert (live == pytest.approx(0.7536, abs=0.01)) == (network.sharing == "ideal")


@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda c: c.topology.name)
def test_both_worlds_give_the_same_answers(cluster: Cluster) -> None:
    for model in ("vgg16", "resnet50", "lstm-ptb"):
        for workers, spread in ((1, Spread(1, 1)), (2, Spread(1, 1)), (4, Spread(2, 1)), (4, Spread(4, 3))):
            simulated, live = both_worlds(cluster, model, workers, spread)
            assert simulated == live


def test_the_offset_of_a_task_is_that_of_its_placement() -> None:
    """A second transfer begins later where the first has to cross racks."""
    cluster = leaf_spine(2, 2, Machine(nic_gbps=8), oversubscription=4.0)
    tasks = (Compute("c", 0.5), Transfer("a", 1e9, (0,)), Transfer("b", 1e9, (1,)))
    job = Job("j", 0.0, 2, 1, {2: Profile("p", tasks, 2)})
    speeds = Speeds(cluster)
    assert speeds.offset_s(job, (0, 1), 1) == pytest.approx(0.5)
    assert speeds.offset_s(job, (0, 1), 2) == pytest.approx(1.5)
    assert speeds.offset_s(job, (0, 2), 2) > 2.0


def test_a_cost_model_is_asked_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workload's estimates, those of policies and the programs of jobs share one cache."""
    asked: list[tuple[int, str, Shape]] = []
    answer = Analytical.exposed_s

    def count(self: Analytical, profile: Profile, model: str, shape: Shape) -> float:
        asked.append((id(profile), model, shape))
        return answer(self, profile, model, shape)

    monkeypatch.setattr(Analytical, "exposed_s", count)
    weft.simulate(
        {
            "cluster": {"topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 2},
            "workload": {"source": "poisson", "jobs": 40, "load": 0.9, "models": ["vgg16", "resnet50"],
                         "gpus": {1: 0.3, 2: 0.4, 4: 0.3}, "duration_median_s": 60},
            "network": {"cost": "analytical"},
            "stack": {"name": "srsf", "place": "lwf"},
        }
    )  # fmt: skip
    assert len(asked) > 5
    assert len(asked) == len(set(asked))
