from pathlib import Path

import pytest

from benchmarks.titan import _errors, run


def test_without_traces_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    said: list[str] = []
    assert run(True, said.append) == {}
    assert "WEFT_TRACES" in said[-1]


def test_figures_of_a_small_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{i},{i * 10},{(1, 8, 16)[i % 3]},{600 + i}\n" for i in range(12))
    small = tmp_path / "small.csv"
    small.write_text("job_id,submit_s,gpus,duration_s\n" + rows)
    monkeypatch.setattr("benchmarks.titan.TRACES", {"small": "small.csv", "none": "none.csv"})
    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    said: list[str] = []
    figures = run(True, said.append)
    assert figures["small_jobs"] == 12
    assert 0 < figures["small_decision_p99_ms"] <= figures["small_decision_max_ms"]
    assert 0 < figures["small_peak_gb"] < 8
    assert any("none.csv is not in" in line for line in said)
    error = _errors("small.csv", said.append)
    assert error["slice_sharing_jobs"] == 4  # those of 16 GPUs
    assert error["error_jct_mean"] <= error["error_jct_mean_worst"] <= 0.02
    assert error["spread_of_a_job_p95"] <= 1e-9  # whoever is alone, or repeats, is where it was
