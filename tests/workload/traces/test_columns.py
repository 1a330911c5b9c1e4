"""Tables of jobs: columns guessed or said, times and lengths in the forms that sites write."""

from pathlib import Path

import pytest

from weft.advise import Flags, Request, advise
from weft.advise.jobs import first_problem, read_jobs
from weft.errors import InputError
from weft.workload.traces.columns import guess, parse_map, read_table


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_table_of_dates_and_clock_times(tmp_path: Path) -> None:
    text = (
        "Job Name;Submitted;Started;Run Time;GPUs;Owner\n"
        "a;2024-05-01 10:00:00;2024-05-01 10:05:00;1-02:00:00;8;ann\n"
        "b;2024-05-01 10:00:30;2024-05-01 10:00:30;00:10:00;1;bob\n"
        "c;2024-05-01 10:01:00;2024-05-01 10:05:00;00:10:00;0;bob\n"
    )
    trace, mapping = read_table(write(tmp_path / "t.csv", text), {})
    assert mapping == {
        "job_id": "Job Name", "submit": "Submitted", "start": "Started", "duration": "Run Time", "gpus": "GPUs",
        "user": "Owner",
    }  # fmt: skip
    rows = trace.frame.select("job_id", "submit_s", "gpus", "duration_s", "user", "wait_s").rows()
    assert rows == [("a", 0.0, 8, 93_600.0, "ann", 300.0), ("b", 30.0, 1, 600.0, "bob", 0.0)]
    assert [(p.line, p.left_out) for p in trace.problems] == [(4, True)]  # it uses no GPU


def test_a_length_from_start_and_end_in_milliseconds(tmp_path: Path) -> None:
    text = "id,arrival,begin,finish,num_gpus\n1,1714550400000,1714550460000,1714554060000,4\n2,1714550401000,,,4\n"
    trace, mapping = read_table(write(tmp_path / "t.csv", text), {})
    assert trace.frame.select("job_id", "submit_s", "duration_s", "wait_s").rows() == [("1", 0.0, 3600.0, 60.0)]
    assert "has no length" in str(trace.problems[0])
    assert mapping["end"] == "finish"


def test_one_cell_that_is_no_number_is_damage_and_not_another_format(tmp_path: Path) -> None:
    lengths = ["n/a" if i == 7 else str(1000 + i) for i in range(40)]
    rows = [f"j{i},{i * 60},1,{length}" for i, length in enumerate(lengths)]
    (tmp_path / "log.csv").write_text("\n".join(["name,arrival,num_gpus,elapsed", *rows]) + "\n")
    trace, _ = read_table(tmp_path / "log.csv", {})
    assert trace.frame.height == 39
    assert trace.n_damaged == 1
    assert trace.frame["duration_s"][0] == 1000.0


def test_a_length_in_the_unit_that_its_column_is_called_by(tmp_path: Path) -> None:
    text = "id,queued_at,n_gpu,duration_min,wait (hours)\n1,03/27/2024 05:37 AM,4,90,0.5\n2,03/27/2024 01:07 PM,4,2,0\n"
    said = {"duration": "duration_min", "wait": "wait (hours)"}
    trace, mapping = read_table(write(tmp_path / "t.csv", text), said)
    rows = trace.frame.select("submit_s", "duration_s", "wait_s").rows()
    assert rows == [(0.0, 5400.0, 1800.0), (27_000.0, 120.0, 0.0)]
    assert (mapping["duration"], mapping["wait"]) == ("duration_min (minutes)", "wait (hours) (hours)")
    assert (mapping["submit"], mapping["gpus"]) == ("queued_at", "n_gpu")
    text = "id,submit,gpus,training\n" + "".join(f"{day},{day}/03/2024 10:00:00,1,5\n" for day in range(1, 29))
    trace, _ = read_table(write(tmp_path / "u.csv", text), {"duration": "training"})
    assert trace.frame["submit_s"].to_list() == [86_400.0 * day for day in range(28)]
    assert trace.frame["duration_s"].unique().to_list() == [5.0]


