from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.layered.even import Shaped
from weft.core.loop import run
from weft.core.table import Table
from weft.core.view import View
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.events import Finished, Started, Submitted
from weft.model.job import Job
from weft.model.view import Spread
from weft.network.topologies import Machine, leaf_spine
from weft.policies.order.fifo import Fifo
from weft.policies.order.weft.sizes import shared_out
from weft.policies.place.base import Place
from weft.policies.place.elasticflow import ElasticFlow
from weft.stacks import resolve
from weft.stacks.registry import make
from weft.testing import toy_cluster, toy_job
from weft.testing.toy import ToyWorld

CLUSTER = toy_cluster(2, 3, 4)
# Those that take what there is: the others may wait for something better.
EAGER = ("best-fit", "first-fit", "random", "hived", "affinity", "packing", "skew", "delay:no-wait", "titan", "lwf:1",
         "lwf:99", "ls", "ff", "rand")  # fmt: skip


def shaped(servers: int, each: int, job_id: str = "a", **more: float) -> Job:
    return replace(toy_job(job_id, servers * each, 5, **more), per_server=each)  # type: ignore[arg-type]


@given(st.sets(st.integers(0, CLUSTER.n_gpus - 1)), st.integers(1, 6), st.integers(1, 4))
@settings(max_examples=examples(80))
def test_a_shape_is_found_whenever_there_is_one(busy: set[int], servers: int, each: int) -> None:
    """Beside GPUs that are taken as a whole, by every place that takes what it sees."""
    free = CLUSTER.gpus_per_server - np.bincount(CLUSTER.server_of_gpu[sorted(busy)], minlength=6)
    for name in EAGER:
        table, job = Table(CLUSTER), shaped(servers, each)
        for gpu in sorted(busy):
            table.gpus.enter(f"other{gpu}", (gpu,), CLUSTER.gpu_memory_bytes)
        table.take(Submitted(0.0, job))
        place = Shaped(make("place", name))  # type: ignore[arg-type]
        view = View(table, ToyWorld(CLUSTER, []), 0)
        answer = place.place(view, table.jobs["a"], job.gpus, table.gpus.offer, place.initial_state())
        if (free >= each).sum() < servers:
            assert answer.gpus is None, name
        else:
            assert answer.gpus is not None, name
            assert not busy & set(answer.gpus), name
            assert set(CLUSTER.counts(answer.gpus).values()) == {each}, name
            assert len(set(answer.gpus)) == job.gpus, name


def start(place: str | Place, job: Job, cluster: Cluster = CLUSTER, *before: Job) -> tuple[int, ...] | None:
    """The GPUs that a job gets at once after others have been started."""
    planner = Layered(Fifo(), make("place", place) if isinstance(place, str) else place)  # type: ignore[arg-type]
    world = ToyWorld(cluster, [*before, replace(job, submit_s=0.5)])
    core = Core(replace(resolve("fifo"), planner=planner), world)
    run(core, world, until=0.5)
    return core.table.placements.get(job.id)


def test_a_job_of_one_server_gets_the_tightest() -> None:
    """Two GPUs are free on server 0, all four on the others."""
    assert start("best-fit", shaped(1, 2), CLUSTER, toy_job("other", 2)) == (2, 3)


def test_limits_that_the_shape_cannot_keep_are_not_waited_for() -> None:
    """All eight GPUs of a server would do, and so would one on each of eight: not two on each of four."""
    cluster = leaf_spine(2, 4, Machine(gpus_per_server=8))
    job = shaped(2, 4, message_bytes=1e12)
    assert start("titan", job, cluster, toy_job("other")) is not None


def test_gpus_that_are_kept_are_not_shown() -> None:
    """ElasticFlow keeps GPU 3 idle for a job of 3: one of 1 x 4 gets the other four of that server of eight."""
    cluster = toy_cluster(1, 2, 8)
    assert start(ElasticFlow(), shaped(1, 4), cluster, toy_job("three", 3)) == (4, 5, 6, 7)
    gpus = start(ElasticFlow(), shaped(2, 4), cluster, toy_job("three", 3))
    assert gpus is not None
    assert set(gpus[:4]) == {4, 5, 6, 7}
    assert set(cluster.counts(gpus).values()) == {4}


def test_a_shape_on_gpus_that_others_are_on() -> None:
    """Every GPU has a job and memory for another: a place that shares GPUs finds the shape there."""
    other = toy_job("other", 24, memory_bytes=1e9)
    for place in ("lwf:1", "ls", "ff", "rand"):
        gpus = start(place, shaped(3, 2), CLUSTER, other)
        assert gpus is not None
        assert sorted(CLUSTER.counts(gpus).values()) == [2, 2, 2]


def test_the_cluster_that_a_shape_sees() -> None:
    cluster = leaf_spine(2, 2, Machine(gpus_per_server=8))
    seen = cluster.shaped(3)
    assert seen is cluster.shaped(3)
    assert (seen.largest_server, seen.largest_rack, seen.n_gpus) == (3, 6, 32)
    assert Spread.closest(seen, 6) == Spread(2, 1)
    assert Spread.closest(seen, 9) == Spread(3, 2)
    assert cluster.shaped(0) is cluster.shaped(9) is cluster
    assert cluster.largest_server == 8


def test_an_elastic_job_has_only_sizes_of_its_shape() -> None:
    job = replace(toy_job("a", 4, sizes=(1, 2, 3, 4, 6, 8)), per_server=2)
    assert job.sizes == (2, 4, 6, 8)
    table = Table(CLUSTER)
    table.take(Submitted(0.0, job))
    view = View(table, ToyWorld(CLUSTER, []), 0)
    assert shared_out(view, [table.jobs["a"]], lambda view, job: 100.0) == {"a": 8}


@pytest.mark.parametrize("stack", ["themis", "pollux"])
def test_a_planner_that_keeps_no_shapes_takes_no_such_job(stack: str) -> None:
    core = Core(resolve(stack), ToyWorld(CLUSTER, []))
    core.step(0.0, [Submitted(0.0, toy_job("plain"))])
    with pytest.raises(StackError, match=f"job a: it wants 2 GPUs on each node, which {stack} cannot promise"):
        core.step(1.0, [Submitted(1.0, shaped(2, 2))])
    assert "a" not in core.table.jobs


def test_a_gang_that_fits_on_a_server_is_not_asked_to_move_there() -> None:
    """Gandiva moves jobs that could be closer together; one of two servers by its shape cannot."""
    core = Core(resolve("gandiva"), ToyWorld(CLUSTER, []))
    jobs = [shaped(2, 2), toy_job("short")]
    core.step(0.0, [Submitted(0.0, job) for job in jobs])
    core.confirm(Started(0.0, job.id) for job in jobs)
    held = core.table.placements["a"]
    assert core.step(60.0, [Finished(60.0, "short")]) == []
    assert core.table.placements["a"] == held
