"""Runs elsewhere: workers know the same policies, and nobody is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.test_api import scenario
from weft.errors import InputError
from weft.policies.place.fitting import FirstFit
from weft.runs.executors import _deaf, using
from weft.runs.prepare import compile_kernels
from weft.stacks import registry
from weft.stacks.registry import LAYERS, register

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.toml"
OWN = "from weft.policies.place.fitting import FirstFit\nclass Own(FirstFit):\n    '''Own.'''\n    name = 'own'\n"


@pytest.fixture(autouse=True)
def _known_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernels()
    monkeypatch.setattr(registry, "_BY_HAND", {layer: {} for layer in LAYERS})


def compared(workers: int, **layers: Any) -> dict[str, Any]:
    return weft.compare(scenario(), ["fifo", "srsf"], 2, workers=workers, **layers).to_dict()


def test_a_policy_in_a_file_reaches_worker_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    here, there = compared(1, place="own.py:Own"), compared(2, place="own.py:Own")
    assert here == there
    assert here["stacks"][0]["stack"] == "fifo[place=own.py:Own]"
    plain = compared(1, place="first-fit")
    assert [e["metrics"] for e in here["stacks"]] == [e["metrics"] for e in plain["stacks"]]


def test_a_policy_beside_the_scenario_is_found(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "s.toml").write_text(DEMO.read_text() + "\n")
    assert weft.simulate(tmp_path / "s.toml", stack="fifo/own.py:Own").stack == "fifo/own.py:Own/none/fair"


def test_what_was_registered_reaches_worker_processes() -> None:
    register("place", "by-hand", FirstFit)
    assert compared(1, place="by-hand") == compared(2, place="by-hand")


def test_a_class_that_workers_cannot_find_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Mine(FirstFit):
        """Of a notebook."""

    monkeypatch.setattr(Mine, "__module__", "__main__")
    register("place", "mine", Mine)
    with pytest.raises(InputError, match=r"place mine: worker processes cannot find a class .*FILE.py:Mine"):
        compared(2, place="mine")
    assert compared(1, place="mine")["seeds"] == [1, 2]


def test_any_executor_gives_the_same() -> None:
    alone = compared(1)
    with ThreadPoolExecutor(1) as threads, using(threads):
        assert compared(2) == alone


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("condor", "--executor condor is not known; choose processes, slurm, or dask:ADDRESS"),
        ("dask", "--executor dask needs the scheduler's address: dask:tcp://HOST:8786"),
    ],
)
def test_executors_that_are_not_there(text: str, line: str) -> None:
    with pytest.raises(InputError) as caught, using(text):
        pass
    assert str(caught.value) == line


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "weft", "compare", str(DEMO), "--seeds", "500", "--workers", "2"]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    yield started
    if _group_lives(started.pid):
        os.killpg(started.pid, signal.SIGKILL)
    started.communicate()


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_comparison_that_is_killed(running: subprocess.Popen[str], number: int) -> None:
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
    for _ in range(600):
        if len(children.read_text().split()) >= 3:  # two workers, and the keeper of their semaphores
            break
        time.sleep(0.1)
    time.sleep(1.0)
    os.kill(running.pid, number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
    if number == signal.SIGTERM:
        assert "leaked" not in err
    for _ in range(100):
        if not _group_lives(running.pid):
            return
        time.sleep(0.1)
    pytest.fail("workers are still there ten seconds after their parent was killed")


def test_an_interrupt_while_workers_are_started_is_not_lost() -> None:
    """It waits until they are started. It was ignored once, and a comparison went on for minutes after Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    started = []

    def start() -> None:
        with _deaf():
            os.kill(os.getpid(), signal.SIGINT)
            started.append(True)

    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert started
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(signal.SIGINT, before)
