"""The runner: a small process that starts one attempt of a job, watches over it, and leaves its exit code in a file.

It outlives `weft serve`: a server that was killed and comes back reads what the runner wrote and goes on. It is run
by a bare interpreter (`python -I -S`), needs nothing but the standard library, and does not import weft.

The attempt's folder: `spec.json` says what to run. `lock` is locked as long as the runner lives. `begun` is made
once: whoever makes it starts the command, so that a start asked for twice happens once. `child` names the process
group, written before the command may run. `progress` is the last report of the job. `exit` is the end. `p.sock` is
where the job reports; `c.sock` is where the server sends gates and stops, so that a job that floods the one does not
block the other. All that descends from the runner is the job: it is gone when `exit` is written.
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
import zlib
from collections import deque

TYPE_CHECKING = False  # typing's own would cost a tenth of the start
if TYPE_CHECKING:
    from typing import Any

    from weft.live.family import be_subreaper, boot_id, children, family, kill, started_at
elif __package__:
    from weft.live.family import be_subreaper, boot_id, children, family, kill, started_at
else:  # family.py lies beside it
    from family import be_subreaper, boot_id, children, family, kill, started_at

MOST_CONNECTIONS = 64
LONGEST_LINE = 4096  # a job that sends more without a newline is not talking to us
PER_LOOK = 8192  # bytes taken from one connection before the others, and the job's own end, are looked at
RECENT = 21  # iterations whose median is the measured speed
SEEN = 5  # iterations by whose median it is judged whether a gate fits
SHORTEST, LATE = 0.7, 0.02  # of a period: iterations shorter than the one, or later than the tolerance and the other
RECORD = 96  # bytes of the progress file


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
        except OSError as error:
            where = self.spec["cwd"] if error.filename == self.spec["cwd"] else argv[0]
            os.write(failed, f"cannot run {where}: {error.strerror}\n".encode())
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
        """Take what one connection sent, answer, and hang up on who does not make sense."""
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
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return None
        match message:
            case {"step": int(step), **rest} if not isinstance(step, bool) and 0 <= step < 2**53:
                now, inside = time.monotonic(), rest.get("inside") is True
                at = self.keeper.at(step, rest.get("rank", 0), now, now, inside)
                if rest.get("rank", 0) == 0 and not (inside and step <= self.record.step):
                    self.record.report(step, rest.get("saved") is True, now, max(at, now))
                return b"{}\n" if at <= now else b'{"at": %r}\n' % at
            case {"gate": None | {"epoch": float(), "period": float(), "tolerance": float()} as gate} if control:
                self.keeper.set(gate)
                return b"{}\n"
            case {"stop": float(grace_s)} if control:
                self.stop(grace_s)
                return b"{}\n"
            case _:
                return None

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


class Keeper:
    """Applies a gate as long as it fits: a job whose own iterations are longer than the period would wait for every
    second slot, and one whose iterations are much shorter would idle. Both are let go within a few iterations, and are
    held again when their iterations fit again."""

    def __init__(self, gate: dict[str, float] | None) -> None:
        self.gate = gate
        self.own: deque[float] = deque(maxlen=SEEN)  # seconds of the last iterations, waiting left out
        self.decided = (-1, 0.0)  # the last step that asked inside its iteration, and when it may go on
        self.last: dict[int, tuple[int, float]] = {}  # by rank: the step it reported, and when it could go on

    def set(self, gate: dict[str, float] | None) -> None:
        """Another gate; what is known of the iterations stays."""
        self.gate = gate

    def at(self, step: int, rank: object, now: float, by_gate: float, inside: bool = False) -> float:
        """When a rank that has done so many steps may go on; `by_gate` is the time by the clock of the gate.

        `inside`: it stands before the task that the gate names, not before the iteration. The first rank that asks
        there decides for all: one that came a moment later must not wait for another slot.
        """
        number = rank if isinstance(rank, int) else 0
        if inside and self.decided[0] == step and self.decided[1] > now - self.patience():
            return max(self.decided[1], now)
        before = self.last.get(number)
        if before is not None and step > before[0] and number == min(self.last):
            self.own.append((now - before[1]) / (step - before[0]))
        if inside and self.gate is not None:
            by_gate -= self.gate.get("offset", 0.0)
        at = now if self.misfits() else now + slot(self.gate, by_gate) - by_gate
        if inside:
            self.decided = (step, at)
        if number in self.last or len(self.last) < MOST_CONNECTIONS:
            self.last[number] = (step, max(at, now))
        return at

    def patience(self) -> float:
        """How long an answer stands for the other ranks of a step: half a period."""
        return self.gate["period"] / 2 if self.gate is not None else 0.0

    def misfits(self) -> bool:
        """Whether the job's own iterations, at the median, are not those that the gate is for."""
        if self.gate is None or self.gate["period"] <= 0 or len(self.own) < SEEN:
            return False
        own = sorted(self.own)[len(self.own) // 2] / self.gate["period"]
        return not SHORTEST <= own <= 1 + self.gate["tolerance"] + LATE


class Connection:
    """Lines from a process of the job, or from the server."""

    def __init__(self, connected: socket.socket, control: bool) -> None:
        self.socket = connected
        self.control = control  # from the server
        self.socket.setblocking(False)
        self.rest = b""

    def read(self) -> list[bytes] | None:
        """Whole lines that have come; None at the end, or if they are too long."""
        try:
            data = self.socket.recv(PER_LOOK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        *lines, self.rest = (self.rest + data).split(b"\n")
        if not data or len(self.rest) > LONGEST_LINE:
            return None
        return lines

    def send(self, data: bytes) -> bool:
        """False if the other side does not read."""
        if not data:
            return True
        try:
            return self.socket.send(data) == len(data)
        except OSError:
            return False


class Record:
    """How far the job is, kept in the file `progress`: step, saved step, reports, median iteration."""

    def __init__(self, iterations: int) -> None:
        self.most = iterations or 2**53
        self.step = -1
        self.saved = -1
        self.reports = 0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.since = 0.0
        self.changed = False
        self.file = os.open("progress", os.O_WRONLY | os.O_CREAT, 0o600)

    def report(self, step: int, saved: bool, now: float, goes_on: float) -> None:
        """`step` iterations are done, and the next begins at `goes_on`."""
        step = min(step, self.most)
        if self.reports and step > self.step:
            self.recent.append((now - self.since) / (step - self.step))
        self.since = goes_on
        self.reports += 1
        self.step = max(self.step, step)
        self.saved = max(self.saved, step) if saved else self.saved
        self.changed = True

    def write(self) -> None:
        """To the file, if there is anything new."""
        if self.changed:
            self.changed = False
            speed = sorted(self.recent)[len(self.recent) // 2] if self.recent else 0.0
            text = f"{self.step} {self.saved} {self.reports} {speed:.9g}".encode()
            os.pwrite(self.file, (b"%08x %s" % (zlib.crc32(text), text)).ljust(RECORD), 0)


def listen(name: str) -> socket.socket:
    """A socket in the attempt's folder, for its owner alone; a relative name, since a long path cannot be bound."""
    before = os.umask(0o077)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(name)
    listener.listen(16)
    listener.setblocking(False)
    os.umask(before)
    return listener


def slot(gate: dict[str, float] | None, now: float) -> float:
    """When the next iteration may begin: now, or at the next slot of the gate if it is late for this one.

    The same rule as the simulator's: slots are epoch + k x period; later than the tolerance (a fraction of the
    period) means the next slot. Period 0 is a one-off delay until the epoch.
    """
    if gate is None:
        return now
    epoch, period = gate["epoch"], gate["period"]
    if period <= 0:
        return max(now, epoch)
    late = (now - epoch) % period
    return now if late <= gate["tolerance"] * period else now + period - late


def write(name: str, value: dict[str, Any]) -> None:
    """A whole file or none."""
    with open(f"{name}.new", "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{name}.new", name)


def surely(name: str, value: dict[str, Any]) -> None:
    """The same, and again until it is written: on a full disk the file comes late, and the lock says that we live."""
    while True:
        try:
            write(name, value)
            return
        except OSError:
            time.sleep(0.5)
