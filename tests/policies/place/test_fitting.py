from dataclasses import replace

import pytest

from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import NodeDown, Start, Submitted
from weft.model.view import JobView
from weft.policies.place.base import Place
from weft.policies.place.fitting import FirstFit, RandomPlace
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def placed(place: str, *jobs: tuple[str, int, float]) -> dict[str, tuple[int, ...]]:
    core = Core(resolve("fifo-backfill", place=place), ToyWorld(toy_cluster(), []))
    events = [Submitted(0.0, toy_job(name, gpus, memory_bytes=memory)) for name, gpus, memory in jobs]
    decisions = core.step(0.0, [NodeDown(0.0, 0), *events])
    return {d.job: d.gpus for d in decisions if isinstance(d, Start)}


def test_next_to_each_other_and_not_on_a_lost_server() -> None:
    assert placed("first-fit", ("a", 3, 1e9), ("b", 2, 1e9)) == {"a": (4, 5, 6), "b": (7, 8)}


def test_shared_while_memory_lasts() -> None:
    """16 GB each: 10 and 6 GB share, the next 6 GB go one further."""
    jobs = (("a", 2, 10e9), ("b", 1, 6e9), ("c", 2, 6e9))
    assert placed("first-fit:shared", *jobs) == {"a": (4, 5), "b": (4,), "c": (5, 6)}


def test_parameter() -> None:
    with pytest.raises(StackError, match="not known"):
        FirstFit.from_text("x")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (FirstFit(), "are free"),
        (RandomPlace(), "are free"),
        (FirstFit(shares_gpus=True), "have memory for it"),
        (RandomPlace(shares_gpus=True), "have memory for it"),
    ],
)
def test_what_is_missing_is_said(place: Place, words: str) -> None:
    """On a cluster full of 10 GB jobs another of 10 GB finds no GPU, free or shared."""
    view = Core(resolve("fifo"), ToyWorld(toy_cluster(), [])).view
    offer = view.offer
    full = replace(offer, residents=offer.residents + 1, memory=offer.memory - 10e9, n_free=0)
    job = JobView(toy_job("b", 2, memory_bytes=10e9))
    answer = place.place(view, job, 2, full, {})
    assert answer.gpus is None
    assert answer.reason == f"wants 2 GPUs, fewer {words}"
