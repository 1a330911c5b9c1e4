import pytest

from benchmarks import load
from benchmarks.scale import large, run
from weft.errors import InputError


def test_small_run_ends_within_its_means() -> None:
    said: list[str] = []
    figures = run(True, said.append)
    assert figures["jobs"] == 200
    assert figures["iterations"] > 1_000_000
    assert figures["events"] < figures["iterations"] / 10  # most of it is measured or computed, not simulated
    assert figures["cpu_s"] > 0.0
    assert 50.0 < figures["peak_mb"] < 600.0


def test_the_large_size_says_what_four_times_the_work_costs() -> None:
    """Small here: what is said, not how much it is."""
    said: list[str] = []
    figures = large(True, said.append)
    assert said[:2] == ["64 GPUs, 128 jobs ...", "256 GPUs, 512 jobs ..."]
    assert (figures["64_gpus_jobs"], figures["256_gpus_jobs"]) == (128, 512)
    ratio = figures["256_gpus_cpu_s"] / figures["64_gpus_cpu_s"]
    assert figures["cost_of_four_times_the_work"] == pytest.approx(ratio)


def test_a_benchmark_without_a_large_size_says_so() -> None:
    with pytest.raises(InputError, match="bench: engine has no large size; leave --large out"):
        load("engine", large=True)
