"""`weft trace`: what it prints, what it writes, and one line with exit code 2 for everything that is wrong."""

import json
from pathlib import Path

import pytest

from weft.cli.common import exit_code
from weft.cli.trace import app
from weft.errors import WeftError
from weft.workload.traces.reading import read

RAW = "job_id,submission_time,duration,num_gpu\n"


def run(*args: object) -> int:
    """One command line of the sub-app, with errors turned into exit codes as the `weft` command does."""
    try:
        return app(args=[str(a) for a in args], prog_name="weft trace", standalone_mode=False) or 0
    except WeftError as error:
        return exit_code(error)
    except Exception as error:  # usage errors of the command line library carry their own exit code
        if hasattr(error, "format_message"):
            return int(getattr(error, "exit_code", 2))
        raise


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "cluster03.csv"
    rows = "".join(f"j{i},{i * 60},{600 + i},{2 ** (i % 4)}\n" for i in range(100))
    path.write_text(RAW + rows + "bad,x,1,1\ncpu,1,1,0\n")
    return path


def test_inspect_says_what_it_is(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", trace) == 0
    text = capsys.readouterr().out
    for words in ("elasticflow-raw", "102 rows, 1 damaged, 1 left out, 100 jobs",
                  "damaged: line 102: submission_time: 'x' is not a number",
                  "left out: 1 x uses no GPU", "GPUs busy on average", "cluster03 100", "median 650 s"):  # fmt: skip
        assert words in text


def test_inspect_json_is_one_object(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", trace, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["format"], facts["rows"], facts["jobs"], facts["damaged"], facts["left_out"]) == (
        "elasticflow-raw", 102, 100, 1, 1,
    )  # fmt: skip
    assert facts["gpus"]["jobs"] == {"1": 25, "2": 25, "3-4": 25, "5-8": 25}
    assert facts["iterations"] is None
    assert facts["load_gpus"] == pytest.approx(facts["gpu_hours"] * 3600 / (99 * 60))


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_inspect_draws(trace: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / f"p.{ending}"
    assert run("inspect", trace, "--plot", plot, "--json") == 0
    assert json.loads(capsys.readouterr().out)["plot"] == str(plot)
    content = plot.read_bytes()
    assert content[:5] == (b"<?xml" if ending == "svg" else b"\x89PNG\r")
    if ending == "svg":
        assert b"GPUs per job" in content
        run("inspect", trace, "--plot", plot)
        assert plot.read_bytes() == content  # the same trace, the same picture


@pytest.mark.parametrize("rows", ["", "a,0,,1\n", "a,5,10,3\n"])
def test_inspect_draws_whatever_there_is(rows: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("job_id,submit_s,duration_s,gpus\n" + rows)
    assert run("inspect", path, "--plot", tmp_path / "p.svg") == 0


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_convert(trace: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"out.{ending}"
    assert run("convert", trace, out) == 0
    assert "100 jobs of 100 (elasticflow-raw, 102 rows, 1 damaged, 1 left out)" in capsys.readouterr().out
    assert read(out).frame.drop("line").equals(read(trace).frame.drop("line"))
    assert run("convert", trace, out, "--format", "elasticflow-raw", "--json") == 0
    assert json.loads(capsys.readouterr().out)["written"] == 100


def test_sample(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two, other = (tmp_path / name for name in ("one.csv", "two.csv", "other.csv"))
    for out, seed in ((one, 7), (two, 7), (other, 8)):
        assert run("sample", trace, "--jobs", 10, "--seed", seed, "-o", out) == 0
    assert one.read_bytes() == two.read_bytes() != other.read_bytes()
    assert read(one).frame.height == 10
    assert "10 jobs of 100" in capsys.readouterr().out


def test_formats(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("formats") == 0
    assert "slurm" in capsys.readouterr().out
    assert run("formats", "--json") == 0
    assert json.loads(capsys.readouterr().out)["muri"] == "Muri (milliseconds)"


@pytest.mark.parametrize("command", ["inspect", "convert", "sample", "formats"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(command, "--help") == 0
    assert f"Example: weft trace {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("inspect", "none.csv"), "No such file"),
        (("inspect", "README.txt"), "no known trace format"),
        (("inspect", "cluster03.csv", "--format", "nope"), "unknown; use one of"),
        (("inspect", "cluster03.csv", "--format", "slurm"), "no column Submit"),
        (("inspect", "cluster03.csv", "--strict"), "cluster03.csv:102: submission_time: 'x' is not a number"),
        (("inspect", "cluster03.csv", "--plot", "p.doc"), "must end in .svg"),
        (("inspect", "cluster03.csv", "--plot", "no/p.svg"), "can be written"),
        (("convert", "cluster03.csv", "out.json"), "must end in .csv or .parquet"),
        (("sample", "cluster03.csv", "--jobs", "101", "-o", "out.csv"), "cannot sample 101 jobs of 100"),
    ],
)  # fmt: skip
def test_errors_are_one_line_and_exit_code_2(
    args: tuple[str, ...], words: str, trace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(trace.parent)
    (trace.parent / "README.txt").write_text("hello\n")
    assert run(*args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize("args", [("sample", "cluster03.csv"), ("inspect",), ("convert", "cluster03.csv"), ("nope",)])
def test_usage_errors_exit_with_2(args: tuple[str, ...]) -> None:
    assert run(*args) == 2


def test_a_table_of_jobs_is_read_as_advise_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two jobs of 2 and 4 GPUs, of half an hour and of two hours, the second an hour after the first."""
    table = tmp_path / "jobs.csv"
    table.write_text("Name;Submit;NGPUS;Runtime (h)\na;1000;2;0.5\nb;4600;4;2\n")
    assert run("inspect", str(table), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["format"], facts["gpu_hours"], facts["last_submit_s"]) == ("table", 9.0, 3600.0)
    assert "duration = Runtime (h) (hours)" in facts["notes"][0]
    out = tmp_path / "plain.csv"
    odd = tmp_path / "odd.csv"
    odd.write_text("who,when,many,lasts\na,1000,2,30\nb,4600,4,120\n")
    said = "job_id=who,submit=when,gpus=many,duration=lasts:m"
    assert run("convert", str(odd), str(out), "--map", said) == 0
    capsys.readouterr()
    assert out.read_text().splitlines()[1:] == [
        'a,0.0,2,1800.0,,,"","","",,,', 'b,3600.0,4,7200.0,,,"","","",,,',
    ]  # fmt: skip
    assert run("inspect", str(odd)) == 2
    err = capsys.readouterr().err
    assert "submit_s, gpus and, if known, job_id, duration_s" in err
    assert "no column looks like submit" in err


def test_a_scenario_runs_a_table_of_jobs(tmp_path: Path) -> None:
    import weft

    (tmp_path / "odd.csv").write_text("who,when,many,lasts\na,1000,2,30\nb,4600,2,120\n")
    scenario = tmp_path / "s.toml"
    said = "job_id=who,submit=when,gpus=many,duration=lasts:m"
    scenario.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 1\ngpus_per_server = 4\n'
        f'[workload]\nsource = "trace"\ntrace = "odd.csv"\ntrace_map = "{said}"\nmodels = ["resnet50"]\n'
        "[run]\nexact = false\n"
    )
    jobs = weft.simulate(scenario).jobs.sort("job_id")
    assert jobs["submit_s"].to_list() == [0.0, 3600.0]
    assert jobs["jct_s"].to_list() == pytest.approx([1800.0, 7200.0], rel=0.01)
    scenario.write_text(scenario.read_text().replace("lasts:m", "lasts:fortnights"))
    with pytest.raises(weft.WeftError, match=r"workload\.trace_map"):
        weft.simulate(scenario)
