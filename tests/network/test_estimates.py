import pytest

from weft.model.view import Spread
from weft.network.estimates import Estimates, example_placement
from weft.network.topologies import Machine, build_cluster, leaf_spine
from weft.testing.toy import toy_job


def test_estimate_is_the_time_alone() -> None:
    """A ring of n workers sends 2 (n - 1) / n of the message over each NIC: c + 2 (n - 1) / n x M / nic.

    Inside a server nothing is in the way (no limit): c alone.
    """
    cluster = leaf_spine(2, 4, Machine(gpus_per_server=4, nic_gbps=8.0))
    estimates = Estimates(cluster)
    job = toy_job("a", 4, 1, 0.5, 1e9)
    apart = estimates.of(job.profile, "toy", Spread(4, 1))
    assert (apart.iteration_s, apart.compute_s) == pytest.approx((0.5 + 2 * 3 / 4 * 1.0, 0.5), rel=1e-9)
    assert estimates.of(job.profile, "toy", Spread(1, 1)).iteration_s == pytest.approx(0.5, rel=1e-9)
    assert estimates.of(job.profile, "toy", Spread(4, 1)) is apart


@pytest.mark.parametrize(
    ("workers", "servers", "racks"), [(1, 1, 1), (4, 1, 1), (4, 2, 1), (4, 4, 2), (6, 3, 2), (8, 2, 2)]
)
def test_example_placement(workers: int, servers: int, racks: int) -> None:
    """So many GPUs, each once, on so many servers of so many racks."""
    cluster = leaf_spine(3, 4, Machine(gpus_per_server=4))
    gpus = example_placement(cluster, workers, Spread(servers, racks))
    assert len(set(gpus)) == workers == len(gpus)
    assert Spread.of(cluster, gpus) == Spread(servers, racks)


def test_neighbours_in_rank_stand_beside_each_other() -> None:
    """Ten workers of a pipeline, say, on four servers of four GPUs: 3, 3, 2 and 2, one server after the other."""
    cluster = leaf_spine(1, 4, Machine(gpus_per_server=4))
    gpus = example_placement(cluster, 10, Spread(4, 1), grouped=True)
    assert [cluster.server_of_gpu[gpu] for gpu in gpus] == [0] * 3 + [1] * 3 + [2] * 2 + [3] * 2


@pytest.mark.parametrize("workers", [3, 4, 8])
def test_example_placement_widens_in_a_single_rack(workers: int) -> None:
    """Servers of 2 GPUs under one switch: three workers do not fit on one of them, nor eight on two."""
    cluster = leaf_spine(1, 6, Machine(gpus_per_server=2))
    gpus = example_placement(cluster, workers, Spread(1, 1))
    assert len(set(gpus)) == workers
    assert len({cluster.server_of_gpu[g] for g in gpus}) == (workers + 1) // 2


def test_example_placement_widens_where_it_must() -> None:
    """Eight workers do not fit into one server of four GPUs: two are taken."""
    cluster = leaf_spine(2, 2, Machine(gpus_per_server=4))
    gpus = example_placement(cluster, 8, Spread(1, 1))
    assert len(set(gpus)) == 8
    assert Spread.of(cluster, gpus) == Spread(2, 1)


def test_an_estimate_is_made_on_the_type_that_is_asked_for() -> None:
    """Two H100 servers have eight NICs of 400 Gbit/s each, two A100 servers one of 100: sixteen GPUs and eight of them
    exchange 2 (n - 1) / n of a gigabyte over these."""
    group = [{"preset": "dgx-h100", "count": 2}, {"gpu": "A100", "gpu_memory_gb": 40, "count": 2}]
    cluster = build_cluster("leaf-spine", servers_per_rack=2, gpus_per_server=8, nic_gbps=100, group=group)
    alone, profile = Estimates(cluster), toy_job("a", 16, message_bytes=1e9).profile
    for gpu, bytes_per_s in (("", 400e9), ("H100", 400e9), ("A100", 12.5e9)):
        placed = {cluster.type_of_gpu(g) for g in example_placement(cluster.of_type(gpu), 16, Spread(2, 1))}
        assert placed == {gpu or "H100"}
        comm_s = alone.of(profile, "toy", Spread(2, 1), gpu).comm_s
        assert comm_s == pytest.approx(30 / 16 * 1e9 / bytes_per_s, rel=1e-9)
