import pytest

from benchmarks import load
from benchmarks.slurm import Life, _in_vain_s
from testkit.engines import missing_engine
from testkit.sandbox import missing


def test_only_the_time_beside_free_gpus_is_in_vain() -> None:
    """The first waits 1 s for nothing; the second, there from the start, 0.5 s after the first has left its GPU."""
    lives = [Life(0.0, 1.0, 5.0, (0, 1)), Life(0.0, 5.5, 7.0, (1, 2)), Life(6.0, 6.25, 8.0, (3,))]
    assert _in_vain_s(lives) == [1.0, 0.5, 0.25]


def quick() -> dict[str, float]:
    if why := missing():
        missing_engine(f"Slurm ({why})")
    return load("slurm")(True, print)


@pytest.mark.engine
def test_quick_figures() -> None:
    figures = quick()
    assert figures["jobs"] == 24
    assert 0 < figures["decision_p50_s"] <= figures["decision_p99_s"]
    assert 0 < figures["wait_in_vain_max_s"] <= figures["wait_max_s"]


@pytest.mark.engine
@pytest.mark.alone
def test_quick_figures_are_those_of_the_page() -> None:
    figures = quick()
    assert figures["wait_in_vain_max_s"] <= 4.0, "2 s on a quiet machine"
    assert figures["decision_cpu_p99_s"] <= 0.05
