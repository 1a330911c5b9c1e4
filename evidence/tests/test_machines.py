from dataclasses import replace

import polars as pl
import pytest

from weft.results.run import DECISIONS, ITERATIONS, JOBS, LINKS, SPANS, RunResult
from weft_evidence.machines import machine_use, mean, overhead_bytes, profit_rate, total


def run() -> RunResult:
    """Two machines of 4: a on both (2 + 1 GPUs) from 0 to 10 s, b on the second (1) from 5 to 15 s."""
    spans = pl.DataFrame(
        {
            "job_id": ["a", "b"], "start_s": [0.0, 5.0], "end_s": [10.0, 15.0], "gpus": [[0, 1, 4], [5]],
            "end": ["finished", "finished"],
        },
        schema=SPANS,
    )  # fmt: skip
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"], "gpus": [3, 1], "submit_s": [0.0, 5.0], "start_s": [0.0, 5.0],
            "finish_s": [10.0, 15.0], "run_s": [10.0, 10.0], "comm_s": [4.0, 0.0], "gpu_s": [18.0, 10.0],
            "iterations": [20, 10],
        }
    )  # fmt: skip
    jobs = jobs.select(
        [pl.col(c).cast(t) if c in jobs.columns else pl.lit(None, t).alias(c) for c, t in JOBS.items()]  # type: ignore[arg-type]
    )
    iterations = pl.DataFrame(
        {"job_id": ["a", "a"], "duration_s": [0.25, 0.75], "count": [10.0, 10.0]}, schema=ITERATIONS
    )
    return RunResult(
        "s", "titan", 0, jobs, iterations, pl.DataFrame(schema=LINKS), pl.DataFrame(schema=DECISIONS), spans, 8, 0,
        True, 0.0, server_of_gpu=(0, 0, 0, 0, 1, 1, 1, 1),
    )  # fmt: skip


def test_used_machines_and_hours() -> None:
    """Two until 10 s, one until 15 s: 25 machine seconds."""
    use = machine_use(run())
    assert use.used.time_s.tolist() == [0.0, 5.0, 10.0, 15.0]
    assert use.used.value.tolist() == [2.0, 2.0, 1.0, 0.0]
    assert use.machine_hours == pytest.approx(25.0 / 3600.0)
    assert mean(use.used, use.used) == pytest.approx(25.0 / 15.0)


def test_fragmentation() -> None:
    """Idle parts: (2/4 + 3/4) / 2, then (2/4 + 2/4) / 2, then 3/4."""
    use = machine_use(run())
    assert use.fragmentation.value.tolist() == pytest.approx([0.625, 0.5, 0.75, 0.0])


def test_what_is_kept_idle_uses_machines() -> None:
    """b keeps GPU 3 beside its own: the first machine is used until 15 s."""
    use = machine_use(run(), {"b": [3]})
    assert use.used.value.tolist() == [2.0, 2.0, 2.0, 0.0]
    assert use.fragmentation.value.tolist() == pytest.approx([0.625, 0.5, 0.875, 0.0])


def test_overhead() -> None:
    steps = overhead_bytes(run(), lambda job, gpus: {"a": 7.0, "b": 1.0}[job])
    assert steps.value.tolist() == [7.0, 8.0, 1.0, 0.0]
    assert total(steps) == pytest.approx(5 * 7 + 5 * 8 + 5 * 1)


def test_overhead_of_a_job_that_moves() -> None:
    """A job sends what it sends where it is: here 100 bytes for each machine beyond its first, and a moves at 5 s."""
    once = run()
    spans = pl.DataFrame(
        {
            "job_id": ["a", "a", "b"], "start_s": [0.0, 5.0, 5.0], "end_s": [5.0, 10.0, 15.0],
            "gpus": [[0, 1, 4], [0, 1, 2], [5]], "end": ["stopped", "finished", "finished"],
        },
        schema=SPANS,
    )  # fmt: skip
    moved = replace(once, spans=spans)
    steps = overhead_bytes(moved, lambda job, gpus: 100.0 * (len({g // 4 for g in gpus}) - 1))
    assert steps.value.tolist() == [100.0, 0.0, 0.0, 0.0]


def test_profit_rate() -> None:
    """a computes 1.8 GPUs' worth, b 1: 1.8 / 2, 2.8 / 2, 1 / 1 units per machine and hour."""
    rate = profit_rate(run(), machine_use(run()))
    assert rate.value.tolist() == pytest.approx([0.9, 1.4, 1.0, 0.0])


def test_what_is_thrown_away_is_not_paid_for() -> None:
    """8 of the 18 GPU seconds of a were lost by stops: 1 instead of 1.8."""
    made = run()
    made = replace(made, jobs=made.jobs.with_columns(lost_gpu_s=pl.Series([8.0, None], dtype=pl.Float64)))
    assert profit_rate(made, machine_use(made)).value.tolist() == pytest.approx([0.5, 1.0, 1.0, 0.0])
