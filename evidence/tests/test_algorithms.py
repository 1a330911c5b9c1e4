import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import weft
from evidence.tests.algorithms import AdaSrsf, Admit, Cluster, Job, adadual, at_most, first_fit, lwf
from weft_evidence.ada_srsf.sweeps import paper_scenario

# Table III: model size (MB), memory (MB), forward and backward (ms)
TABLE_III = {
    "vgg16@ada-srsf": (526.4, 4527, 35.8, 53.7),
    "resnet50@ada-srsf": (99.2, 3213, 25.0, 37.4),
    "inception-v3@ada-srsf": (103.0, 3291, 34.9, 52.4),
    "lstm-ptb@ada-srsf": (251.8, 2751, 31.5, 47.3),
}
SIZES = [1] * 12 + [2] * 4 + [4] * 5 + [8] * 6 + [16] * 2 + [32]


def drawn(seed: int) -> list[dict[str, Any]]:
    """30 jobs of up to 8 iterations within 1.5 s: more than memory holds, so that some wait."""
    rng = random.Random(seed)
    sizes = rng.sample(SIZES, len(SIZES))
    return [
        {
            "id": f"j{i:02d}", "model": rng.choice(list(TABLE_III)), "gpus": gpus, "iterations": rng.randint(3, 8),
            "submit_s": rng.uniform(0.0, 1.5),
        }
        for i, gpus in enumerate(sizes)
    ]  # fmt: skip


def second_opinion(
    jobs: list[dict[str, Any]], eta: float, place: Callable[..., list[int]], admit: Admit
) -> list[float]:
    mine = []
    for job in jobs:
        message, memory, forward, backward = TABLE_III[job["model"]]
        per_iteration = (forward / 1e3, backward / 1e3, message * 1e6, memory * 1e6)
        mine.append(Job(job["submit_s"], job["gpus"], job["iterations"], *per_iteration))
    return AdaSrsf(Cluster(16, 4, 6e9, 8.56e-10, eta), mine, place, admit).run()


@pytest.mark.parametrize(
    ("stack", "place", "admit"),
    [
        ("ada-srsf", lwf(1), adadual),
        ("ada-srsf[place=ff]", first_fit, adadual),
        ("ada-srsf[place=ls]", lwf(math.inf), adadual),
        ("ada-srsf[place=lwf:4]", lwf(4), adadual),
        ("srsf-1", lwf(1), at_most(1)),
        ("srsf-2[place=ls]", lwf(math.inf), at_most(2)),
        ("srsf-3[place=ff]", first_fit, at_most(3)),
    ],
)
def test_every_job_ends_at_the_same_moment(stack: str, place: Callable[..., list[int]], admit: Admit) -> None:
    for seed, eta in ((1, 2.35e-10), (2, 0.0)):
        jobs = drawn(seed)
        scenario = paper_scenario(cluster={"gpu_memory_gb": 6}, network={"eta_s_per_byte": eta})
        scenario["workload"] = {"source": "jobs", "job": jobs}
        run = weft.simulate(scenario, stack=stack, seed=0)
        ends = dict(zip(run.jobs["job_id"], run.jobs["finish_s"], strict=True))
        assert [ends[job["id"]] for job in jobs] == pytest.approx(second_opinion(jobs, eta, place, admit), rel=1e-9)
        starts = dict(zip(run.spans["job_id"], run.spans["start_s"], strict=True))
        assert any(starts[job["id"]] > job["submit_s"] for job in jobs)  # somebody waited for memory
