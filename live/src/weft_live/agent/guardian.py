"""The guardian: a small process beside an agent that lets go of its sockets when the agent dies or hangs.

    python guardian.py FILE SECONDS

The agent writes a byte to its standard input now and then. If none comes for so many seconds, or the input ends, all
sockets that FILE names are given the rate that they had before. The guardian needs only the standard library.
"""

from __future__ import annotations

import os
import select
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from weft_live.agent.sockets import Process, Remote
else:  # sockets.py lies beside it, and an isolated interpreter does not look there
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from sockets import Process, Remote

SILENCE_S = 0.5


def remember(file: int, socket: Remote) -> None:
    """Write down a socket before it is paced for the first time, with the rate that it has."""
    original = socket.paced()
    socket.original = original
    os.write(file, f"{socket.process.pid} {socket.number} {socket.inode} {original}\n".encode())


def release(path: str) -> int:
    """Give every socket in the file the rate that it had; returns how many were still there."""
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return 0
    count = 0
    for line in lines:
        try:
            pid, number, inode, original = map(int, line.split())
            process = Process(pid)
        except (ValueError, ProcessLookupError):
            continue
        socket = Remote(process, number, inode)
        socket.original = original
        count += socket.pace(original)
        process.close()
    return count


def main(path: str, silence_s: float) -> None:
    """Watch until the agent is gone."""
    os.setsid()  # whoever ends the agent's group does not end its guardian
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    calm = True
    while True:
        ready, _, _ = select.select([0], [], [], silence_s)
        if not ready:
            release(path)  # again and again: the agent may wake up, pace, and hang once more before it gives a sign
            if calm:
                os.write(1, b".")  # it is to know
            calm = False
            continue
        if not os.read(0, 4096):
            release(path)
            return
        calm = True


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
