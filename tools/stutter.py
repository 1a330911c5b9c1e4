"""Do tests hold on a machine that stands still now and then? python -m tools.stutter COMMAND runs a command, two
processes that keep processors busy beside it, and stops all processes of the command together, for 50 to 300 ms at a
time and a fifth of the time on average. The exit status is the command's."""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

STOP_S = (0.05, 0.3)
APART = 4.0  # times as long between stops as in them: a fifth of the time
MARK = "WEFT_STUTTER"


def family(root: int, mark: str) -> set[int]:
    """The processes that run and descend from one, or have its mark in their environment: daemons lose their parents,
    and some programs their environment."""
    parents: dict[int, int] = {}
    found = {root}
    runs = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has ended, or is somebody else's
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            parents[int(entry.name)] = int(parent)
            if state not in "TtZX":  # who is stopped already is not ours to continue
                runs.add(int(entry.name))
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found & runs


def stop(root: int, mark: str) -> set[int]:
    """Stop the family; look again until nobody is left, because processes start others meanwhile."""
    stopped: set[int] = set()
    try:
        while running := family(root, mark) - stopped:
            stopped |= running
            send(running, signal.SIGSTOP)
    except BaseException:
        go_on(stopped)
        raise
    return stopped


def go_on(stopped: set[int]) -> None:
    """Let processes that `stop` has stopped run again."""
    send(stopped, signal.SIGCONT)


def send(pids: set[int], what: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, what)


def stutter(command: Sequence[str], dice: random.Random) -> int:
    """Run a command and stop it again and again; say how often and for how long. Returns its exit status."""
    mark = f"{os.getpid()}-{time.time_ns()}"
    stops, stood_s = 0, 0.0
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    began = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, MARK: mark})
    try:
        while process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(APART * dice.uniform(*STOP_S))
                break
            stopped, at = stop(process.pid, mark), time.monotonic()
            try:
                time.sleep(dice.uniform(*STOP_S))
            finally:
                go_on(stopped)
                stops, stood_s = stops + 1, stood_s + time.monotonic() - at
    except KeyboardInterrupt:  # the command has heard it, too
        process.wait()
    finally:
        for busy in load:
            busy.kill()
            busy.wait()
    print(f"stopped {stops} times, {stood_s:.1f} of {time.monotonic() - began:.1f} s", flush=True)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def main() -> int:
    """Read the arguments; run."""
    parser = argparse.ArgumentParser(description=" ".join((__doc__ or "").split()))
    parser.add_argument("--seed", type=int, default=1, help="of the times at which processes are stopped")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run, with its arguments")
    arguments = parser.parse_args()
    if not arguments.command:
        parser.error("name the command that is to run")
    return stutter(arguments.command, random.Random(arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
