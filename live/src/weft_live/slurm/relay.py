"""The relay: a small process beside the tasks of a job on one node, which `weft.progress` talks to.

It is started by the TaskProlog of the node's first task, needs nothing but the standard library (reports.py lies beside
it), and ends with the step it was started in. It answers every report with the moment at which the next iteration may
begin, by the shift in the file `gate`, and keeps the last report of rank 0 in `progress`. Without these files it
answers that there is nothing to wait for.

    relay.py SOCKET FOLDER PID
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft_live.reports import MOST_CONNECTIONS, Connection, Keeper, Record, answer, listen, understood
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    with contextlib.suppress(ImportError):
        from reports import MOST_CONNECTIONS, Connection, Keeper, Record, answer, listen, understood

LOOK_S = 1.0  # how often it looks whether its step is still there


class Relay:
    """Listens on a socket of this node for the tasks of one job."""

    def __init__(self, path: str, folder: str, pid: int) -> None:
        os.chdir(os.path.dirname(path))
        self.name = os.path.basename(path)
        self.pid = pid
        self.gate_file = os.path.join(folder, "gate")
        self.keeper = Keeper(None)
        self.gate_seen: tuple[int, int] | None = None
        self.record: Record | None = None
        with contextlib.suppress(OSError):
            os.close(os.open(os.path.join(folder, "progress"), os.O_WRONLY))  # it must be there, and ours
            here = os.open(".", os.O_RDONLY)
            os.chdir(folder)
            with contextlib.suppress(OSError):
                self.record = Record(0)
            os.fchdir(here)
            os.close(here)
        self.listener = listen(self.name)
        self.connections: dict[int, Connection] = {}

    def run(self) -> None:
        """Until the step is gone."""
        try:
            while os.path.exists(f"/proc/{self.pid}"):
                waiting = [self.listener] if len(self.connections) < MOST_CONNECTIONS else []
                sources: list[int | socket.socket] = [*waiting, *self.connections]
                ready, _, _ = select.select(sources, [], [], LOOK_S)
                for source in ready:
                    if isinstance(source, socket.socket):
                        with contextlib.suppress(OSError):
                            connection = Connection(source.accept()[0], False)
                            self.connections[connection.socket.fileno()] = connection
                    else:
                        self.hear(self.connections[source])
        finally:
            with contextlib.suppress(OSError):
                os.unlink(self.name)

    def hear(self, connection: Connection) -> None:
        """Answer what one task sent; hang up if it makes no sense."""
        lines = connection.read()
        answers = [self.answer(line) for line in lines or ()]
        if lines is None or None in answers or not connection.send(b"".join(a for a in answers if a)):
            self.connections.pop(connection.socket.fileno(), None)
            connection.socket.close()
        if self.record is not None:
            with contextlib.suppress(OSError):
                self.record.write()

    def answer(self, line: bytes) -> bytes | None:
        """The answer to one report; None if it is none."""
        self.look()
        return answer(understood(line), self.keeper, self.record, by_wall=True)

    def look(self) -> None:
        """Read the gate again if it has changed."""
        with contextlib.suppress(OSError, ValueError):
            status = os.stat(self.gate_file)
            if (status.st_ino, status.st_mtime_ns) != self.gate_seen:
                with open(self.gate_file, encoding="ascii") as file:
                    gate = json.load(file)
                self.gate_seen = (status.st_ino, status.st_mtime_ns)
                valid = isinstance(gate, dict) and {"epoch", "period", "tolerance"} <= gate.keys()
                self.keeper.set(gate if valid else None)


def main() -> None:
    """Answer until the step ends."""
    path, folder, pid = sys.argv[1:]
    if answers(path):
        return  # another step of the job has one
    relay = Relay(path, folder, int(pid))
    if os.fork():
        os._exit(0)  # whoever called us goes on when the socket is there
    os.setsid()  # Slurm ends the process group of a TaskProlog with it
    relay.run()


def answers(path: str) -> bool:
    """Whether somebody listens there; what a relay that was killed left behind is removed."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as trial:
        try:
            trial.connect(path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(path)
            return False
    return True


if __name__ == "__main__":
    main()
