import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model import Compute
from weft.network.estimates import run_alone
from weft.workload.graphs import LayerWork, Work, hybrid
from weft.workload.graphs.hybrid import cut, order

FAST = 1e15  # a network that takes no time


def _work(times: list[float], activation: float = 1.0) -> Work:
    layers = tuple(LayerWork(f"l{i}", t, 2 * t, (4.0,), activation, summed=True) for i, t in enumerate(times))
    return Work("w", layers, 1)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
@settings(max_examples=examples(30), deadline=None)
@given(stages=st.integers(1, 5), micro_batches=st.integers(1, 6))
def test_a_balanced_pipeline_has_the_known_bubble(schedule: str, stages: int, micro_batches: int) -> None:
    """With equal stages an iteration takes (m + P - 1) / m of a stage's time (GPipe, section 2; same for 1F1B)."""
    profile = hybrid(_work([1.0] * stages), pipeline=stages, micro_batches=micro_batches, schedule=schedule)
    m = micro_batches if stages > 1 else 1
    assert run_alone(profile, FAST).iteration_s == pytest.approx(3.0 * (m + stages - 1) / m)
    assert profile.gpu_s == pytest.approx(3.0 * stages)


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=9), st.integers(1, 5))
def test_stages_are_the_best_cut(times: list[float], count: int) -> None:
    """No other cut into as many runs has a faster slowest stage (tried by brute force)."""
    count = min(count, len(times))
    stages = cut(_work(times), count)
    assert sum(s.forward_s for s in stages) == pytest.approx(sum(times))
    assert max(s.forward_s for s in stages) == pytest.approx(_best(times, count))


def _best(times: list[float], count: int) -> float:
    if count == 1:
        return sum(times)
    ends = range(1, len(times) - count + 2)
    return min(max(sum(times[:e]), _best(times[e:], count - 1)) for e in ends)


def test_gpipe_runs_all_forward_passes_first_and_1f1b_alternates() -> None:
    f, b = "forward", "backward"
    assert order("gpipe", 0, 2, 3) == [(f, 0), (f, 1), (f, 2), (b, 0), (b, 1), (b, 2)]
    assert order("1f1b", 0, 2, 3) == [(f, 0), (f, 1), (b, 0), (f, 2), (b, 1), (b, 2)]
    assert order("1f1b", 1, 2, 3) == [(f, 0), (b, 0), (f, 1), (b, 1), (f, 2), (b, 2)]


def test_neighbours_are_the_workers_that_talk_most() -> None:
    """Rank (d P + p) T + t: tensor-parallel workers side by side, then the stages of one replica."""
    profile = hybrid(_work([1.0] * 4), tensor=2, pipeline=2, data=2)
    first = {t.workers for t in profile.tasks if isinstance(t, Compute)}
    assert first == {(0, 1), (2, 3), (4, 5), (6, 7)}
    groups = {t.workers for t in profile.tasks if t.name.startswith("all-reduce")}
    assert groups == {(0, 4), (1, 5), (2, 6), (3, 7)}


def test_tensor_parallel_workers_share_the_computing() -> None:
    profile = hybrid(_work([1.0, 1.0], activation=8.0), tensor=4)
    assert profile.compute_s == pytest.approx(6.0 / 4)
    assert profile.message_bytes == pytest.approx(2 * 2 * 8.0)


def test_a_demand_caps_the_sums_of_activations() -> None:
    """8 bytes of activations on a ring of 2 are 8 bytes sent each way and pass: 4 s each at 2 bytes per second."""
    profile = hybrid(_work([1.0], activation=8.0), tensor=2, tensor_demand_bytes_per_s=2.0)
    assert run_alone(profile, 1e6).iteration_s == pytest.approx(1.5 + 2 * 4.0)


@pytest.mark.parametrize("what", ["tensor", "pipeline", "data", "micro_batches"])
def test_less_than_one_is_refused(what: str) -> None:
    with pytest.raises(InputError, match=what):
        hybrid(_work([1.0, 1.0]), **{what: 0})


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(InputError, match="3 pipeline stages for 2 layers"):
        hybrid(_work([1.0, 1.0]), pipeline=3)


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(InputError, match="gpipe"):
        hybrid(_work([1.0, 1.0]), pipeline=2, schedule="zigzag")
