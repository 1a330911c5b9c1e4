import os
import random
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest

from live.tests.serving import wait_for
from tools import stutter

# Starts daemons: their own session, no parent that we know; one without our mark has a child with it. Then a child
# without our mark. Then one that is stopped.
FAMILY = """
import os, signal, subprocess, sys
def start(*words, **given):
    process = subprocess.Popen([sys.executable, "-c", "input()", *words], stdin=0, stdout=2, **given)
    return process.pid
daemon = subprocess.run([sys.executable, "-c", '''
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "input()"], stdin=0, stdout=2, start_new_session=True).pid)
'''], stdin=0, stdout=subprocess.PIPE, text=True).stdout
begins = subprocess.Popen([sys.executable, "-c", '''
import os, subprocess, sys
words = "echo $$; exec 3<&0; env $0 sh -c 'echo $$; read word' <&3 & wait"
env = {"PATH": os.defpath}
subprocess.Popen(["sh", "-c", words, sys.argv[1]], stdin=0, env=env, start_new_session=True)
''', f"{sys.argv[1]}={os.environ[sys.argv[1]]}"], stdin=0, stdout=subprocess.PIPE, text=True)
unmarked = [int(begins.stdout.readline()) for _ in range(2)]
begins.wait()
pids = [int(daemon), *unmarked, start(env={}), start()]
os.kill(pids[-1], signal.SIGSTOP)
os.waitid(os.P_PID, pids[-1], os.WSTOPPED)
print(os.getpid(), *pids, flush=True)
input()
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(pids: list[int], stopped: bool) -> None:
    wait_for(lambda: all((state(pid) == "T") is stopped for pid in pids))


def test_the_whole_family_is_stopped_and_nobody_that_was_stopped_before_runs_again() -> None:
    mark = uuid.uuid4().hex
    with subprocess.Popen(
        [sys.executable, "-c", FAMILY, stutter.MARK],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, stutter.MARK: mark},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        *running, frozen = pids
        try:
            stopped = stutter.stop(process.pid, mark)
            assert stopped == {*running}
            wait_until(running, stopped=True)
            assert stutter.family(process.pid, mark) == set()
            stutter.go_on(stopped)
            wait_until(running, stopped=False)
            assert state(frozen) == "T"
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("code", "status"), [("import sys; sys.exit(7)", 7), ("import os; os.abort()", 134)])
def test_the_exit_status_is_the_command_s(code: str, status: int) -> None:
    command = [sys.executable, "-m", "tools.stutter", "--seed", "2", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stdout.splitlines()[-1].startswith("stopped ")


def test_a_command_without_end_is_stopped_and_goes_on() -> None:
    """It ends when it has been stopped: a process is told that it goes on."""
    code = "import signal, sys; signal.signal(signal.SIGCONT, lambda *_: sys.exit(0))\nwhile True: signal.pause()"
    assert stutter.stutter([sys.executable, "-c", code], random.Random(1)) == 0


# Says that it runs. Under nohup it would inherit that SIGHUP is ignored.
LASTS = """
import signal, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)
print('up', flush=True)
while True: time.sleep(0.001)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_who_stops_others_may_be_ended_at_any_time(number: int) -> None:
    """A signal is meant for the command; and where it cannot be heard, nobody stays stopped, and nobody busy."""
    command = [sys.executable, "-m", "tools.stutter", sys.executable, "-c", LASTS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        wait_for(lambda: len(children(process.pid)) == 3)
        pids = children(process.pid)
        child = next(pid for pid in pids if LASTS.encode() in Path(f"/proc/{pid}/cmdline").read_bytes())
        try:
            wait_for(lambda: state(child) == "T")
            process.send_signal(number)
            assert process.wait() == (-number if number == signal.SIGKILL else 128 + number)
            if number == signal.SIGKILL:
                wait_for(lambda: not any(map(lives, pids - {child})))
                assert state(child) != "T"
            else:
                assert not any(map(lives, pids))
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def children(pid: int) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def lives(pid: int) -> bool:
    with suppress(FileNotFoundError):
        return state(pid) not in "ZX"
    return False
