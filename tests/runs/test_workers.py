import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from live.tests.serving import wait_for
from weft.errors import WeftError
from weft.runs.workers import in_processes


def begins(folder: Path, then: str = "time.sleep(600)") -> str:
    """A task for `eval`: it leaves a file in a folder that bears its process's number, and goes on."""
    return f"exec({f'import os, pathlib, time; pathlib.Path({str(folder)!r}, str(os.getpid())).touch(); {then}'!r})"


@pytest.fixture
def handlers() -> Iterator[None]:
    """Signals are heard as in a program that a user starts."""
    before = {
        number: signal.signal(number, handler)
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL))
    }
    yield
    heard = {number: signal.signal(number, handler) for number, handler in before.items()}
    assert heard == {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    assert multiprocessing.active_children() == []


ENDS = [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("number", "end"), ENDS)
def test_a_signal_that_another_thread_hears_is_not_lost(number: int, end: type[BaseException], tmp_path: Path) -> None:
    """If a process stands still while a signal comes, the kernel gives it to any thread, and the main one sleeps on."""

    def hear() -> None:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Thread(target=hear)
    thread.start()
    outcomes = in_processes([begins(tmp_path, "time.sleep(60)")] * 2, 2, eval)
    with pytest.raises(end) as caught:
        next(outcomes)
    thread.join()
    assert getattr(caught.value, "code", 143) == 143


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("number", "end"), ENDS)
def test_a_signal_in_a_finalizer_is_not_lost(number: int, end: type[BaseException]) -> None:
    """Python prints what is raised there and goes on."""

    class Falls:
        def __del__(self) -> None:
            signal.raise_signal(number)

    outcomes, falls = in_processes(["1"] * 9, 2, eval), [Falls()]
    assert next(outcomes)[1] == 1
    falls.clear()
    with pytest.raises(end):
        next(outcomes)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize(("number", "end"), ENDS)
def test_a_signal_while_workers_are_started_is_not_lost(
    number: int, end: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits until they are started. It was ignored once, and a comparison went on for minutes after Ctrl-C."""
    started, start = [], SpawnProcess.start

    def interrupted(process: SpawnProcess) -> None:
        os.kill(os.getpid(), number)
        start(process)
        started.append(process)

    monkeypatch.setattr(SpawnProcess, "start", interrupted)
    with pytest.raises(end):
        list(in_processes(["1"] * 9, 2, eval))
    assert [process.exitcode for process in started] == [-signal.SIGKILL] * 2
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.usefixtures("handlers")
def test_a_worker_that_is_killed_half_through_an_outcome_holds_up_nobody() -> None:
    half = "__import__('os').write(__import__('sys')._getframe(1).f_locals['pipe'].fileno(), b'\\0\\0\\1\\0half')"
    with pytest.raises(WeftError, match="a worker process died"):
        list(in_processes([f"({half}, __import__('os').kill(__import__('os').getpid(), 9))"] * 2, 2, eval))


def test_what_goes_wrong_in_a_worker_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(in_processes(["1 / 0"] * 2, 2, eval))
    assert "run(task)" in caught.value.__notes__[0]


COMPARED = "import sys; from weft.runs.workers import in_processes; list(in_processes(sys.argv[1:], 2, eval))"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_comparison_that_is_killed(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPARED, *[begins(tmp_path)] * 2]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_for(lambda: len(list(tmp_path.iterdir())) == 2)
        os.kill(running.pid, number)
        _, err = running.communicate(timeout=60)
        assert running.returncode == (-number if number == signal.SIGKILL else 128 + number)
        assert err == ""
        wait_for(lambda: not _group_lives(running.pid))
    finally:
        if _group_lives(running.pid):
            os.killpg(running.pid, signal.SIGKILL)


def _group_lives(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
