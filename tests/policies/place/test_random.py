from collections import Counter

import pytest

from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Start, Submitted
from weft.policies.place.fitting import RandomPlace
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def draw(seed: int, *names: str) -> dict[str, tuple[int, ...]]:
    core = Core(resolve("fifo", place="random"), ToyWorld(toy_cluster(), []), seed=seed)
    decisions = core.step(0.0, [Submitted(0.0, toy_job(name, 2)) for name in names])
    return {d.job: d.gpus for d in decisions if isinstance(d, Start)}


def test_every_gpu_has_the_same_chance() -> None:
    """400 draws of 2 of 16: 50 each, standard deviation 6.6; 5 of those either way."""
    counts = Counter(gpu for seed in range(400) for gpu in draw(seed, "a")["a"])
    assert set(counts) == set(range(16))
    assert all(abs(count - 50) < 33 for count in counts.values())


def test_what_a_job_is_given_does_not_depend_on_its_number_in_line() -> None:
    alone = draw(1, "b")["b"]
    behind = draw(1, "a", "b")
    assert set(behind["a"]).isdisjoint(behind["b"])
    assert draw(1, "b", "c")["b"] == alone


def test_ranks_follow_the_numbers() -> None:
    assert all(list(gpus) == sorted(gpus) for gpus in draw(7, "a", "b", "c").values())


def test_parameter() -> None:
    with pytest.raises(StackError, match="not known"):
        RandomPlace.from_text("x")
