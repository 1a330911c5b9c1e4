import gzip
from pathlib import Path

import pytest

from weft.errors import TraceError
from weft.workload.traces import text as text_module
from weft.workload.traces.reading import detect, read
from weft.workload.traces.text import line_batches

HEADER = b"submit_s,gpus,duration_s,user\n"


def _problems(path: Path) -> list[tuple[int, str, str]]:
    return [(p.line, p.field, p.message) for p in read(path, "plain").problems]


def test_lines_do_not_depend_on_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone\r\ntwo ä\n\nfour".encode())
    expected = [(1, "one"), (2, "two ä"), (3, ""), (4, "four")]
    for size in (1, 2, 3, 7, 1000):
        monkeypatch.setattr(text_module, "CHUNK", size)
        found = [(n + i, line) for n, lines in line_batches(path) for i, line in enumerate(lines)]
        if size >= 3:  # the byte-order mark is looked for in the first chunk
            assert found == expected
        else:
            assert found[1:] == expected[1:]


def test_bytes_that_are_no_text_cost_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER + b"0,1,5,\xff\xfe\n1,1,5,ok\n")
    assert _problems(path) == [(2, "", "is not UTF-8 text")]


def test_an_open_quote_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER + b'0,1,5,"open\n1,1,5,"a ""b"", c"\n2,1,5,d\n')
    trace = read(path)
    assert [p.line for p in trace.problems] == [2]
    assert trace.frame["user"].to_list() == ['a "b", c', "d"]


def test_a_row_of_another_width_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER + b"0,1,5\n1,1,5,x,y\n\n   \n2,1,5,z\n")
    assert _problems(path) == [(2, "", "has 3 fields instead of 4"), (3, "", "has 5 fields instead of 4")]
    assert read(path).n_rows_in == 3  # blank lines are no rows


def test_numbers_out_of_bounds(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = ["nope,1,5,", "0,1.5,5,", "0,1,-1,", "0,1,inf,", "0,9e99,5,", "0,1,0x10,", "1e13,1,5,", "nan,1,5,", "0,,5,"]
    path.write_bytes(HEADER + "\n".join(rows).encode())
    assert [(line, field) for line, field, _ in _problems(path)] == [
        (2, "submit_s"), (3, "gpus"), (4, "duration_s"), (5, "duration_s"), (6, "gpus"), (7, "duration_s"),
        (8, "submit_s"), (9, "submit_s"), (10, "gpus"),
    ]  # fmt: skip
    assert "'nope' is not a number" in _problems(path)[0][2]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\n\n  \n", "empty"),
        (b"a,b,c\n1,2,3\n", "no known trace format begins with 'a,b,c'"),
        (bytes(range(256)), "no known trace format"),
        (gzip.compress(HEADER + b"0,1,5,x\n" * 20_000)[:-20], "cannot be read beyond line"),
        (b"\x1f\x8bnonsense", "cannot be read beyond line"),
        (HEADER + b"0,1,5," + b"x" * (1 << 21), "is over 1048576 bytes long"),
        (b"submit_s,gpus,gpus\n0,1,1\n", "has column 'gpus' twice"),
        (b"[1, 2", "no known trace format"),
        (b"PAR1 and no more", "cannot be read as Parquet"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=words) as error:
        read(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(TraceError, match="holds no file"):
        read(tmp_path)
    with pytest.raises(TraceError, match="null"):
        detect("nul\0.csv")


def test_a_format_can_be_forced_and_is_then_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"job_id,arrival_s,service_sec,gpu_count\nx,0,5,1\n")
    assert read(path, "pai").format == "pai"
    with pytest.raises(TraceError, match="no column gpus, submit_s in the header") as error:
        read(path, "plain")
    assert "plain" in str(error.value)
    with pytest.raises(TraceError, match="no column Submit, JobID or JobIDRaw, AllocTRES or ReqTRES"):
        read(path, "slurm")
    with pytest.raises(TraceError, match="'pay' is unknown; use one of"):
        read(path, "pay")
    (tmp_path / "b").write_bytes(b"a\tb\tc\td\n")
    with pytest.raises(TraceError, match="4 fields; format gavel has 7 or 10"):
        read(tmp_path / "b", "gavel")


def test_header_only_is_a_trace_of_no_jobs(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER)
    trace = read(path)
    assert (trace.n_rows_in, trace.frame.height, trace.problems) == (0, 0, ())


def test_rows_beyond_one_batch_keep_their_lines(tmp_path: Path) -> None:
    n = 45_000  # more than two batches
    rows = [f"{i},1,5,u" for i in range(n)]
    rows[41_234] = "x,1,5,u"
    path = tmp_path / "a.csv"
    path.write_bytes(HEADER + "\n".join(rows).encode())
    trace = read(path)
    assert [p.line for p in trace.problems] == [41_236]
    assert trace.frame.height == n - 1
    assert trace.frame["line"].to_list() == [i + 2 for i in range(n) if i != 41_234]
    assert trace.frame["job_id"][-1] == str(n - 1)
