import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli.common import print_notes
from weft.cli.main import run
from weft.scenario.shipped import scenario_path
from weft.stacks import ABOUT, names

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parents[2]
TRACE = "job_id,submit_s,gpus,duration_s\na,0,1,10\na,5,2,20\n"
CLUSTER = '[cluster]\ntopology = "single-switch"\nservers = 2\ngpus_per_server = 4\n'
WORKLOAD = '[workload]\nsource = "jobs"\njob = [{model = "resnet50", iterations = 3}]\n'


def weft(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft", *args]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_a_trace_is_not_converted_onto_itself(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TRACE)
    (tmp_path / "link.csv").symlink_to(path)
    for target in (path, tmp_path / "link.csv"):
        assert run(["trace", "convert", str(path), str(target)]) == 2
        assert capsys.readouterr().err == f"error: {target} is what is read; name another file to write\n"
    assert run(["trace", "sample", str(path), "--jobs", "1", "-o", str(path)]) == 2
    assert run(["trace", "convert", str(tmp_path), str(path)]) == 2  # a folder, and a file in it
    assert path.read_text() == TRACE
    assert run(["trace", "convert", str(path), str(tmp_path / "other.csv")]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_no_bug() -> None:
    with open("/dev/full", "w") as full:
        done = weft("stacks", stdout=full)
    assert done.stderr == "error: no space left where the output goes; free some, or write it elsewhere\n"
    assert done.returncode == 2


def test_a_closed_output_is_no_bug() -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m weft stacks >&-"], stderr=subprocess.PIPE, text=True, check=False
    )
    assert done.stderr == "error: the output cannot be written: it is closed; open it, or send it to a file\n"
    assert done.returncode == 2


def test_kernels_that_are_compiled_on_first_use_are_announced(tmp_path: Path) -> None:
    """In a folder where nothing was compiled; the words come before the wait."""
    environment = {**os.environ, "WEFT_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    done = weft("compat", str(ROOT / "examples" / "compat.json"), "--json", stdout=subprocess.PIPE, env=environment)
    assert done.returncode == 0
    assert done.stderr.startswith("compiling rotate, once for this version (about 20 s) ...\n")


def test_nothing_is_announced_in_a_library() -> None:
    """Only the command line speaks; other tests of this process may have called it."""
    script = "import weft.api, weft.kernels; print(weft.kernels.announce)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_a_scenario_needs_a_cluster_and_jobs_and_no_more(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "s.toml"
    path.write_text(CLUSTER + WORKLOAD)
    assert run(["simulate", str(path), "--json"]) == 0  # no [stack]
    capsys.readouterr()
    path.write_text(CLUSTER)
    assert run(["topology", str(path)]) == 0  # no [workload]
    assert "8" in capsys.readouterr().out
    assert run(["simulate", str(path)]) == 2
    assert "workload is missing" in capsys.readouterr().err


def test_inspect_speaks_of_unknown_models_and_repeated_ids(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.csv"
    path.write_text(TRACE)
    assert run(["trace", "inspect", str(path)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "no job names its model; a simulation draws it from workload.models" in out
    assert "1 jobs have an id that another has" in out


def test_every_stack_has_a_line_that_says_what_it_is(capsys: Capture) -> None:
    assert run(["stacks"]) == 0
    out = capsys.readouterr().out
    assert "what it is" in out
    assert [name for name in names() if not ABOUT.get(name)] == []
    assert [name for name in ABOUT if name not in names()] == []


def test_srsf_is_spelled_out() -> None:
    for page in ("README.md", "docs/tutorial.md"):
        assert "shortest remaining service first" in (ROOT / page).read_text().lower().replace("\n", " ").replace(
            "*", ""
        )


def test_shells_can_complete(capsys: Capture) -> None:
    assert run(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out


def test_the_demo_comes_with_the_package(tmp_path: Path, capsys: Capture) -> None:
    demo = (ROOT / "examples" / "demo.toml").read_text()
    assert scenario_path("demo").read_text() == demo
    assert run(["init", str(tmp_path / "d.toml"), "--template", "demo"]) == 0
    assert (tmp_path / "d.toml").read_text() == demo
    wheel = subprocess.run(
        [sys.executable, "-c", "from hatchling.builders.wheel import WheelBuilder as W; import sys; "
         "print(*[f.distribution_path for f in W(sys.argv[1]).recurse_included_files()])", str(ROOT)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "No module named 'hatchling'" in wheel.stderr:
        pytest.skip("hatchling is not installed here: pip builds in an environment of its own")
    assert "weft/scenario/shipped/demo.toml" in wheel.stdout.split()


def test_notes_name_their_stack(capsys: Capture) -> None:
    """A note that all runs share is said once; one that differs says whose it is."""
    import polars as pl

    from weft.results.run import JOBS, RunResult

    empty = pl.DataFrame(schema={"finish_s": JOBS["finish_s"]})
    runs = [
        RunResult("s", stack, seed, empty, empty, empty, empty, empty, 1, 0, False, 0.0, notes=("all", note))
        for stack, seed, note in (("fifo", 1, "x"), ("srsf", 1, "y"), ("srsf", 2, "y"))
    ]
    print_notes(runs)
    assert capsys.readouterr().err.splitlines() == ["note: all", "note: x (fifo, seed 1)", "note: y (srsf)"]
