"""Asking at random moments of a replay whose lengths nothing links: 80 % of starts are to lie between 10 and 90 %."""

from pathlib import Path

import numpy as np
import pytest

from weft.errors import InputError
from weft.stacks import resolve
from weft_live.calibration import Asked, calibrate, replayed, summary


def trace(path: Path, n: int) -> Path:
    """Jobs of one to eight GPUs of which four servers are busy for 93 % of the time."""
    rng = np.random.default_rng(5)
    submit = np.cumsum(rng.exponential(70.0, n))
    rows = [
        f"{i},{at:.3f},{rng.choice([1, 2, 4, 8])},{max(1.0, rng.lognormal(6.0, 0.8)):.3f}"
        for i, at in enumerate(submit.tolist())
    ]
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[Asked]:
    stack = resolve("fifo")
    run = replayed(trace(tmp_path_factory.mktemp("trace") / "jobs.csv", 1000), stack, 1000, 32)
    starts = [float(start) - job.submit_s for start, job in zip(run.starts, run.jobs, strict=True)]
    assert min(starts) >= 0.0
    assert all(claim >= took for claim, took in zip(run.claims, run.took, strict=True))
    return calibrate(run, stack, 40, 12)


def test_ranges_hold_what_they_promise(asked: list[Asked]) -> None:
    """Four standard deviations of a share of 40 independent answers are 0.25."""
    found = summary(asked)
    assert found["asked"] == 40
    assert found["inside"] == pytest.approx(0.8, abs=0.25)


def test_claims_alone_are_later_than_what_comes(asked: list[Asked]) -> None:
    """Jobs end before their limits, so such a start is late, and by more than the middle of the range is off."""
    assert np.mean([one.control >= one.came for one in asked]) > 0.9
    found = summary(asked)
    assert found["median_error_s"] < 0.5 * found["median_error_of_claims_s"]


def test_too_short_a_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        replayed(trace(tmp_path / "jobs.csv", 50), resolve("fifo"), 1000, None)
