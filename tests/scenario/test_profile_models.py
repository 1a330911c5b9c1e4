"""A scenario's model may be a profile file, found beside the scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import InputError
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, build_workload, check
from weft.workload.measured import Measured
from weft.workload.profiles_io import save_measured

TEXT = """
[cluster]
topology = "single-switch"
servers = 4
gpus_per_server = 1
[workload]
source = "batch"
jobs = 6
models = ["mine.json"]
gpus = {1 = 0.5, 2 = 0.5}
iterations = [10, 20]
[stack]
name = "srsf"
"""


def _scenario(folder: Path) -> Scenario:
    (folder / "s.toml").write_text(TEXT)
    return Scenario.load(folder / "s.toml")


def test_jobs_train_what_the_file_measured(tmp_path: Path) -> None:
    seen = Measured("V100", "fp32", 8, 0.01, 0.02, 0.0, (), 1_000_000, 4e6, memory_bytes=2e9)
    save_measured("mine", [seen], tmp_path / "mine.json")
    scenario = _scenario(tmp_path)
    cluster = build_cluster(scenario)
    check(scenario, cluster)
    jobs = build_workload(scenario, cluster, seed=1).jobs
    assert len(jobs) == 6
    for job in jobs:
        assert job.profile.compute_s == pytest.approx(0.03)
        assert job.profile.message_bytes == (4e6 if job.gpus > 1 else 0)
        assert job.memory_bytes == 2e9


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path)
    with pytest.raises(InputError, match=r"workload\.models.*mine\.json"):
        check(scenario, build_cluster(scenario))
