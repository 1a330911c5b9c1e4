"""The warden of a testbed: a small process that outlives its maker by an instant and removes what the maker left.

    python warden.py NAMESPACE-FILE ... < the maker's end of a pipe

When the maker ends, in whatever way, the pipe closes. The warden then ends every process in the namespaces, whoever
started it, and removes the folders that it was told of, a line each. Until then it holds the namespaces itself, so that
their inodes are not given to others. The warden needs only the standard library.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

_PATIENCE_S = 5.0


def inhabitants(inodes: set[int]) -> list[int]:
    """Processes in these network namespaces."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                inode = os.stat(f"/proc/{name}/ns/net").st_ino
            except OSError:  # it has ended
                continue
            if inode in inodes:
                found.append(int(name))
    return found


def end_all(inodes: set[int]) -> int:
    """Kill whatever is there until nothing is: a process may have forked meanwhile. Returns how many there were."""
    seen: set[int] = set()
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        there = inhabitants(inodes)
        if not there:
            break
        for pid in there:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        seen.update(there)
        time.sleep(0.005)
    return len(seen)


def remove(folder: str) -> None:
    """Remove a folder; try again if something is written there meanwhile."""
    until = time.monotonic() + _PATIENCE_S
    while os.path.lexists(folder) and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.005)


def main(files: list[int]) -> None:
    """Wait for the end of the maker."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    folders = [line.rstrip("\n") for line in sys.stdin]
    end_all({os.fstat(file).st_ino for file in files})
    for folder in folders:
        remove(folder)


if __name__ == "__main__":
    main([int(file) for file in sys.argv[1:]])
