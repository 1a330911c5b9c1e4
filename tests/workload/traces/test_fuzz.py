import gzip
import json
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.workload.traces.examples import EXAMPLES, Example
from weft.errors import InputError
from weft.workload.traces import FORMATS
from weft.workload.traces.reading import detect, read

NASTY = st.sampled_from(
    ["", "nan", "inf", "-inf", "1e309", "-1", "9" * 400, "0x1f", "١٢", "\0", "\ufeff", "'", '"', '""', ",", "\t", "|",
     "None", "2017-99-99 00:00:00", "9999-12-31 23:59:59", "-0", "1.5", "true", "[]", "{",
     "💥", "\u202e", "1_000", " 7 ", "\r"]
)  # fmt: skip
CELL = NASTY | st.integers(-(2**70), 2**70).map(str) | st.floats().map(repr) | st.text(max_size=12)
NAMES = sorted(FORMATS)


def _attempt(content: bytes, format: str | None, on_error: str = "skip") -> None:
    """Read, and check the account; an InputError of one line is the only other way out."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed"
        path.write_bytes(content)
        try:
            trace = read(path, format, on_error=on_error)  # type: ignore[arg-type]
        except InputError as refused:
            _one_line(refused)
            return
        assert trace.n_rows_in == trace.frame.height + len(trace.problems)
        assert on_error == "skip" or trace.n_damaged == 0
        frame = trace.frame
        assert frame["gpus"].null_count() == frame["submit_s"].null_count() == frame["job_id"].null_count() == 0
        assert (frame["gpus"] >= 1).all()
        assert frame["submit_s"].is_finite().all()
        assert (frame["submit_s"] >= 0).all()
        assert (frame["duration_s"].drop_nulls() >= 0).all()
        lines = sorted(frame["line"].to_list() + [p.line for p in trace.problems])
        if trace.format not in ("philly", "dally", "parquet"):
            assert lines == _rows(content, headless=trace.format in ("gavel", "shockwave"))


def _one_line(refused: InputError) -> None:
    assert "\n" not in str(refused)


def _rows(content: bytes, headless: bool) -> list[int]:
    """Line numbers of the rows of a text file, counted without the reader."""
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    rows = [i for i, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1) if _text(line)]
    return rows if headless else rows[1:]


def _text(line: bytes) -> bool:
    try:
        return bool(line.decode().strip())
    except UnicodeDecodeError:
        return True


@given(content=st.binary(max_size=400), format=st.sampled_from([None, *NAMES]))
@example(content=b"[", format="philly")
@example(content=b"[\n", format="dally")
@example(content=b"\xef\xbb\xbf", format="plain")
def test_random_bytes(content: bytes, format: str | None) -> None:
    _attempt(content, format)


@settings(max_examples=examples(80))
@given(sample=st.sampled_from(EXAMPLES), data=st.data(), on_error=st.sampled_from(["skip", "fail"]))
def test_mutated_files(sample: Example, data: st.DataObject, on_error: str) -> None:
    content = bytearray(sample.text.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, max(0, len(content) - 1)))
        kind = data.draw(st.sampled_from(["flip", "insert", "delete", "truncate"]))
        if kind == "flip" and content:
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            content[at:at] = data.draw(CELL).encode("utf-8", "surrogatepass")
        elif kind == "delete":
            del content[at : at + data.draw(st.integers(1, 20))]
        elif kind == "truncate" and data.draw(st.booleans()):
            del content[at:]
    packed = gzip.compress(bytes(content)) if data.draw(st.booleans()) else bytes(content)
    _attempt(packed, data.draw(st.sampled_from([None, sample.format])), on_error)


@settings(max_examples=examples(80))
@given(sample=st.sampled_from([e for e in EXAMPLES if e.text[0] != "["]), data=st.data())
def test_random_rows_under_a_sound_header(sample: Example, data: st.DataObject) -> None:
    """Cells of wrong types, huge numbers, unicode and NUL in an otherwise sound table."""
    lines = sample.text.replace("\r", "").split("\n")
    delimiter = next(d for d in "\t|," if d in lines[0])
    rows = [line.split(delimiter) for line in lines if line]
    for _ in range(data.draw(st.integers(1, 8))):
        row = list(rows[data.draw(st.integers(0 if "\t" in lines[0] else 1, len(rows) - 1))])
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(CELL)
        rows.append(row)
    _attempt("\n".join(delimiter.join(row) for row in rows).encode("utf-8", "surrogatepass"), sample.format)


VALUE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | NASTY
VALUES = st.recursive(VALUE, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=2))


@settings(max_examples=examples(80))
@given(sample=st.sampled_from([e for e in EXAMPLES if e.text[0] == "["]), data=st.data())
def test_json_values_of_wrong_types(sample: Example, data: st.DataObject) -> None:
    jobs = json.loads(sample.text)
    for job in jobs:
        if isinstance(job, dict) and data.draw(st.booleans()):
            job[data.draw(st.sampled_from(sorted(job)))] = data.draw(VALUES)
        for attempt in (
            job.get("attempts") or [] if isinstance(job, dict) and isinstance(job.get("attempts"), list) else []
        ):
            if isinstance(attempt, dict) and data.draw(st.booleans()):
                attempt[data.draw(st.sampled_from(["start_time", "end_time", "detail"]))] = data.draw(VALUES)
    text = json.dumps(jobs, indent=data.draw(st.sampled_from([None, 1])), ensure_ascii=data.draw(st.booleans()))
    content = text.encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed"
        path.write_bytes(content)
        trace = read(path, sample.format)
    assert trace.n_rows_in == len(jobs)
    assert trace.n_rows_in == trace.frame.height + len(trace.problems)


@given(content=st.binary(max_size=200))
def test_detection_names_a_format_or_refuses(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed"
        path.write_bytes(content)
        try:
            assert detect(path) in FORMATS
        except InputError as refused:
            _one_line(refused)


@settings(max_examples=examples(40))
@given(data=st.data())
def test_damaged_parquet(data: st.DataObject) -> None:
    from weft.workload.traces.reading import write

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_text("submit_s,gpus,model\n0,1,m\n5,2,n\n")
        write(read(path), Path(folder) / "a.parquet")
        content = bytearray((Path(folder) / "a.parquet").read_bytes())
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    _attempt(bytes(content[: data.draw(st.integers(4, len(content)))]), "parquet")
