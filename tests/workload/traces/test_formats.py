import gzip
from pathlib import Path

import pytest

from tests.workload.traces.examples import EXAMPLES, PHILLY, Example
from weft.errors import TraceError
from weft.workload.traces import FORMATS
from weft.workload.traces.reading import detect, read
from weft.workload.traces.rows import TRACE

IDS = [f"{e.format}-{e.name}" for e in EXAMPLES]


def test_every_format_has_an_example() -> None:
    assert {e.format for e in EXAMPLES} | {"parquet"} == set(FORMATS)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_jobs_and_reports(example: Example, tmp_path: Path) -> None:
    path = tmp_path / example.name
    path.write_bytes(example.text.encode())
    assert detect(path) == example.format
    trace = read(path)
    assert trace.format == example.format
    assert list(trace.jobs()) == example.jobs
    assert [(p.line, p.field, p.left_out) for p in trace.problems] == example.reported
    assert trace.n_rows_in == len(example.jobs) + len(example.reported)
    assert trace.start == example.start
    assert dict(trace.frame.schema) == TRACE
    assert all(p.message and p.file == str(path) for p in trace.problems)


@pytest.mark.parametrize("example", EXAMPLES, ids=IDS)
def test_gzip_is_seen_through(example: Example, tmp_path: Path) -> None:
    path = tmp_path / (example.name + ".gz")
    path.write_bytes(gzip.compress(example.text.encode()))
    assert list(read(path).jobs()) == example.jobs


@pytest.mark.parametrize("example", [e for e in EXAMPLES if any(not r[2] for r in e.reported)], ids=lambda e: e.name)
def test_a_damaged_row_is_fatal_if_asked(example: Example, tmp_path: Path) -> None:
    path = tmp_path / example.name
    path.write_bytes(example.text.encode())
    line = next(line for line, _, left_out in example.reported if not left_out)
    with pytest.raises(TraceError, match=rf"{example.name}:{line}: ") as error:
        read(path, on_error="fail")
    assert "\n" not in str(error.value)


def test_left_out_rows_are_not_fatal(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,gpus,duration_s\n0,0,5\n1,1,5\n")
    trace = read(path, on_error="fail")
    assert (trace.frame.height, trace.n_left_out, trace.n_damaged) == (1, 1, 0)


def test_philly_attempts_add_up_or_the_last_counts(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(PHILLY)
    assert [j.duration_s for j in read(path, attempts="all").jobs()] == [60 + 600]
    assert [j.duration_s for j in read(path, attempts="last").jobs()] == [600]


def test_kalos_durations_are_computed_not_copied(tmp_path: Path) -> None:
    """The duration column of Kalos is end - submit (70 s here); the job ran for end - start = 60 s."""
    example = next(e for e in EXAMPLES if e.name == "trace_kalos.csv")
    path = tmp_path / example.name
    path.write_text(example.text)
    assert read(path).frame["duration_s"].to_list() == [60.0]


def test_notes_count_what_the_schema_cannot_say(tmp_path: Path) -> None:
    for name, note in (("pods.csv", "1 pods use a share"), ("venus.csv", "1 jobs have a duration cut at 48 h")):
        example = next(e for e in EXAMPLES if e.name == name)
        path = tmp_path / name
        path.write_bytes(example.text.encode())
        assert any(note in text for text in read(path).notes)


def test_every_format_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "traces.md").read_text()
    assert [name for name in FORMATS if f"`{name}`" not in text] == []