@pytest.mark.parametrize(
    ("column", "said", "seconds"),
    [
        ("Runtime(h)", None, 3600.0), ("Runtime(h)", "Runtime(h)", 3600.0), ("Runtime", "Runtime:h", 3600.0),
        ("Runtime(h)", "Runtime(h):s", 1.0), ("run_time_ms", None, 1e-3), ("Elapsed [days]", None, 86_400.0),
        ("duration_s", None, 1.0), ("Duration", "Duration:M", 60.0), ("a:h", "a:h", 1.0), ("runtimes", None, None),
    ],
)  # fmt: skip
def test_a_unit_is_read_from_the_header_or_said(
    column: str, said: str | None, seconds: float | None, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.csv", f"id,submit,gpus,{column}\n1,0,1,2\n2,9,1,4\n")
    mapping = parse_map(f"duration={said}") if said else {}
    if seconds is None:
        with pytest.raises(InputError):
            read_table(path, mapping)
    else:
        assert read_table(path, mapping)[0].frame["duration_s"].to_list() == pytest.approx([2 * seconds, 4 * seconds])


def test_an_unknown_unit_and_a_load_that_no_cluster_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'w' is no unit"):
        parse_map("duration=Runtime:w")
    rows = "".join(f"{i},{1000 * i},8,{1 + i % 3}\n" for i in range(30))
    path = write(tmp_path / "t.csv", "id,submit,gpus,Runtime\n" + rows)
    request = Request(flags=Flags(gpus=64), only=True, stacks=("fifo",))
    with pytest.raises(InputError, match="--map duration=Runtime:h"):
        advise(path, request)


def test_slurms_own_counts_of_gpus_are_understood(tmp_path: Path) -> None:
    text = "Id\tSubmit\tElapsedRaw\tAllocTRES\n7\t10\t60\tcpu=8,gres/gpu:a100=4,node=1\n"
    trace, _ = read_table(write(tmp_path / "t.tsv", text), {})
    assert trace.frame["gpus"].to_list() == [4]


def test_what_is_said_comes_before_what_is_guessed() -> None:
    columns = ["submit", "when", "gpus", "duration"]
    assert guess(columns, {})["submit"] == "submit"
    assert guess(columns, {"submit": "when"})["submit"] == "when"
    with pytest.raises(InputError, match="there is no column never; the file has submit, when"):
        guess(columns, {"submit": "never"})


def test_the_map_is_checked() -> None:
    assert parse_map("submit=Submit, gpus=NGPUS") == {"submit": "Submit", "gpus": "NGPUS"}
    with pytest.raises(InputError, match=r"--map submits=x: write FIELD=COLUMN; fields are job_id, submit"):
        parse_map("submits=x")


def test_a_table_that_lacks_something_says_what(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "when,cards\n1,2\n")
    with pytest.raises(InputError, match=r"no column looks like submit or gpus or duration .*--map submit=COLUMN"):
        read_jobs(path, {})


def test_a_known_format_needs_no_map_and_keeps_its_waits(tmp_path: Path) -> None:
    head = "JobIDRaw|Submit|Start|End|ElapsedRaw|AllocTRES|User|Partition|State\n"
    rows = "".join(
        f"{i}|2024-01-02T03:0{i}:00|2024-01-02T03:0{i}:30|2024-01-02T04:00:00|600|gres/gpu={i}|u|p|COMPLETED\n"
        for i in range(1, 4)
    )
    log = read_jobs(write(tmp_path / "sacct.txt", head + rows), {})
    assert (log.trace.format, dict(log.mapping)) == ("slurm", {})
    assert log.has_waits
    assert log.frame["wait_s"].to_list() == [30.0, 30.0, 30.0]
    assert log.most_busy() == 6  # all three at once
    assert log.file.exists()


SACCT = "JobIDRaw|Submit|Start|End|ElapsedRaw|AllocTRES|User|Partition|State\n"


def sacct(path: Path, submit: str = "2024-01-02T03:04:05", gpus: str = "gres/gpu=1", name: str = "{i}") -> Path:
    row = f"|{submit}|2024-01-02T03:05:00|2024-01-02T03:15:00|600|{gpus}|u|p|COMPLETED\n"
    return write(path, SACCT + "".join(name.format(i=i) + row for i in range(20)))


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"submit": "2024/01/02 03:04"}, r"line 2: Submit: '2024/01/02 03:04' is not a time like 2024-05-31T14:05:00"),
        ({"gpus": "cpu=8"}, r"line 2: AllocTRES: uses no GPU"),
    ],
)
def test_a_log_without_jobs_says_why_and_how_to_get_a_good_one(row: dict[str, str], why: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=rf"0 of 20 rows are finished GPU jobs \({why}\); .* sacct --allusers .*Submit"
    ):
        advise(sacct(tmp_path / "sacct.txt", **row), Request())


