from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.errors import InputError
from weft.model import Compute
from weft.network.estimates import run_alone
from weft.workload.graphs import LayerWork, Work, hybrid
from weft.workload.graphs.hybrid import cut, interleaved, order

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


@settings(max_examples=examples(40), deadline=None)
@given(stages=st.integers(2, 5), groups=st.integers(1, 3), chunks=st.integers(2, 4))
def test_virtual_stages_divide_the_bubble(stages: int, groups: int, chunks: int) -> None:
    """With V equal chunks per stage the bubble of P - 1 is that of chunks: (m V + P - 1) chunk passes of 3 / m s each
    (Narayanan et al. 2021, section 2.2)."""
    m = groups * stages
    work = _work([1.0] * (stages * chunks))
    profile = hybrid(work, pipeline=stages, micro_batches=m, schedule="1f1b", chunks=chunks)
    assert run_alone(profile, FAST).iteration_s == pytest.approx(3.0 * (m * chunks + stages - 1) / m)
    assert profile.gpu_s == pytest.approx(3.0 * stages * chunks)
    assert {task.workers for task in profile.tasks if isinstance(task, Compute)} == {(p,) for p in range(stages)}


def test_virtual_stages_run_as_in_the_papers_figure() -> None:
    """Two stages, four micro-batches, two chunks: the second stage runs micro-batches 0 and 1 through its first chunk,
    then through its second, with three passes ahead of the first backward one."""
    assert interleaved(1, 2, 4, 2)[:6] == [
        ("forward", 0, 0), ("forward", 1, 0), ("forward", 0, 1), ("backward", 0, 1), ("forward", 1, 1),
        ("backward", 1, 1),
    ]  # fmt: skip
    assert [step for step in interleaved(0, 2, 4, 2) if step[0] == "backward"][:4] == [
        ("backward", 0, 1), ("backward", 1, 1), ("backward", 0, 0), ("backward", 1, 0)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "how",
    [
        {"pipeline": 2, "chunks": 2, "micro_batches": 4}, {"pipeline": 1, "chunks": 2, "schedule": "1f1b"},
        {"pipeline": 2, "chunks": 2, "micro_batches": 3, "schedule": "1f1b"},
    ],
)  # fmt: skip
def test_virtual_stages_that_cannot_be_are_refused(how: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="virtual stages"):
        hybrid(_work([1.0] * 4), **how)


@pytest.mark.parametrize(("rate", "iteration_s"), [(2.0, 8.0), (8.0, 2.0), (1e9, 1.5)])
def test_sums_beside_the_computing_take_the_longer_of_the_two(rate: float, iteration_s: float) -> None:
    """Computing takes 0.5 and 1 s, each sum sends 8 bytes: max(0.5, 8 / rate) + max(1, 8 / rate)."""
    work = _work([1.0], activation=8.0)
    profile = hybrid(work, tensor=2, tensor_overlap=True, tensor_demand_bytes_per_s=rate)
    assert run_alone(profile, 1e12).iteration_s == pytest.approx(iteration_s)
    one_by_one = hybrid(work, tensor=2, tensor_demand_bytes_per_s=rate)
    assert run_alone(one_by_one, 1e12).iteration_s == pytest.approx(1.5 + 2 * 8.0 / rate)


def test_gradients_of_a_chunk_go_while_others_are_computed() -> None:
    """Two replicas of two stages with two chunks: gradients of the second chunk are sent during backward passes of the
    first, so that half of the bytes cost no time. A ring of two sends as many bytes as the message has: 4 of each
    chunk, at 8 bytes per second."""
    how: dict[str, Any] = {"pipeline": 2, "data": 2, "chunks": 2, "micro_batches": 4, "schedule": "1f1b"}
    late, early = (hybrid(_work([1.0] * 4, activation=1e-9), **how, overlap=overlap) for overlap in (False, True))
    assert early.message_bytes == pytest.approx(late.message_bytes)
    assert run_alone(late, 8.0).iteration_s - run_alone(early, 8.0).iteration_s == pytest.approx(0.5)
