"""The analytical hierarchy: equations of each kind of network, and overlap layer by layer."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.network.analytical import Analytical, iteration_s
from weft.network.cost import DALLY_TABLE_I, THEMIS, Cached, CostModel, Shape, TierTable
from weft.network.hierarchy import MODERN, Dimension, Hierarchy
from weft.sim.engine import Engine, EngineSpec
from weft.sim.lower import Lowering
from weft.sim.spec import NetworkSpec
from weft.testing import toy_cluster


def flat_network(dimension: Dimension) -> Hierarchy:
    return Hierarchy(dimension, dimension, dimension)


B, L, N = 1e9, 2e-6, 3e-6


@pytest.mark.parametrize(
    ("kind", "n", "expected"),
    [
        ("ring", 4, 3 * (1e6 / B + L + N)),  # (n - 1) (S / n / B + l)
        ("switch", 4, 3e6 / B + 2 * (L + N)),  # (n - 1) / n S / B + log2(n) l
        ("switch", 5, 3.2e6 / B + 3 * (L + N)),
        ("fully-connected", 4, 1e6 / B + L + N),  # S / n / B + l
        ("ring", 1, 0.0),
    ],
)
def test_scatter(kind: str, n: int, expected: float) -> None:
    assert Dimension(kind, B, L, N).scatter_s(4e6, n) == pytest.approx(expected)


def test_outer_tiers_carry_their_part() -> None:
    """4 GPUs x 2 machines, no latency: 2 (3/4 S / B1) + 2 (1/2 S/4 / B2) when shrinking, 2 (1/2 S / B2) if not."""
    one, two = Dimension("ring", 1e10), Dimension("ring", 1e9)
    for shrinking, outer in ((True, 2 * 0.5 * 2e6 / 1e9), (False, 2 * 0.5 * 8e6 / 1e9)):
        hierarchy = Hierarchy(one, two, two, shrinking)
        assert hierarchy.all_reduce_s(8e6, (4, 2, 1)) == pytest.approx(2 * 0.75 * 8e6 / 1e10 + outer)


FOUR = Profile(
    "four",
    (
        Compute("c0", 0.025), Transfer("t0", 60e6, (0,)), Compute("c1", 0.025, (0,)), Transfer("t1", 10e6, (2,)),
        Compute("c2", 0.025, (2,)), Transfer("t2", 10e6, (4,)), Compute("c3", 0.025, (4,)), Transfer("t3", 10e6, (6,)),
    ),
    2,
)  # fmt: skip


def test_overlap_by_hand() -> None:
    """Four buckets that take 60, 10, 10, 10 ms, ready every 25 ms: 25 + 60 + 10 + 10 + 10 = 115 ms."""
    flat = flat_network(Dimension("ring", 1e9))
    assert iteration_s(FOUR, flat, (2, 1, 1)) == pytest.approx(0.115)
    assert Analytical(flat).exposed_s(FOUR, "", ((2,),)) == pytest.approx(0.015)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e9)), min_size=1, max_size=8),
    st.sampled_from([((2,),), ((1, 1),), ((1,), (1,))]),
)
def test_an_iteration_takes_between_the_longer_part_and_the_sum(
    layers: list[tuple[float, float]], shape: tuple[tuple[int, ...], ...]
) -> None:
    tasks: list[Compute | Transfer] = []
    for seconds, size in layers:
        before = (len(tasks) - 2,) if tasks else ()
        tasks += [Compute("c", seconds, before), Transfer("t", size, (len(tasks),))]
    profile = Profile("p", tuple(tasks), 2)
    model = Analytical(MODERN)
    over = {((2,),): (2, 1, 1), ((1, 1),): (1, 2, 1), ((1,), (1,)): (1, 1, 2)}[shape]
    sending = sum(MODERN.all_reduce_s(size, over) for _, size in layers)
    exposed = model.exposed_s(profile, "", shape)
    assert max(0.0, sending - profile.compute_s) * (1 - 1e-9) <= exposed + 1e-12
    assert exposed <= sending * (1 + 1e-9) + 1e-12


def test_engine_and_model_agree_over_one_server() -> None:
    """A ring of 2 on one tier is what the engine's ring over links is: 2 (n - 1) / n bytes at the rate of the port."""
    cluster = toy_cluster(1, 2, 1)
    rate = cluster.topology.links[0].bytes_per_s
    flat = flat_network(Dimension("ring", rate))
    lowering = Lowering(cluster, NetworkSpec())
    engine = Engine(EngineSpec(lowering.capacity, lowering.ports))
    engine.attach(0, lowering.program(FOUR, (0, 1)), 1)
    engine.run()
    assert engine.now == pytest.approx(iteration_s(FOUR, flat, (1, 2, 1)), rel=1e-9)


def test_tables() -> None:
    """Table I: ResNet18 in one rack communicates for 116 % of its compute time. Themis: 1 / 0.7 - 1 across racks."""
    profile = Profile("x", (Compute("c", 2.0),), 2)
    assert TierTable(DALLY_TABLE_I).exposed_s(profile, "resnet18", ((1, 1),)) == pytest.approx(2.32)
    assert TierTable(THEMIS).exposed_s(profile, "anything", ((1,), (1,))) == pytest.approx(2.0 * 3 / 7)
    assert TierTable(THEMIS).exposed_s(profile, "anything", ((2,),)) == 0.0
    alone = Profile("x", (Compute("c", 2.0),), 1)
    assert TierTable(DALLY_TABLE_I).exposed_s(alone, "resnet18", ((1,),)) == 0.0


def test_each_shape_is_asked_once() -> None:
    asked: list[Shape] = []

    class Asked(CostModel):
        def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
            asked.append(shape)
            return float(len(asked))

    model, shapes = Cached(Asked()), (((2,),), ((1, 1),))
    for _ in range(3):
        assert [model.exposed_s(FOUR, "m", shape) for shape in shapes] == [1.0, 2.0]
    assert tuple(asked) == shapes


def test_a_dimension_must_make_sense() -> None:
    for kind, rate, latency in (("torus", 1.0, 0.0), ("ring", 0.0, 0.0), ("ring", math.inf, 0.0), ("ring", 1.0, -1.0)):
        with pytest.raises(InputError):
            Dimension(kind, rate, latency)