@pytest.mark.parametrize("header", ["JobIDRaw|Start|End|AllocTRES", "JobID    JobName  Partition   State"])
def test_columns_that_sacct_did_not_print_come_with_the_call_that_does(header: str, tmp_path: Path) -> None:
    path = write(tmp_path / "sacct.txt", header + "\n1|2|3|4\n")
    with pytest.raises(
        InputError, match=r"no column looks like submit .*--map submit=COLUMN.*: sacct .*JobIDRaw,Submit"
    ):
        read_jobs(path, {})


def test_dates_of_an_unknown_form_are_named_with_those_that_are_known(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "submit,gpus,duration\nWed 1 May,1,60\nThu 2 May,1,60\n")
    with pytest.raises(InputError, match=r"line 2: submit: 'Wed 1 May' is not a time; write seconds, .* 2024-05-31 14"):
        read_table(path, {})


def test_one_time_that_is_no_number_is_damage(tmp_path: Path) -> None:
    rows = "".join(f"{'soon' if i == 3 else 60 * i},1,60\n" for i in range(20))
    log = read_jobs(write(tmp_path / "t.csv", "submit,gpus,duration\n" + rows), {})
    assert log.frame.height == 19
    assert first_problem(log.trace) == "line 5: submit: 'soon' is not a number"


@pytest.mark.parametrize("mark", [b"\x80", b'"'], ids=["not UTF-8", "an open quote"])
def test_a_damaged_header_is_refused(mark: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(mark + b"note,submit_time,gpu_num,duration\n1,2020-06-09 18:41:27,4,180\n")
    with pytest.raises(InputError, match=r"log\.csv:1: "):
        read_table(path, {})


def test_what_is_no_text_is_not_printed(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20)
    with pytest.raises(InputError, match=r"t.xlsx: this is not UTF-8 text; .*save the table as CSV"):
        read_jobs(tmp_path / "t.xlsx", {})


def test_jobs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Requeued jobs keep their id, and names of jobs may be taken for ids."""
    log = read_jobs(sacct(tmp_path / "sacct.txt", name="7"), {})
    assert log.frame["job_id"].n_unique() == 20
    request = Request(flags=Flags(gpus=16), models=("resnet50",), today="fifo", stacks=("srsf",), only=True,
                      rounds=(2,), workers=1)  # fmt: skip
    assert advise(sacct(tmp_path / "sacct.txt", name="7"), request).best.stack == "fifo"


def test_a_row_that_lies_decades_from_the_others_is_damage(tmp_path: Path) -> None:
    """A time that is not known is often written as 0, that is as 1970."""
    odd = {3: "0,1,60", 5: "1e14,1,60", 7: f"{1.7e9 + 7},1,9e11"}
    rows = "".join(odd.get(i, f"{1.7e9 + i},1,60") + "\n" for i in range(80))
    log = read_jobs(write(tmp_path / "t.csv", "submit,gpus,duration\n" + rows), {})
    assert (log.frame.height, log.trace.n_damaged, log.span_s) == (77, 3, 79.0)
