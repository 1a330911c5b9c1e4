import gzip
from pathlib import Path

import polars as pl
import pytest

from tests.workload.traces.examples import EXAMPLES
from weft.errors import EngineError, TraceError
from weft.workload.traces import text as text_module
from weft.workload.traces.reading import detect, read, sample, summary, write
from weft.workload.traces.rows import TRACE, Trace
from weft.workload.traces.text import line_batches

RAW = "job_id,submission_time,duration,num_gpu\n"


def test_a_folder_of_clusters_is_one_trace(tmp_path: Path) -> None:
    (tmp_path / "cluster01.csv.gz").write_bytes(gzip.compress((RAW + "a,5,600,1\nb,6,x,1\n").encode()))
    (tmp_path / "cluster02.csv").write_text(RAW + "c,4,700,2")
    (tmp_path / "195job.csv").write_text(RAW + "d,4,700,2")
    assert detect(tmp_path) == "elasticflow-raw"
    trace = read(tmp_path)
    assert trace.frame.select("job_id", "vc", "line").rows() == [("a", "cluster01", 2), ("c", "cluster02", 2)]
    assert trace.n_rows_in == 3
    assert [(Path(p.file).name, p.line) for p in trace.problems] == [("cluster01.csv.gz", 3)]
    assert trace.notes == ("not read: 195job.csv",)


def test_a_page_beside_a_trace_is_no_trace(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(RAW + "a,5,600,1\n")
    (tmp_path / "README.md").write_text("# Where this comes from\n")
    assert detect(tmp_path) == "elasticflow-raw"
    trace = read(tmp_path)
    assert (trace.n_rows_in, trace.notes) == (1, ("not read: README.md",))


def test_a_folder_without_a_trace_names_its_files(tmp_path: Path) -> None:
    for name in ("one.txt", "two.txt"):
        (tmp_path / name).write_text("nothing\n")
    with pytest.raises(TraceError, match=r"one\.txt, two\.txt"):
        read(tmp_path)
    (tmp_path / "two.txt").write_text("submit_s,gpus\n0,1\n")
    with pytest.raises(TraceError, match=r"one\.txt: no known trace format"):
        read(tmp_path)


def test_ids_that_repeat_between_files_get_the_files_name(tmp_path: Path) -> None:
    for vc in ("aa", "bb"):
        (tmp_path / f"{vc}.trace").write_text("LM (batch size 5)\tcd\t-n\t1\t10\t0\t1\n")
    assert read(tmp_path).frame.select("job_id", "vc").rows() == [("aa/0", "aa"), ("bb/0", "bb")]


def test_a_folder_of_two_formats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(RAW + "a,5,600,1\n")
    (tmp_path / "b.csv").write_text("submit_s,gpus\n0,1\n")
    with pytest.raises(TraceError, match=r"b.csv: is of format plain, others in the folder are elasticflow-raw"):
        read(tmp_path)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: f"{e.format}-{e.name}")
def test_what_is_written_is_read_again(example, ending: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    source = tmp_path / example.name
    source.write_bytes(example.text.encode())
    trace = read(source)
    target = tmp_path / f"out{ending}"
    write(trace, target)
    again = read(target)
    assert again.format == {".csv": "plain", ".parquet": "parquet"}[ending]
    assert again.problems == ()
    assert again.frame.drop("line").equals(trace.frame.drop("line"))


def test_writing_where_one_cannot(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(RAW + "a,5,600,1\n")
    trace = read(path)
    with pytest.raises(TraceError, match=r"must end in .csv or .parquet"):
        write(trace, tmp_path / "a.xlsx")
    for ending in (".csv", ".parquet"):
        with pytest.raises(TraceError, match="can be written"):
            write(trace, tmp_path / "no such folder" / f"a{ending}")


def test_a_sample_is_seeded_keeps_order_and_repeats_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(RAW + "".join(f"j{i},{i},600,1\n" for i in range(50)))
    trace = read(path)
    chosen = sample(trace, 20, seed=3)
    ids = chosen.frame["job_id"].to_list()
    assert len(set(ids)) == 20
    assert chosen.frame["submit_s"].is_sorted()
    assert ids == sample(trace, 20, seed=3).frame["job_id"].to_list()
    assert ids != sample(trace, 20, seed=4).frame["job_id"].to_list()
    assert sample(trace, 50, seed=1).frame.equals(trace.frame)
    for n in (0, 51):
        with pytest.raises(TraceError, match=f"cannot sample {n} jobs of 50"):
            sample(trace, n, seed=1)


def test_a_reader_that_loses_count_is_caught() -> None:
    with pytest.raises(EngineError, match="lost count: 2 rows in, 0 jobs out, 0 reported"):
        Trace(pl.DataFrame(schema=TRACE), "plain", (), 2)


def test_summary_in_numbers(tmp_path: Path) -> None:
    """Two jobs of 1 GPU x 3600 s and one of 4 GPUs x 7200 s in a day: 10 GPU-hours, 10/24 GPUs busy."""
    path = tmp_path / "a.csv"
    path.write_text("submit_s,gpus,duration_s,model\n0,1,3600,m\n100,1,3600,m\n86400,4,7200,n\n5,0,1,n\nx,1,1,n\n")
    facts = summary(read(path))
    assert facts["gpu_hours"] == 10
    assert facts["load_gpus"] == pytest.approx(10 / 24)
    assert facts["span_days"] == 1
    assert facts["gpus"] == {"mean": 2.0, "max": 4, "jobs": {"1": 2, "3-4": 1}}
    assert facts["duration_s"]["median"] == 3600
    assert facts["duration_s"]["p95"] == pytest.approx(3600 + 0.9 * 3600)  # linear interpolation
    assert facts["models"] == {"m": 2, "n": 1}
    assert facts["left_out_because"] == {"uses no GPU": 1}
    assert (facts["rows"], facts["jobs"], facts["damaged"], facts["left_out"]) == (5, 3, 1, 1)


def test_summary_of_no_jobs_has_nulls(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("submit_s,gpus\n")
    facts = summary(read(path))
    assert [facts[k] for k in ("gpus", "duration_s", "gpu_hours", "load_gpus", "span_days")] == [None] * 5


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
