"""`--executor dask`: a real scheduler and two real workers on this machine give the pool's answer, byte for byte."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.runs import executors

pytest.importorskip("distributed")

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.toml"
OWN = "from weft.policies.place.fitting import FirstFit\nclass Own(FirstFit):\n    '''Own.'''\n    name = 'own'\n"
COMPARE = ["--stack", "fifo", "--stack", "srsf", "--place", "own.py:Own", "--seeds", "2", "--set", "workload.jobs=8"]


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A scheduler with two workers of one thread each, on loopback, in a folder that is not the client's. They are busy
    also while they wait, so they end with the test that needs them."""
    folder = tmp_path_factory.mktemp("dask")
    file = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    dask = [sys.executable, "-m", "dask"]
    started = [
        subprocess.Popen(
            [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
            **quiet,  # type: ignore[call-overload]
        )
    ]
    for _ in range(900):
        if file.exists() and file.stat().st_size:
            break
        time.sleep(0.1)
    started.append(
        subprocess.Popen(
            [*dask, "worker", "--scheduler-file", str(file), "--nworkers", "2", "--nthreads", "1", "--no-dashboard",
             "--host", "127.0.0.1", "--local-directory", str(folder)],
            **quiet,  # type: ignore[call-overload]
        )
    )  # fmt: skip
    yield json.loads(file.read_text())["address"]
    for process in reversed(started):
        process.terminate()
    for process in started:
        process.wait(30)


def compare(folder: Path, *options: str) -> bytes:
    command = [sys.executable, "-m", "weft", "compare", str(DEMO), *COMPARE, "--json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, env={**os.environ})
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.long
def test_byte_for_byte(address: str, tmp_path: Path) -> None:
    """With a policy in a file of the client's folder, which the workers find too."""
    (tmp_path / "own.py").write_text(OWN)
    assert compare(tmp_path, "--executor", f"dask:{address}") == compare(tmp_path, "--workers", "2")


def test_a_scheduler_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executors, "_DASK_S", 0.1)
    (tmp_path / "own.py").write_text(OWN)
    assert run(["compare", str(DEMO), *COMPARE, "--executor", "dask:tcp://127.0.0.1:9"]) == 2
    out, err = capsys.readouterr()
    last = "error: --executor dask:tcp://127.0.0.1:9: nobody answers there; start a scheduler, or mend the address"
    assert (out, err.splitlines()[-1]) == ("", last)
