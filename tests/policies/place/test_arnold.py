"""arnold: the program by hand and against enumeration; ranks on nodes."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.core.cycle import Core
from weft.model import Start
from weft.model.job import Job
from weft.model.profile import Compute, Profile, Transfer
from weft.policies.place.arnold import shares, spread
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def objective(found: np.ndarray, alpha: float) -> float:  # type: ignore[type-arg]
    return alpha * float((found.sum(axis=0) > 0).sum()) + (1 - alpha) * float((found > 0).sum(axis=1).max())


@pytest.mark.parametrize(("alpha", "minipods", "most"), [(0.0, 3, 1), (0.4, 3, 1), (0.6, 2, 2), (1.0, 2, 2)])
def test_three_groups_of_four(alpha: float, minipods: int, most: int) -> None:
    """6, 6 and 4 nodes are free. Below 0.5 three minipods, none of them crossed: 3 alpha + beta. Above, two, and one
    group split 2 + 2: 2."""
    found = shares(np.array([6, 6, 4]), 3, 4, alpha)
    assert found is not None
    assert ((found.sum(axis=0) > 0).sum(), (found > 0).sum(axis=1).max()) == (minipods, most)
    assert objective(found, alpha) == pytest.approx(3 * alpha + (1 - alpha) if alpha < 0.5 else 2.0)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.integers(1, 2), st.integers(1, 3), st.floats(0.0, 1.0))
@settings(max_examples=examples(25), deadline=None)
def test_nothing_is_better(free: list[int], rows: int, size: int, alpha: float) -> None:
    """Against every way to spread the rows; with free nodes enough for all."""
    ways = [way for way in product(range(size + 1), repeat=len(free)) if sum(way) == size]
    fits = [np.array(way) for way in product(ways, repeat=rows) if (np.array(way).sum(axis=0) <= np.array(free)).all()]
    found = shares(np.array(free), rows, size, alpha)
    if not fits:
        assert found is None
        return
    assert found is not None
    assert (found.sum(axis=1) == size).all()
    assert (found.sum(axis=0) <= free).all()
    assert objective(found, alpha) <= min(objective(way, alpha) for way in fits) + 1e-3


def test_spread_counts_groups_that_cross() -> None:
    """Eq. 3: 0 if it is in one minipod, else their number."""
    assert [spread(pods) for pods in ([1, 1, 1], [0, 1, 0], [0, 1, 2])] == [0, 2, 3]


def pipeline(gpus: int, pp: int, name: str = "a") -> Job:
    """Stages that compute one after another, each on its stretch of the ranks."""
    each = gpus // pp
    ranks = [tuple(range(s * each, (s + 1) * each)) for s in range(pp)]
    tasks = [Compute(f"stage{s}", 1.0, (s - 1,) if s else (), ranks[s]) for s in range(pp)]
    sends = Transfer("gradients", 1e6, (pp - 1,))
    profile = Profile("pipeline", (*tasks, sends), gpus)
    return Job(name, 0.0, gpus, 10, {gpus: profile})


def test_stages_of_a_profile() -> None:
    """96 GPUs, TP 8, PP 2: six rows, two columns."""
    assert pipeline(96, 2).profile.stages == 2
    assert 96 // 8 // 2 == 6
    assert toy_job("a", 8).profile.stages == 1


def where(stack: str, busy: dict[str, tuple[int, ...]], job: Job, racks: int = 3, per_rack: int = 6) -> list[int]:
    """The rack of each rank, on servers of two GPUs of which some are taken."""
    cluster = toy_cluster(racks, per_rack, 2)
    jobs = [toy_job(name, len(gpus)) for name, gpus in busy.items()]
    world = ToyWorld(cluster, [*jobs, job])
    core = Core(resolve(stack), world)
    core.confirm(world.next_events(None))
    for name, gpus in busy.items():
        core.table.starting(name, gpus, None)
    gpus = next(d for d in core.step(0.0, []) if isinstance(d, Start) and d.job == job.id).gpus
    assert len(set(gpus)) == len(gpus)
    return [int(cluster.rack_of_server[cluster.server_of_gpu[gpu]]) for gpu in gpus]


@pytest.mark.parametrize(("alpha", "racks", "crossed"), [(0.0, 3, 0), (1.0, 2, 2)])
def test_a_pipeline_of_four_stages_on_three_minipods(alpha: float, racks: int, crossed: int) -> None:
    """The case above with 24 GPUs, four stages of three nodes each; two servers of the last rack are taken."""
    found = where(f"fifo/arnold:alpha={alpha:g}", {"x": (32, 33, 34, 35)}, pipeline(24, 4))
    assert len(set(found)) == racks
    nodes = [[found[s * 6 + 2 * k] for s in range(4)] for k in range(3)]  # rank = stage x 6 + node x 2 + GPU
    assert max(spread(row) for row in nodes) == crossed


def test_a_job_without_a_pipeline_is_on_the_fewest_minipods() -> None:
    assert set(where("fifo/arnold", {"x": (0, 1)}, toy_job("a", 12))) == {1}


def test_a_job_of_part_of_a_node_is_placed_by_best_fit() -> None:
    assert where("fifo/arnold", {"x": (0, 1, 2)}, toy_job("a", 1)) == [0]
