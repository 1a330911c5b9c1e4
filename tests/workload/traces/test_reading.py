import gzip
from pathlib import Path

import polars as pl
import pytest

from tests.workload.traces.examples import EXAMPLES
from weft.errors import EngineError, TraceError
from weft.workload.traces.reading import detect, read, sample, summary, write
from weft.workload.traces.rows import TRACE, Trace

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
