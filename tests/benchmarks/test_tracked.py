import inspect
import math

import pytest

from benchmarks import _tracked, available


def test_every_benchmark_is_tracked_but_the_one_that_starts_a_slurm() -> None:
    """Each by a class of its own, with a setup_cache on a line of its own: asv knows it by that line."""
    classes = [c for c in vars(_tracked).values() if inspect.isclass(c) and hasattr(c, "setup_cache")]
    names = {c.setup_cache.__code__.co_consts[-1] for c in classes}
    assert names == set(available()) - {"slurm", "slurm-queue"}
    assert len({c.setup_cache.__code__.co_firstlineno for c in classes}) == len(classes) == len(names)


def test_less_is_better_in_all() -> None:
    assert _tracked.kept("events_per_s", 4e6) == pytest.approx(0.25)
    assert _tracked.kept("cpu_s", 2.0) == 2.0
    assert math.isnan(_tracked.kept("cold_compile_s", None))
    assert math.isnan(_tracked.Traces().track_figure({}, "helios_venus_cpu_s"))
