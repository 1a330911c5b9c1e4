"""A mix: jobs of several kinds, each with its own model, sizes and lengths."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.workload.generators.test_generators import COMPUTE_S, make
from weft.errors import InputError

BIG: dict[str, Any] = {
    "weight": 1, "model": "vgg16", "gpus": {16: 1, 32: 3}, "iterations": (50, 60), "vc": "training", "priority": 2,
}  # fmt: skip
SMALL: dict[str, Any] = {"weight": 3, "model": "resnet50", "gpus": 2, "duration_median_s": 100.0, "user": "ada"}


def test_each_kind_keeps_what_it_says_of_itself() -> None:
    jobs = make(source="batch", jobs=400, mix=[BIG, SMALL]).jobs
    big = [job for job in jobs if job.model == "vgg16"]
    small = [job for job in jobs if job.model == "resnet50"]
    assert len(big) + len(small) == 400
    assert {(job.vc, job.user, job.priority) for job in big} == {("training", "", 2)}
    assert {(job.vc, job.user, job.priority) for job in small} == {("", "ada", 0)}
    assert {job.gpus for job in big} == {16, 32}
    assert {job.gpus for job in small} == {2}
    assert all(50 <= job.iterations <= 60 for job in big)
    assert len(big) / 400 == pytest.approx(1 / 4, abs=0.07)  # weight 1 of 4
    assert sum(job.gpus == 32 for job in big) / len(big) == pytest.approx(3 / 4, abs=0.13)


def test_the_median_of_a_kind_is_the_median_of_its_lengths() -> None:
    jobs = make(source="batch", jobs=999, mix=[{**SMALL, "duration_sigma": 0.5}]).jobs
    middle_s = sorted(job.iterations for job in jobs)[499] * COMPUTE_S["resnet50"]
    assert middle_s == pytest.approx(100.0, rel=0.06)


def test_a_kind_that_changes_leaves_the_jobs_of_the_others_alone() -> None:
    def of(small: dict[str, Any]) -> list[tuple[int, int]]:
        jobs = make(source="batch", jobs=60, mix=[BIG, small]).jobs
        return [(job.gpus, job.iterations) for job in jobs if job.model == "vgg16"]

    assert of(SMALL) == of({**SMALL, "gpus": {4: 1, 8: 1}, "duration_median_s": 7.0})


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"mix": [BIG], "models": ["vgg16"]}, "models"),
        ({"mix": [BIG], "iterations": (1, 2)}, "iterations"),
        ({"mix": [BIG], "elastic": (1, 2)}, "elastic"),
        ({"mix": [{**BIG, "duration_median_s": 5.0}]}, "either iterations"),
        ({"mix": [{"model": "vgg16"}]}, "either iterations"),
        ({"mix": [{**BIG, "gpus": 0}]}, "0 GPUs"),
        ({"mix": [{**BIG, "gpus": True}]}, "number of GPUs"),
        ({"mix": [{**BIG, "weight": 0}]}, "weight"),
        ({"mix": [BIG], "source": "trace", "trace": "x.csv"}, "mix"),
    ],
)
def test_a_mix_that_says_two_things_is_refused(table: dict[str, Any], key: str) -> None:
    with pytest.raises(ValidationError, match=key):
        make(**{"source": "batch", "jobs": 5, **table})


def test_a_size_beyond_the_cluster_is_refused() -> None:
    with pytest.raises(InputError, match="32 GPUs"):
        make(n_gpus=16, source="batch", jobs=50, mix=[BIG])
