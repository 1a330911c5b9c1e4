"""Ctrl-C while worker processes run: one line, exit code 130, nobody left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent.parent / "examples" / "demo.toml"


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """A comparison that would take minutes, in a process group of its own, of which nobody outlives the test.

    A suite that a script started in the background is deaf to SIGINT, and so is whatever it starts: not this."""
    command = [sys.executable, "-m", "weft", "compare", str(DEMO), "--seeds", "500", "--workers", "2"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    signal.signal(signal.SIGINT, before)
    yield started
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.communicate()


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_interrupted_comparison(running: subprocess.Popen[str]) -> None:
    time.sleep(4.0)
    os.killpg(running.pid, signal.SIGINT)  # what a terminal does
    out, err = running.communicate(timeout=60)
    said = "error: interrupted; the same command continues from the finished runs"
    assert (out, err.splitlines()[0]) == ("", said)
    # `python -m` ends by the signal itself if that came while a string was executed; a shell shows 130 for both.
    assert running.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in err
    assert "leaked" not in err
    for _ in range(100):
        try:
            os.killpg(running.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("processes of the comparison are still there ten seconds later")
