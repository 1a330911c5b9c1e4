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
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

STOP_S = (0.05, 0.3)
APART = 4.0  # times as long between stops as in them: a fifth of the time
MARK = "WEFT_STUTTER"
STANDING = "TtZX"  # states of processes that do not run, and will not


def members(root: int, mark: str) -> dict[int, str]:
    """The states of all processes that descend from one, or have its mark in their environment: daemons lose their
    parents, and some programs their environment. What began after it and has a child with the mark belongs to it, too:
    slurmstepd writes its title over its environment."""
    parents: dict[int, int] = {}
    states: dict[int, str] = {}
    born: dict[int, int] = {}
    found = {root}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # it has ended, or is somebody else's
            pid = int(entry.name)
            states[pid], parents[pid], born[pid] = _stat(pid)
            if f"{MARK}={mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    found |= {parents[pid] for pid in found & born.keys() if born.get(parents[pid], 0) > born.get(root, 0)}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return {pid: states[pid] for pid in found & states.keys()}


def _stat(pid: int) -> tuple[str, int, int]:
    """The state and the parent of a process, and when it began (ticks)."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return words[0], int(words[1]), int(words[19])


def family(root: int, mark: str) -> set[int]:
    """Those that run. Who is stopped already is not ours to continue."""
    return {pid for pid, state in members(root, mark).items() if state not in STANDING}


def stop(root: int, mark: str) -> set[int]:
    """Stop the family; look again until nobody is left, because processes start others meanwhile."""
    stopped: set[int] = set()
    try:
        while running := family(root, mark) - stopped:
            for pid in running:
                with suppress(OSError):
                    if _stat(pid)[0] not in STANDING:  # one that was not stopped yet may have stopped it just now
                        stopped.add(pid)
                        os.kill(pid, signal.SIGSTOP)
    except BaseException:
        go_on(stopped)
        raise
    return stopped


def go_on(stopped: Iterable[int]) -> None:
    """Let processes run again."""
    for pid in stopped:
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)


def busy(parent: int, root: int, mark: str) -> None:
    """Keep a processor busy. If the process that stops the others is killed, they all run again."""
    while os.getppid() == parent:
        pass
    go_on(members(root, mark))


def stutter(command: Sequence[str], dice: random.Random) -> int:
    """Run a command and stop it again and again; say how often and for how long. Returns its exit status."""
    mark = f"{os.getpid()}-{time.time_ns()}"
    stops, stood_s = 0, 0.0
    began = time.monotonic()
    process = subprocess.Popen(command, env={**os.environ, MARK: mark})
    code = f"from tools import stutter; stutter.busy({os.getpid()}, {process.pid}, {mark!r})"
    here = Path(__file__).parent.parent
    load = [subprocess.Popen([sys.executable, "-c", code], cwd=here, stderr=subprocess.DEVNULL) for _ in range(2)]
    # Whoever ends this process means the command, which ends as it likes. Ctrl-C it hears itself.
    before = {n: signal.signal(n, lambda n, _: process.send_signal(n)) for n in (signal.SIGTERM, signal.SIGHUP)}
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
    except KeyboardInterrupt:
        process.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in load:
            one.kill()
            one.wait()
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
