import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from live.tests.serving import listed
from weft.cli.main import run
from weft.errors import StackError
from weft.workload.traces.reading import read

Capture = pytest.CaptureFixture[str]
Launch = Callable[..., subprocess.Popen[str]]
COMMANDS = ["serve", "submit", "cancel", "queue", "explain"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run, named by the environment."""
    monkeypatch.setenv("WEFT_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


@pytest.fixture
def launch(folder: Path) -> Iterator[Launch]:
    """Starts `weft serve` in a process and waits until it answers; whatever still runs is ended."""
    made: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        (folder / "control.sock").unlink(missing_ok=True)
        command = [sys.executable, "-m", "weft", "serve", *args]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        made.append(process)
        wait_for(lambda: (folder / "control.sock").exists() or process.poll() is not None)
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


def wait_for(ready: Callable[[], bool], within_s: float = 120.0) -> None:
    """Until something is so."""
    until = time.monotonic() + within_s
    while not ready():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.05)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str, capsys: Capture) -> None:
    assert run([command, "--help"]) == 0
    assert f"Example: weft {command}" in capsys.readouterr().out


def test_a_day_in_the_life(folder: Path, launch: Launch, tmp_path: Path, capsys: Capture) -> None:
    """Serve, submit, kill -9, serve again with the same stack, look, cancel, end, and replay what was recorded."""
    trace = tmp_path / "trace.csv"
    launch("--stack", "srsf", "--record", str(trace)).kill()
    first = launch("--record", str(trace))
    told = ["--iterations", "100", "--model", "resnet50"]
    # Job a runs until the test lets it end: a slow machine then cannot miss the moment at which it runs.
    ends = tmp_path / "ends"
    script = f"until [ -e {ends} ]; do sleep 0.1; done; echo $WEFT_JOB"
    assert run(["submit", "--gpus", "2", *told, "--name", "a", "--", "sh", "-c", script]) == 0
    assert run(["submit", "--gpus", "16", *told, "--", "sleep", "600"]) == 0
    assert capsys.readouterr().out == "a\njob-2\n"
    wait_for(lambda: listed(capsys) == {"a": "running", "job-2": "waiting"})
    first.kill()
    assert run(["queue"]) == 0
    assert "wants 16 GPUs; 14 are free" in " ".join(capsys.readouterr().out.split())
    ends.touch()
    second = launch("--metrics", "0", "--record", str(trace))
    wait_for(lambda: listed(capsys) == {"a": "finished", "job-2": "running"})
    assert (folder / "jobs/a/1/output").read_text() == "a\n"
    assert run(["cancel", "job-2"]) == 0
    wait_for(lambda: listed(capsys) == {"a": "finished", "job-2": "cancelled"})
    assert run(["explain", "job-2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("job-2: cancelled; ended by SIGTERM, after ")
    assert "decided to wait: wants 16 GPUs; fewer are free" in out
    assert "decided to start on s0: 0 1 2 3, s1: 4 5 6 7, s2: 8 9 10 11, s3: 12 13 14 15: shortest" in out
    second.send_signal(signal.SIGTERM)
    _, err = second.communicate(timeout=120)
    assert second.returncode == 0
    assert "weft serves with srsf on 16 GPUs of local in" in err
    assert "2 jobs taken over" in err
    check_trace(trace, tmp_path, capsys)


def check_trace(trace: Path, tmp_path: Path, capsys: Capture) -> None:
    """The recorded jobs are there, and another stack can be tried on them."""
    jobs = {job.job_id: job for job in read(trace, on_error="fail").jobs()}
    assert set(jobs) == {"a", "job-2"}
    assert (jobs["a"].gpus, jobs["a"].iterations, jobs["a"].status) == (2, 100, "finished")
    assert (jobs["a"].duration_s or 0.0) > 0.0
    scenario = tmp_path / "again.toml"
    scenario.write_text(
        '[cluster]\ntopology = "leaf-spine"\nracks = 2\nservers_per_rack = 2\ngpus_per_server = 4\n'
        f'[workload]\nsource = "trace"\ntrace = "{trace.name}"\n[stack]\nname = "fifo"\n'
    )
    assert run(["simulate", str(scenario), "--json", "--out", str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 2
    assert run(["explain", str(tmp_path / "out"), "job-2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("job-2: finished after ")
    assert "decided to start on server 0: 0 1 2 3, server 1: 4 5 6 7" in out
    assert run(["explain", str(tmp_path / "out"), "nobody"]) == 2
    assert "there is no job nobody; jobs are a, job-2" in capsys.readouterr().err


@pytest.mark.long
def test_metrics_are_served_on_request(folder: Path, launch: Launch) -> None:
    process = launch("--metrics", "0")
    assert process.stderr is not None
    process.stderr.readline()
    port = int(process.stderr.readline().split()[-1])
    assert run(["submit", "--", "true"]) == 0

    def text() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            return str(answer.read().decode())

    wait_for(lambda: "weft_finished_total 1.0\n" in text())
    lines = [line for line in text().splitlines() if not line.startswith("#")]
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}
    assert values["weft_starts_total"] == values["weft_wait_seconds_count"] == 1
    assert values['weft_wait_seconds_bucket{le="+Inf"}'] == 1
    assert values["weft_decision_seconds_count"] >= 2  # the submission and the end; its start may come with either
    assert values["weft_gpus"] == 16
    assert values["weft_gpus_busy"] == values['weft_jobs{status="running"}'] == 0


@pytest.mark.long
def test_a_dry_run_says_what_it_would_do(folder: Path, launch: Launch, tmp_path: Path) -> None:
    process = launch("--dry-run", "--stack", "fifo")
    assert run(["submit", "--gpus", "3", "--name", "a", "--", "touch", str(tmp_path / "mark")]) == 0
    assert process.stderr is not None
    assert "says what it would do with fifo" in process.stderr.readline()
    assert process.stderr.readline().startswith("would start a on GPUs 0 1 2: first come, first served; tightest fit")
    process.terminate()
    process.communicate(timeout=120)
    assert not (tmp_path / "mark").exists()
    assert not (folder / "ledger.sqlite").exists()


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["queue"], "{folder}: no run of weft serve; start one there, or name its folder with --dir"),
        (["explain", "a"], "{folder}: no run of weft serve; start one there, or name its folder with --dir"),
        (["explain", "/no/run", "a"], "/no/run: there is no such folder; give one that weft simulate --out or"),
        (["explain", "a", "b", "c"], "Invalid value: give a job, or a folder and a job; see: weft"),
        (["submit", "--", "true"], "{folder}: no weft serve runs there; start it with: weft serve --dir {folder}"),
        (["cancel", "a"], "{folder}: no weft serve runs there; start it with: weft serve --dir {folder}"),
        (["serve", "--stack", "nosuch"], "there is no stack nosuch"),
        (["serve", "--metrics", "here"], "--metrics here: not a port; write --metrics 9400, HOST:PORT or [IPV6]:PORT"),
        (["serve", "--world", "moon"], "--world moon: there is no such world; there are local, slurm"),
        (["serve", "/no/such.toml"], "/no/such.toml: no such file"),
        (["serve", "--scenario", "/no/such.toml"], "/no/such.toml: no such file"),
        (["serve", "a.toml", "--scenario", "b.toml"], "serve: a.toml and --scenario b.toml both name a scenario"),
    ],
)
def test_what_goes_wrong_is_one_line(args: list[str], line: str, folder: Path, capsys: Capture) -> None:
    assert run(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {line.format(folder=folder)}")
    assert err.count("\n") == 1


def test_a_folder_that_has_been_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run(["submit", "--dir", str(tmp_path), "--", "true"]) == 2
    assert "has been removed" in capsys.readouterr().err


@pytest.mark.long
def test_a_scenario_gives_cluster_and_stack(folder: Path, launch: Launch, tmp_path: Path) -> None:
    scenario = tmp_path / "s.toml"
    scenario.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 1\ngpus_per_server = 2\n'
        '[workload]\nsource = "batch"\njobs = 1\niterations = [1, 1]\n[stack]\nname = "sjf"\n'
    )
    for args in ([str(scenario)], []):  # the second time it is remembered
        process = launch(*args)
        assert process.stderr is not None
        assert "serves with sjf on 2 GPUs" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert os.stat(folder).st_mode & 0o077 == 0


def test_the_network_of_the_scenario_counts(tmp_path: Path) -> None:
    """Estimates and traffic of the live world go by the collective that the scenario names, as in the simulation."""
    from weft_live.cli.serve import _build
    from weft_live.engine import find
    from weft_live.server.server import Server

    scenario = tmp_path / "s.toml"
    scenario.write_text(
        '[cluster]\ntopology = "single-switch"\nservers = 4\ngpus_per_server = 1\n[network]\ncollective = "tree"\n'
    )
    engine = find("local", {})
    cluster, stack, estimates = _build(engine, str(scenario), (None,) * 5, 0)
    assert estimates is not None
    with Server(tmp_path / "run", cluster, stack, engine=engine, dry_run=True, estimates=estimates) as server:
        assert server.world.speeds.alone is estimates
        assert server.durable.estimates is estimates
    with Server(tmp_path / "other", cluster, stack, engine=engine, dry_run=True) as server:
        assert server.durable.estimates.collective == "ring"
    site = scenario.read_text().replace('collective = "tree"', 'sharing = "k-way"')
    scenario.write_text(f'{site}[stack]\nname = "themis+cassini"\n')
    cluster, stack, estimates = _build(engine, str(scenario), (None,) * 5, 0)
    with pytest.raises(StackError, match=r"network\.sharing"):
        Server(tmp_path / "third", cluster, stack, engine=engine, dry_run=True, estimates=estimates)
