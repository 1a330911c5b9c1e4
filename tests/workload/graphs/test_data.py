import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model import Compute, Transfer
from weft.network.estimates import run_alone
from weft.workload.graphs import LayerWork, Work, data_parallel, gradient_buckets, parameter_server
from weft.workload.profiles.measured import bucket_groups

MIB = 2.0**20


def _work(*layers: tuple[float, float], optimiser_s: float = 0.0) -> Work:
    """Layers of (backward seconds, gradient bytes), first layer first; the forward pass takes half as long."""
    made = tuple(LayerWork(f"l{i}", t / 2, t, (g,), 1.0) for i, (t, g) in enumerate(layers))
    return Work("w", made, 1, optimiser_s)


def test_four_buckets_overlap() -> None:
    """Buckets that send 60, 10, 10, 10 ms and are ready every 25 ms take 115 ms; with a barrier after each, 145."""
    work = _work((0.025, 30e6), (0.025, 30e6), (0.025, 30e6), (0.025, 180e6))  # each fills a bucket
    profile = data_parallel(work, 2, overlap=True)
    # a ring of two sends M per worker: 3 GB per second make 180 MB 60 ms
    alone = run_alone(profile, 3e9)
    assert alone.iteration_s == pytest.approx(0.05 + 0.115)
    at_the_end = run_alone(data_parallel(work, 2), 3e9)
    assert at_the_end.iteration_s == pytest.approx(0.05 + 0.1 + 0.09)


@given(st.lists(st.floats(1, 60e6), min_size=1, max_size=40))
def test_buckets_close_once_they_reach_their_limit(sizes: list[float]) -> None:
    """DDP's rule: the first bucket closes at 1 MiB, the others at 25 MiB, the tensor that crosses the limit inside."""
    groups = bucket_groups(sizes)
    assert [i for group in groups for i in group] == list(range(len(sizes)))
    for n, group in enumerate(groups):
        limit = MIB if n == 0 else 25 * MIB
        assert sum(sizes[i] for i in group[:-1]) < limit
        if n < len(groups) - 1:
            assert sum(sizes[i] for i in group) >= limit


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 50e6)), min_size=1, max_size=12),
    st.integers(2, 6),
    st.floats(0, 0.01),
)
def test_overlap_neither_adds_nor_loses_work(
    layers: list[tuple[float, float]], workers: int, optimiser_s: float
) -> None:
    work = _work(*layers, optimiser_s=optimiser_s)
    plain, overlapped = (data_parallel(work, workers, overlap=o) for o in (False, True))
    assert overlapped.compute_s == pytest.approx(plain.compute_s, abs=1e-12)
    assert overlapped.message_bytes == pytest.approx(plain.message_bytes)
    slow = run_alone(plain, 1e9).iteration_s
    assert run_alone(overlapped, 1e9).iteration_s <= slow + 1e-9


def test_gradients_become_ready_from_the_last_layer() -> None:
    work = _work((0.3, 8 * MIB), (0.2, 2 * MIB))
    assert gradient_buckets(work) == ((2 * MIB, pytest.approx(0.2)), (8 * MIB, pytest.approx(0.5)))


def test_measured_buckets_are_kept() -> None:
    work = _work((0.3, 8 * MIB), (0.2, 2 * MIB))
    measured = Work("w", work.layers, 1, buckets=((4 * MIB, 0.1), (6 * MIB, 0.45)))
    assert gradient_buckets(measured) == ((4 * MIB, 0.1), (6 * MIB, 0.45))
    profile = data_parallel(measured, 2, overlap=True)
    assert [t.seconds for t in profile.tasks if isinstance(t, Compute)] == pytest.approx([0.25, 0.1, 0.35, 0.05])


def test_the_optimiser_waits_for_every_bucket() -> None:
    profile = data_parallel(_work((0.1, 30 * MIB), (0.1, 30 * MIB), optimiser_s=0.02), 2, overlap=True)
    last = profile.tasks[-1]
    assert last.name == "optimiser"
    sends = [i for i, t in enumerate(profile.tasks) if isinstance(t, Transfer)]
    assert sends[-1] in last.after


def test_parameter_servers_are_named_in_the_transfer() -> None:
    (transfer,) = [t for t in parameter_server(_work((0.1, 5.0)), 4, servers=2).tasks if isinstance(t, Transfer)]
    assert (transfer.collective, transfer.servers, transfer.bytes) == ("parameter-server", 2, 5.0)


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="workers"):
        data_parallel(_work((0.1, 5.0)), 0)
    with pytest.raises(InputError, match="servers"):
        parameter_server(_work((0.1, 5.0)), 2, servers=0)
