"""weft serve --world slurm, queue, explain, cancel, as an operator types them."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from live.tests.serving import listed
from live.tests.slurm.serving import Serving, until_there
from testkit.sandbox import Sandbox
from weft.cli.main import run
from weft.workload.traces.reading import read
from weft_live.server.ledger import Ledger

pytestmark = pytest.mark.engine
Capture = pytest.CaptureFixture[str]
Launch = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def launch(serving: Serving, box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """Starts `weft serve --world slurm` in a process and waits until it answers; whatever still runs is ended."""
    monkeypatch.setenv("SLURM_CONF", str(box.conf))
    monkeypatch.setenv("WEFT_DIR", str(serving.folder))
    made: list[subprocess.Popen[str]] = []

    def start(*args: str) -> subprocess.Popen[str]:
        (serving.folder / "control.sock").unlink(missing_ok=True)
        command = [sys.executable, "-m", "weft", "serve", "--poll-s", "0.2", *args]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        made.append(process)
        box.wait(lambda: (serving.folder / "control.sock").exists() or process.poll() is not None)
        return process

    yield start
    for process in made:
        process.kill()
        process.communicate()


def test_a_day_in_the_life(serving: Serving, box: Sandbox, launch: Launch, tmp_path: Path, capsys: Capture) -> None:
    """Dally on Slurm: serve, sbatch, kill -9, serve again as before, look, cancel, end, and replay the record."""
    trace = tmp_path / "trace.csv"
    first = launch("--world", "slurm", "--stack", "dally", "--record", str(trace))
    says = "model=resnet50 iterations=100"
    brief, long = (serving.sbatch(n, until_there(tmp_path / f"go{n}"), says=says) for n in (2, 8))
    odd = serving.sbatch(1, says="model=resnet51")
    box.wait(lambda: listed(capsys) == {brief: "running", long: "running", odd: "refused"})
    first.kill()
    first.wait()
    second = launch("--metrics", "0", "--record", str(trace))
    (tmp_path / "go2").touch()
    box.wait(lambda: listed(capsys).get(brief) == "finished")
    assert run(["queue"]) == 0
    assert "'resnet51' is not in the zoo" in " ".join(capsys.readouterr().out.split())
    assert run(["submit", "--", "true"]) == 2
    assert "jobs of a Slurm cluster come by sbatch" in capsys.readouterr().err
    assert run(["cancel", long]) == 0
    box.wait(lambda: listed(capsys).get(long) == "cancelled")
    assert run(["explain", long]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{long}: cancelled, after ")
    assert "decided to start on n2: 8 9 10 11 12 13 14 15: " in out
    assert second.stderr is not None
    told = [second.stderr.readline() for _ in range(3)]
    assert "place even:delay instead of delay: Slurm gives every node of a job the same number of GPUs" in told[0]
    assert "weft serves with dally[place=even:delay] on 128 GPUs of slurm in" in told[1]
    assert "jobs taken over" in told[1]
    check_metrics(int(told[2].split()[-1]))
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=120)
    assert second.returncode == 0
    check_trace(trace, {brief, long}, box, tmp_path, capsys)


def check_metrics(port: int) -> None:
    """They are there, on this machine."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    assert "weft_withdrawn_total 1.0\n" in text
    assert "weft_gpus 128.0\n" in text


def check_trace(trace: Path, jobs: set[str], box: Sandbox, tmp_path: Path, capsys: Capture) -> None:
    """What ran last night can be tried with another stack, on Slurm's own topology."""
    assert {job.job_id for job in read(trace, on_error="fail").jobs()} == jobs
    (tmp_path / "again.toml").write_text(
        f'[cluster]\ntopology = "file"\nfile = "{box.conf.parent}/topology.conf"\ngpus_per_server = 8\n'
        f'[workload]\nsource = "trace"\ntrace = "{trace.name}"\n[stack]\nname = "srsf"\n'
    )
    capsys.readouterr()
    assert run(["simulate", str(tmp_path / "again.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["jobs"] == 2


def test_a_dry_run_says_what_it_would_do(serving: Serving, box: Sandbox, launch: Launch) -> None:
    job = serving.sbatch(12, "true")
    process = launch("--world", "slurm", "--dry-run", "--stack", "srsf")
    assert process.stderr is not None
    process.stderr.readline()
    assert "says what it would do with srsf[place=even:best-fit] on 128 GPUs" in process.stderr.readline()
    assert process.stderr.readline().startswith(f"would start {job} on n1: 6, n2: 6: shortest")
    time.sleep(0.5)
    process.terminate()
    process.communicate(timeout=120)
    assert box.run("squeue", "-h", "-j", job, "-o", "%T %r") == "PENDING JobHeldUser\n"
    assert not (serving.folder / "ledger.sqlite").exists()


@pytest.mark.long
def test_the_jobs_of_one_user_make_no_more_others_give_way_than_the_operator_allows(
    serving: Serving, box: Sandbox, launch: Launch
) -> None:
    """Two long jobs have all GPUs. Of two short ones the first takes the place of a long one; the second waits for it,
    though an order that preempts would put it before the other long job."""
    launch("--world", "slurm", "--stack", "srsf-preemptive", "--preemptions", "2")
    long = [serving.sbatch(64, "sleep 300", says="iterations=1000 iteration_s=1") for _ in range(2)]
    box.wait(lambda: states(box, *long) == {"RUNNING"})
    short = [serving.sbatch(64, "sleep 4", says="iterations=4 iteration_s=1") for _ in range(2)]
    box.wait(lambda: states(box, *short) == {"COMPLETED"})
    ledger = Ledger(serving.folder, read_only=True)
    decided = [(job, row.action) for job, row in ledger.decisions() if row.action in ("start", "stop")]
    ledger.close()
    stopped = [job for job, action in decided if action == "stop"]
    assert len(stopped) == 1
    assert set(stopped) < set(long)


def states(box: Sandbox, *jobs: str) -> set[str]:
    """What Slurm says of them."""
    return set(box.run("squeue", "--states=all", "--noheader", f"--jobs={','.join(jobs)}", "--format=%T").split())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--stack", "ada-srsf"], "srsf/lwf:1 puts several jobs on one GPU, and this world gives a GPU to one job"),
        (
            ["--stack", "srsf", "--pace", "at-most:1"],
            "at-most:1 decides which transfers run, and this world leaves that",
        ),
        (
            ["--stack", "srsf", "--place", "best-fit"],
            "may give a job more GPUs on one server than on another, and this",
        ),
        (["--partition", "nosuch"], "--partition nosuch: Slurm has no such partition; it has train"),
        (["--dir", "/tmp/a b"], "its name has characters that Slurm's comments cannot carry; choose another --dir"),
    ],
)
def test_what_slurm_cannot_do_is_refused_at_the_start(
    args: list[str], words: str, serving: Serving, box: Sandbox, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SLURM_CONF", str(box.conf))
    monkeypatch.setenv("WEFT_DIR", str(serving.folder))
    assert run(["serve", "--world", "slurm", *args]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_setup_prints_what_to_install(tmp_path: Path, capsys: Capture) -> None:
    assert run(["serve", "--setup"]) == 0
    assert "JobSubmitPlugins=lua" in capsys.readouterr().out
    assert run(["serve", "--setup", "--out", str(tmp_path / "etc"), "--partition", "a,b"]) == 0
    assert f"The files are in {tmp_path}/etc" in capsys.readouterr().out
    assert '"a", "b"' in (tmp_path / "etc" / "job_submit.lua").read_text()
