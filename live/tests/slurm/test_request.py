from pathlib import Path

import pytest

from weft.errors import InputError
from weft.testing import toy_cluster
from weft_live.server.profiles import Profiles
from weft_live.slurm.records import Record
from weft_live.slurm.request import KEYS, describe, said_in

JOB = Record("17", "17", "PENDING", False, True, name="train.sh", user="ada", gpus_per_job=8, tasks=8)
PROFILES = Profiles(toy_cluster())


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("", {}),
        ("mine, all mine", {}),
        ("weft: model=resnet50 iterations=10", {"model": "resnet50", "iterations": "10"}),
        ("nightly; weft: model=vgg16,iterations=5; thanks", {"model": "vgg16", "iterations": "5"}),
        ("weft:restarts=2 weft: gpus=2-8", {"restarts": "2", "gpus": "2-8"}),
        ("iterations=10", {}),
    ],
)
def test_comments(comment: str, said: dict[str, str]) -> None:
    assert said_in(comment) == said


def told(comment: str, time_limit_s: float | None = None) -> tuple[int, float, str]:
    """Iterations, seconds of one, model."""
    record = Record(**{**{f: getattr(JOB, f) for f in JOB.__slots__}, "comment": comment, "time_limit_s": time_limit_s})
    made = describe(record, "17", PROFILES)
    assert (made.gpus, made.user, made.argv, made.env["tasks"]) == (8, "ada", ("sbatch", "train.sh"), "8")
    return made.iterations, made.iteration_s, made.model


def test_what_is_absent_follows_from_the_time_limit() -> None:
    assert told("", 3600.0) == (3600, 1.0, "")
    assert told("") == (86400, 1.0, "")
    assert told("weft: iterations=100", 50.0) == (100, 0.5, "")
    assert told("weft: iteration_s=0.5", 50.0) == (100, 0.5, "")
    assert told("weft: iterations=7 iteration_s=2", 50.0) == (7, 2.0, "")
    iterations, seconds, model = told("weft: model=resnet50", 100.0)
    assert (seconds, model) == (0.0, "resnet50")
    assert iterations == round(100.0 / PROFILES("resnet50", 8).compute_s)


def test_an_elastic_range_is_kept() -> None:
    record = Record("17", "17", "PENDING", False, True, gpus_per_job=8, comment="weft: gpus=2-16")
    job = describe(record, "17", PROFILES).job(0.0, PROFILES)
    assert (job.min_gpus, job.gpus, job.max_gpus) == (2, 8, 16)


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("weft: colour=red", "says colour=, which weft does not know; it knows model, iterations"),
        ("weft: iterations=many", "says iterations=many; give a whole number"),
        ("weft: iteration_s=-1", "says iteration_s=-1; give seconds"),
        ("weft: iteration_s=nan", "says iteration_s=nan; give seconds"),
        ("weft: iteration_s=1e-310", "says iteration_s=1e-310; give seconds, a microsecond at least"),
        ("weft: iteration_s=1e-310 iterations=5", "give seconds, a microsecond at least"),
        ("weft: gpus=9-12", "says gpus=9-12; give a range around the 8 it asks for"),
        ("weft: model=resnet51", "'resnet51' is not in the zoo"),
        ("weft: checkpoint_every=0", "checkpoint_every is 0"),
    ],
)
def test_what_makes_no_sense_is_refused(comment: str, words: str) -> None:
    record = Record("17", "17", "PENDING", False, True, gpus_per_job=8, comment=comment)
    with pytest.raises(InputError, match=words):
        describe(record, "17", PROFILES).job(0.0, PROFILES)


def test_every_word_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "slurm.md").read_text(encoding="utf-8")
    table = page.partition("| word | meaning |")[2].partition("\n\n")[0]
    assert [key for key in KEYS if f"`{key}`" not in table] == []
