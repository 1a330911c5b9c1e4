"""The runner: a small process that starts one attempt of a job, watches over it, and leaves its exit code in a file.

It outlives `weft serve`: a server that was killed and comes back reads what the runner wrote and goes on. It is run
by a bare interpreter (`python -I -S`), needs nothing but the standard library, and does not import weft.

The attempt's folder: `spec.json` says what to run. `lock` is locked as long as the runner lives. `begun` is made once:
whoever makes it starts the command, so that a start asked for twice happens once. `child` names the process group,
written before the command may run. `progress` is the last report of the job. `exit` is the end. `p.sock` is where the
job reports; `c.sock` is where the server sends gates and stops, so that a job that floods the one does not block the
other. The job is every process that descends from the runner; all of them are gone when `exit` is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import time

TYPE_CHECKING = False  # typing's own would cost a tenth of the start
if TYPE_CHECKING:
    from typing import Any

    from weft_live.family import be_subreaper, boot_id, children, family, kill, started_at
    from weft_live.reports import MOST_CONNECTIONS, Connection, Keeper, Record, answer, listen, understood
elif __package__:
    from weft_live.family import be_subreaper, boot_id, children, family, kill, started_at
    from weft_live.reports import MOST_CONNECTIONS, Connection, Keeper, Record, answer, listen, understood
else:  # they lie beside it
    from family import be_subreaper, boot_id, children, family, kill, started_at
    from reports import MOST_CONNECTIONS, Connection, Keeper, Record, answer, listen, understood


def main(folder: str) -> int:
    """Run the attempt in that folder to its end."""
    os.chdir(folder)
    with contextlib.suppress(OSError):
        os.setsid()
    lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(os.open("begun", os.O_CREAT | os.O_EXCL, 0o600))
    except (BlockingIOError, FileExistsError):
        return 0  # another runner has this attempt
    with open("spec.json", encoding="utf-8") as file:
        spec = json.load(file)
    be_subreaper()
    Runner(spec).run()
    return 0


class Runner:
    """One attempt: its processes, the socket that they report to, and how far they are."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.home = os.open(spec["home"], os.O_RDONLY | os.O_DIRECTORY)
        self.poke_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.poke_socket.setblocking(False)
        self.ranks: dict[int, int] = {}  # pid -> rank, of those that live
        self.codes: dict[int, int] = {}  # rank -> exit code
        self.group = 0
        self.terminated = False  # SIGTERM was sent by us while the job ran
        self.kill_at: float | None = None
        self.keeper = Keeper(spec.get("gate"))
        self.record = Record(spec.get("iterations", 0))
        self.stop_asked = False  # by a signal
        self.reports, self.control = listen("p.sock"), listen("c.sock")
        self.connections: dict[int, Connection] = {}

    def run(self) -> None:
        """Start, watch, and write down the end."""
        self.wakeup, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        error = self.start()
        if error is None:
            self.poke()
            while self.ranks:
                self.look()
        self.end(error)

    # Starting

    def start(self) -> str | None:
        """Start every rank; the error in words if one cannot be. None runs its command before `child` is written."""
        go_read, go_write = os.pipe2(os.O_CLOEXEC)
        failed_read, failed_write = os.pipe2(os.O_CLOEXEC)
        for rank, more in enumerate(self.spec["ranks"]):
            pid = os.fork()
            if pid == 0:
                os.close(go_write)
                self.become(rank, more, go_read, failed_write)
            self.group = self.group or pid
            with contextlib.suppress(OSError):
                os.setpgid(pid, self.group)
            self.ranks[pid] = rank
        os.close(go_read)
        os.close(failed_write)
        start = started_at(self.group)
        surely("child", {"group": self.group, "start": start, "boot": boot_id(), "runner": os.getpid()})
        os.write(go_write, b"g" * len(self.ranks))
        os.close(go_write)
        told = b""
        while part := os.read(failed_read, 200):  # closed by exec
            told += part
        os.close(failed_read)
        return told.decode(errors="replace").partition("\n")[0] or None

    def become(self, rank: int, more: dict[str, str], go: int, failed: int) -> None:
        """In the child: wait for the word, then become the command."""
        argv = self.spec["argv"]
        try:
            os.setpgid(0, self.group)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            if os.read(go, 1) != b"g":
                os._exit(1)  # the runner died before it could write us down
            name = f"output.{rank}" if len(self.spec["ranks"]) > 1 else "output"
            output = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self.spec["cwd"])
            os.execvpe(argv[0], argv, {**self.spec["env"], **more})
        except (OSError, ValueError) as error:  # a name or a value that no process can have
            where = self.spec["cwd"] if getattr(error, "filename", None) == self.spec["cwd"] else argv[0]
            words = f"cannot run {where}: {getattr(error, 'strerror', error)}\n"
            os.write(failed, words.encode(errors="backslashreplace"))
        finally:
            os._exit(127)

    # While it runs

    def look(self) -> None:
        """Wait for something to happen and see to it."""
        timeout = None if self.kill_at is None else max(0.0, self.kill_at - time.monotonic())
        listening = [self.control, self.reports] if len(self.connections) < MOST_CONNECTIONS else [self.control]
        sources: list[int | socket.socket] = [self.wakeup, *listening, *self.connections]
        ready, _, _ = select.select(sources, [], [], timeout)
        with contextlib.suppress(BlockingIOError):
            os.read(self.wakeup, 4096)
        self.reap()
        if self.stop_asked:
            self.stop(self.spec["grace_s"])
        if self.kill_at is not None and time.monotonic() >= self.kill_at:
            self.kill_at = None
            self.signal_group(signal.SIGKILL)
            for pid in family(os.getpid()):  # those with a session of their own
                kill(pid)
        for source in ready:
            if isinstance(source, socket.socket):
                with contextlib.suppress(OSError):
                    connection = Connection(source.accept()[0], source is self.control)
                    self.connections[connection.socket.fileno()] = connection
            elif source in self.connections:
                self.hear(self.connections[source])

    def reap(self) -> None:
        """Note which ranks have ended. The first of the group is waited for last: until then its number is ours."""
        for pid, rank in list(self.ranks.items()):
            if rank not in self.codes:
                result = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if result is not None:
                    exited = result.si_code == os.CLD_EXITED
                    self.codes[rank] = result.si_status if exited else -result.si_status
                    if self.codes[rank] != 0 and len(self.codes) < len(self.ranks):
                        self.signal_group(signal.SIGTERM)  # one rank failed: the others would wait for it for ever
                        self.kill_at = self.kill_at or time.monotonic() + self.spec["grace_s"]
        self.bury()
        if len(self.codes) == len(self.ranks):
            self.signal_group(signal.SIGKILL)  # what the job left running in its group
            while left := family(os.getpid()):  # and elsewhere: its GPUs are free when all of them are gone
                for pid in left:
                    kill(pid)
                self.bury()
                time.sleep(0.005)
            for pid in self.ranks:
                os.waitpid(pid, 0)
            self.ranks.clear()

    def bury(self) -> None:
        """Let go of processes that the job left to us and that have ended."""
        for pid in children(os.getpid()):
            if pid not in self.ranks:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def on_signal(self, *_: Any) -> None:
        """Only noted here: a signal comes at any moment."""
        self.stop_asked = True

    def stop(self, grace_s: float) -> None:
        """SIGTERM now, SIGKILL when the grace is over."""
        if self.ranks and not self.terminated:
            self.reap()  # what has ended by itself has not been stopped
            if self.ranks:
                self.terminated = True
                self.signal_group(signal.SIGTERM)
                self.kill_at = time.monotonic() + max(0.0, grace_s)

    def signal_group(self, number: int) -> None:
        """To all processes of the job."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.group, number)

    def hear(self, connection: Connection) -> None:
        """Take what one connection sent, answer, and hang up if it makes no sense."""
        lines = connection.read()
        if lines is None:
            self.hang_up(connection)
            return
        answers = [self.answer(line, connection.control) for line in lines]
        if None in answers or not connection.send(b"".join(a for a in answers if a)):
            self.hang_up(connection)
        with contextlib.suppress(OSError):  # a full disk is no reason to leave the job alone
            self.record.write()

    def hang_up(self, connection: Connection) -> None:
        """Close a connection."""
        self.connections.pop(connection.socket.fileno(), None)
        connection.socket.close()

    def answer(self, line: bytes, control: bool) -> bytes | None:
        """The answer to one message; None if it is none of ours."""
        match message := understood(line):
            case {"gate": None | {"epoch": float(), "period": float(), "tolerance": float()} as gate} if control:
                self.keeper.set(gate)
                return b"{}\n"
            case {"stop": float(grace_s)} if control:
                self.stop(grace_s)
                return b"{}\n"
            case _:
                return answer(message, self.keeper, self.record, by_wall=False)

    # The end

    def end(self, error: str | None) -> None:
        """Reap what is left, write the exit code, tell the server if it is there."""
        while self.ranks:
            self.look()
        code = next((code for _, code in sorted(self.codes.items()) if code != 0), 0)
        surely("exit", {"code": code, "terminated": self.terminated, "error": error, "reports": self.record.reports})
        self.poke()
        for name in ("p.sock", "c.sock"):
            with contextlib.suppress(OSError):
                os.unlink(name)

    def poke(self) -> None:
        """Tell the server to look; if none is there it will look when it comes."""
        with contextlib.suppress(OSError):
            self.poke_socket.sendto(self.spec["key"].encode(), f"/proc/self/fd/{self.home}/events.sock")


def write(name: str, value: dict[str, Any]) -> None:
    """A whole file or none."""
    with open(f"{name}.new", "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{name}.new", name)


def surely(name: str, value: dict[str, Any]) -> None:
    """Write a file, again and again until it is written: on a full disk the file comes late, and the lock shows that
    the runner lives."""
    while True:
        try:
            write(name, value)
            return
        except OSError:
            time.sleep(0.5)
