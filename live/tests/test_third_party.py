"""A world that another package brings (entry point `weft.worlds`), found where it is installed."""

import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from live.tests import timers
from live.tests.serving import all_ended, said, serve_until, statuses, wait_for
from weft.cli.main import run
from weft.stacks import resolve
from weft_live.engine import find
from weft_live.server.server import Server

NAME = "weft_timers-1.0"
METADATA = "Metadata-Version: 2.1\nName: weft-timers\nVersion: 1.0\nRequires-Dist: weft\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as pip installs it."""
    folder = tmp_path_factory.mktemp("package")
    wheel = folder / f"{NAME}-py3-none-any.whl"
    files = {
        "weft_timers.py": Path(timers.__file__).read_text(),
        f"{NAME}.dist-info/METADATA": METADATA,
        f"{NAME}.dist-info/WHEEL": WHEEL,
        f"{NAME}.dist-info/entry_points.txt": "[weft.worlds]\ntimers = weft_timers:TimerEngine\n"
        "broken = weft_timers.missing:Engine\n",
    }
    files[f"{NAME}.dist-info/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{NAME}.dist-info/RECORD"))
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


@pytest.fixture
def installed(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """This process finds it, and commands find the folder of a run. What pip does with a wheel, less its record."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setenv("WEFT_DIR", str(tmp_path / "run"))
    yield tmp_path / "run"
    sys.modules.pop("weft_timers", None)


class Weft:
    """The command line, with that package in its path, on one folder."""

    def __init__(self, site: Path, folder: Path) -> None:
        source = str(Path(weft.__file__).parent.parent)
        self.environment = {**os.environ, "PYTHONPATH": f"{site}:{source}", "WEFT_DIR": str(folder)}
        self.folder = folder
        self.servers: list[subprocess.Popen[str]] = []

    def serve(self, *args: str) -> subprocess.Popen[str]:
        """A server, when it answers."""
        (self.folder / "control.sock").unlink(missing_ok=True)
        command = [sys.executable, "-m", "weft", "serve", *args]
        self.servers.append(subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE, text=True))
        server = self.servers[-1]
        wait_for(lambda: (self.folder / "control.sock").exists() or server.poll() is not None, 60)
        return server

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Another command."""
        command = [sys.executable, "-m", "weft", *args]
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=240, check=False)

    def statuses(self) -> dict[str, str]:
        """Jobs, and where they stand."""
        jobs = json.loads(self("queue", "--all", "--json").stdout)["jobs"]
        return {job["job"]: job["status"] for job in jobs}


@pytest.fixture
def command(wheel: Path, tmp_path: Path) -> Iterator[Weft]:
    """It, and no server left behind."""
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        f"--target={tmp_path / 'site'}",
    ]
    subprocess.run([*pip, str(wheel)], check=True, timeout=120)
    made = Weft(tmp_path / "site", tmp_path / "run")
    yield made
    for server in made.servers:
        server.kill()
        server.communicate()


def test_it_is_served_and_taken_over(installed: Path) -> None:
    """A long job gives way to a short one, and goes on from where it was under the next server."""

    def serving() -> Server:
        engine = find("timers", {"own": {"gpus": "3"}})
        cluster = engine.cluster(0, print)
        assert cluster.n_gpus == 6
        return Server(installed, cluster, resolve("srsf-preemptive"), engine=engine)

    with serving() as first:
        first.submit(said("long", ["none"], gpus=6, iterations=9000, iteration_s=0.1))
        serve_until(first, lambda: "long" in first.core.table.running)
        first.submit(said("short", ["none"], gpus=6, iterations=2, iteration_s=0.1))
        serve_until(first, lambda: statuses(installed)["short"] == "finished")
    with serving() as second:
        assert "long" in second.core.table.jobs
        second.cancel("long")
        serve_until(second, all_ended(second))
        told = {job: [row.why for row in second.ledger.events(job)] for job in ("long", "short")}
    assert "its timer was stopped" in told["long"]
    assert "its time was up" in told["short"]
    assert statuses(installed) == {"long": "cancelled", "short": "finished"}


@pytest.mark.long
def test_it_is_served_killed_and_taken_over(command: Weft) -> None:
    """A long job gives way to a short one, goes on from where it was, and survives a kill -9 of its server."""
    first = command.serve("--world", "timers", "--option", "gpus=3", "--stack", "srsf-preemptive")
    assert first.poll() is None, first.stderr and first.stderr.read()
    long = ("--name", "long", "--gpus", "6", "--iterations", "9000", "--iteration-s", "0.1")
    short = ("--name", "short", "--gpus", "6", "--iterations", "5", "--iteration-s", "0.1")
    assert command("submit", *long, "--", "none").returncode == 0
    assert command("submit", *short, "--", "none").returncode == 0
    wait_for(lambda: command.statuses().get("short") == "finished")
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = command.serve()
    wait_for(lambda: command.statuses().get("long") == "running")
    assert "off its GPUs: its timer was stopped" in command("explain", "long").stdout
    assert "its time was up" in command("explain", "short").stdout
    assert command("cancel", "long").returncode == 0
    wait_for(lambda: command.statuses() == {"short": "finished", "long": "cancelled"})
    second.send_signal(signal.SIGTERM)
    words = second.communicate(timeout=120)[1]
    assert "on 6 GPUs of timers in" in words  # its option is remembered
    assert "1 jobs taken over" in words


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--world", "timers", "--stack", "fifo", "--interleave", "cassini"], "timers"),  # it is asked: it cannot shift
        (["--world", "mars"], "there is no such world; there are broken, local, slurm, testbed, timers"),
        (["--world", "local", "--option", "gpus=3"], "--option gpus: the local world has no options of its own"),
        (["--world", "timers", "--option", "gpus"], "--option gpus: write KEY=VALUE"),
        (["--world", "timers", "--option", "a=1", "--option", "a=2"], "--option a=2: a is there twice; leave one out"),
        (["--world", "broken"], "its package names weft_timers.missing:Engine, which cannot be loaded"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in " ".join(err.split())
