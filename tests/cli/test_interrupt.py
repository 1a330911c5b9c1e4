import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from live.tests.serving import wait_for

DEMO = Path(__file__).resolve().parent.parent.parent / "examples" / "demo.toml"


# A policy in a file: each worker leaves a file of its own when it reads that one to compute with.
OWN = """
import os, pathlib
from weft.policies.place.fitting import FirstFit
pathlib.Path("begun", str(os.getpid())).touch()
class Own(FirstFit):
    'Own.'
    name = "own"
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A comparison that would take minutes, in a process group of its own, of which nobody outlives the test.

    A suite that a script started in the background is deaf to SIGINT, and so is whatever it starts: not this."""
    command = [sys.executable, "-m", "weft", "compare", str(DEMO), "--seeds", "500", "--workers", "2"]
    command += ["--stack", "fifo", "--place", "own.py:Own"]
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "begun").mkdir()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    signal.signal(signal.SIGINT, before)
    yield started
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_comparison(number: int, running: subprocess.Popen[str], tmp_path: Path) -> None:

    def workers() -> set[int]:
        assert running.poll() is None, running.stderr and running.stderr.read()
        return {int(file.name) for file in (tmp_path / "begun").iterdir()} - {running.pid}

    wait_for(lambda: len(workers()) == 2)
    os.killpg(running.pid, number)  # what a terminal does, and what systemd does
    out, err = running.communicate(timeout=60)
    assert out == ""
    if number == signal.SIGINT:
        # Where no kernels were compiled before, a line says that they are.
        assert "error: interrupted; the same command continues from the finished runs" in err.splitlines()[:2]
        # `python -m` ends by the signal itself if that came while a string was executed; a shell shows 130 for both.
        assert running.returncode in (130, -number)
    else:
        assert running.returncode == 128 + number
    assert "Traceback" not in err
    assert "leaked" not in err
    wait_for(lambda: not lives(running.pid))


def lives(group: int) -> bool:
    """Whether a process of that group is still there."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
