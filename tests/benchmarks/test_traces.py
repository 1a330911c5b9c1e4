"""The benchmark of trace reading: what it reads and counts; how fast it is, is for `python -m benchmarks` to say."""

from pathlib import Path

import pytest

from benchmarks import load


def test_jobs_and_seconds_of_the_traces_that_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "elasticflow" / "raw"
    folder.mkdir(parents=True)
    for n in (1, 2):
        rows = "".join(f"{n}-{i},{60 * i},700,4\n" for i in range(n))
        (folder / f"cluster0{n}.csv").write_text("job_id,submission_time,duration,num_gpu\n" + rows)
    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    said: list[str] = []
    figures = load("traces")(False, said.append)
    assert list(figures) == ["elasticflow_raw_jobs", "elasticflow_raw_cpu_s"]
    assert figures["elasticflow_raw_jobs"] == 3
    assert figures["elasticflow_raw_cpu_s"] > 0
    assert len(said) == 4  # a line for each trace that is missing
    assert all(line.endswith(": left out") for line in said)


def test_without_traces_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    said: list[str] = []
    assert load("traces")(True, said.append) == {}
    assert "WEFT_TRACES is not set" in said[0]
