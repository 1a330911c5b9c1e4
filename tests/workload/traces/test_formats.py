import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workload.traces.examples import EXAMPLES, PHILLY, Example
from weft.errors import TraceError
from weft.workload.traces import FORMATS
from weft.workload.traces import text as text_module
from weft.workload.traces.reading import detect, read
from weft.workload.traces.rows import TRACE
from weft.workload.traces.text import elements

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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def _write(folder: Path, text: str) -> Path:
    path = folder / "list.json"
    path.write_text(text, encoding="utf-8")
    return path


@given(values=st.lists(st.dictionaries(st.text(max_size=5), JSON, max_size=4), max_size=6), chunk=st.integers(1, 40),
       indent=st.sampled_from([None, 0, 1, 4]))  # fmt: skip
def test_same_as_the_json_module(
    tmp_path_factory: pytest.TempPathFactory, values: list[object], chunk: int, indent: int | None
) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    path = _write(tmp_path_factory.mktemp("json"), text)
    before = text_module.CHUNK
    text_module.CHUNK = chunk
    try:
        found = list(elements(path))
    finally:
        text_module.CHUNK = before
    assert [value for _, value in found] == values
    if indent == 1:
        assert [line for line, _ in found] == [i for i, row in enumerate(text.split("\n"), 1) if row.startswith(" {")]


def test_a_broken_element_is_one_report_and_reading_goes_on(tmp_path: Path) -> None:
    lines = json.dumps([{"a": 1}, {"a": {"b": [2, 3]}}, {"a": 4}], indent=2).split("\n")
    broken = lines.index('      "b": [')
    lines[broken] = '      "b: ['
    found = list(elements(_write(tmp_path, "\n".join(lines))))
    assert [line for line, _ in found] == [2, 5, lines.index('    "a": 4')]
    assert found[0][1] == {"a": 1}
    assert isinstance(found[1][1], str)
    assert f"in line {broken + 1}" in found[1][1]
    assert found[2][1] == {"a": 4}


def test_a_list_that_breaks_off(tmp_path: Path) -> None:
    text = json.dumps([{"a": 1}, {"a": 2}], indent=2)
    for end, sound in ((text.index("2") + 1, 1), (text.rindex("}") + 1, 2), (text.index(",") + 1, 1)):
        found = [value for _, value in elements(_write(tmp_path, text[:end]))]
        assert found[:sound] == [{"a": 1}, {"a": 2}][:sound]
        assert len(found) == sound + 1
        assert isinstance(found[-1], str)


def test_broken_in_one_line_is_fatal(tmp_path: Path) -> None:
    path = _write(tmp_path, '[{"a": 1}, {"a": }, {"a": 3}]')
    with pytest.raises(TraceError, match=r":1: is not JSON .* mend the file"):
        list(elements(path))


@pytest.mark.parametrize("text", ["", "{}", "null", '"a"', "x"])
def test_not_a_list(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a JSON list"):
        list(elements(_write(tmp_path, text)))


@pytest.mark.parametrize("inside", ["[" * 100_000, "9" * 10_000, '{"a": ' * 50_000])
def test_depth_and_digits_do_not_overflow(inside: str, tmp_path: Path) -> None:
    found = list(elements(_write(tmp_path, f'[\n {{"a": 0}},\n {inside}\n,\n {{"a": 1}}\n]')))
    assert found[0] == (2, {"a": 0})
    assert isinstance(found[1][1], str)


def test_an_unended_string_does_not_read_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "CHUNK", 100)
    monkeypatch.setattr(text_module, "MAX_ELEMENT", 1000)
    jobs = [{"a": i, "text": "x" * 20} for i in range(500)]
    text = json.dumps(jobs, indent=1).replace('"a": 7,', '"a: 7,')
    found = list(elements(_write(tmp_path, text)))
    assert len(found) == 500
    assert [i for i, (_, value) in enumerate(found) if isinstance(value, str)] == [7]
