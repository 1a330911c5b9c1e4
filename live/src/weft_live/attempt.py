"""Attempt: one start of a job as the server sees it, through the files that its runner writes.

What its end means for the job is judged in ending.py. Exit code 0 means that the job is done. One exception: a job that
was told to stop (SIGTERM), reports its progress and has not reported its last iteration has left politely.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import stat
import sys
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.model.reason import Reason, because
from weft_live import family, reports, runner
from weft_live.description import Description
from weft_live.unix import ask
from weft_live.words import exited

_RUN = "import sys; sys.path.append(sys.argv[1]); from runner import main; main(sys.argv[2])"
_SHORTEST_S = 1e-6  # shortest iteration believed: a job reports what its user likes, and other jobs are judged by it
_ANSWER_S = 0.5  # seconds for a runner to take a message; then the others are seen to first


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended.

    `code` is the exit code, negative for a signal. `terminated`: it was told to stop while it ran. `error`: its
    command could not be started. `lost`: nobody knows how it ended, because its runner was killed or never came up;
    this is the reason's code.
    """

    code: int = 0
    terminated: bool = False
    error: str = ""
    lost: str = ""

    @property
    def how(self) -> Reason:
        """As a reason."""
        if self.lost or self.error:
            return because(self.lost) if self.lost else because("live.no-start", said=self.error)
        return exited(self.code)

    @property
    def own(self) -> bool:
        """Whether a failure is the job's own."""
        return not self.lost and (not self.terminated or self.error != "")


@dataclass(frozen=True, slots=True)
class Progress:
    """What the job last reported; -1 where it did not."""

    step: int = -1
    saved: int = -1
    reports: int = 0
    iteration_s: float = 0.0  # median of recent ones; 0: not known


class Attempt:
    """A folder, and the runner that works in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid = 0  # the runner's, if this process started it
        self.up = False  # seen to run
        self._spawned = False
        self.ended: Ended | None = None
        self._progress = Progress()
        self._untold: dict[str, dict[str, Any]] = {}  # what the runner has not taken yet, the last of each kind

    # What is asked of it

    def spawn(self, spec: dict[str, Any]) -> None:
        """Start a runner. Doing so again, after a crash, starts nothing new."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / "spec.json"
        if not (self.folder / "begun").exists():
            new = file.with_suffix(".new")
            new.touch(mode=0o600)  # an environment is in it: for the owner
            new.write_text(json.dumps(spec), encoding="utf-8")
            new.replace(file)
        argv = [sys.executable, "-I", "-S", "-c", _RUN, str(Path(runner.__file__).parent), str(self.folder)]
        log = str(self.folder / "runner.log")
        quiet = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        default = [signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD]
        self._spawned = True
        self.pid = os.posix_spawn(sys.executable, argv, os.environ, file_actions=quiet, setsigdef=default)

    def stop(self, grace_s: float) -> None:
        """SIGTERM to the job, SIGKILL after the grace. Asking twice does no harm."""
        self._untold["stop"] = {"stop": float(grace_s)}
        self._tell()

    def set_gate(self, gate: dict[str, float] | None) -> None:
        """From the next report on."""
        self._untold["gate"] = {"gate": gate}
        self._tell()

    def _tell(self) -> None:
        """Tell the runner what it does not know yet; a runner that is busy or not up hears it at the next look."""
        for kind, message in list(self._untold.items()):
            try:
                ask(self.folder / "c.sock", json.dumps(message).encode(), _ANSWER_S)
            except OSError:
                return
            del self._untold[kind]

    # What has become of it

    @property
    def begun(self) -> bool:
        """True once a runner has taken it on."""
        return (self.folder / "begun").exists()

    def look(self) -> None:
        """Read the files: sets `up` and `ended`."""
        if self.ended is not None:
            return
        self.up = self.up or (self.folder / "child").exists()
        self.ended = self._exit() or self._lost()
        if self.ended is not None:
            self._reap(wait=not self.ended.lost)
        elif self.up:
            self._tell()

    def _exit(self) -> Ended | None:
        match _read(self.folder / "exit"):
            case {"code": int(code), "terminated": bool(terminated), "error": None | str() as error}:
                return Ended(code, terminated, error or "")
        return None

    def _lost(self) -> Ended | None:
        """An attempt whose runner is gone and left no exit code."""
        if self.begun:
            if self._locked():
                return None
            ended = self._exit()  # it may have written it since
            if ended is None and not self._kill_orphans():  # those that are being killed still hold its GPUs
                ended = Ended(lost="live.runner-killed")
            return ended
        if self._spawned and self._reap(wait=False) and not self._locked() and self._bar():
            return Ended(lost="live.runner-late")
        return None

    def _bar(self) -> bool:
        """Keep a slow runner that an earlier server started from beginning this attempt; False if it has begun."""
        try:
            os.close(os.open(self.folder / "begun", os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            return False
        return True

    def _locked(self) -> bool:
        with suppress(FileNotFoundError):
            lock = os.open(self.folder / "lock", os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            finally:
                os.close(lock)
        return False

    def _kill_orphans(self) -> int:
        """End the job's processes; returns how many there were. They are known by the socket that they were to report
        to, and by the process group that was written down, if it is still that one."""
        mark = f"WEFT_PROGRESS_SOCKET={self.folder.resolve() / 'p.sock'}".encode()
        left = [pid for pid, (_, state) in family.processes().items() if state not in "ZX" and _has(pid, mark)]
        match _read(self.folder / "child"):
            case {"boot": boot, "group": int(group), "start": int(start)} if boot == family.boot_id() and group > 1:
                if family.started_at(group) in (0, start):  # 0: its first is gone, and no other has its group's number
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(group, signal.SIGKILL)
        for pid in left:
            family.kill(pid)
        return len(left)

    def _reap(self, wait: bool) -> bool:
        """Wait for a runner that this process started, if it has ended; True if it has."""
        if not self.pid:
            return True
        try:
            pid, _ = os.waitpid(self.pid, 0 if wait else os.WNOHANG)
        except ChildProcessError:
            pid = self.pid
        if pid:
            self.pid = 0
        return bool(pid)

    def progress(self) -> Progress:
        """The last report that could be read whole."""
        with suppress(OSError, ValueError):
            checksum, _, text = _first_bytes(self.folder / "progress").rstrip().partition(b" ")
            if int(checksum, 16) == zlib.crc32(text):
                step, saved, reports, iteration_s = text.split()
                self._progress = Progress(_count(step), _count(saved), _count(reports), _duration_s(iteration_s))
        return self._progress


def _has(pid: int, mark: bytes) -> bool:
    """Whether a process was started with this variable."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def _first_bytes(path: Path) -> bytes:
    """As much of a file as a report may have: it is the job's own, and may be of any size or kind."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(file, reports.RECORD) if stat.S_ISREG(os.fstat(file).st_mode) else b""
    finally:
        os.close(file)


def _count(text: bytes) -> int:
    return max(-1, min(int(text), 2**53))


def _duration_s(text: bytes) -> float:
    value = float(text)
    return value if _SHORTEST_S <= value < 1e9 else 0.0


def _read(path: Path) -> dict[str, Any] | None:
    """A file of the runner; None if it is not there, or is not what a runner writes: the job can reach it, too."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def done(ended: Ended, progress: Progress, description: Description) -> bool:
    """Whether the job is done: code 0, unless it was told to stop, has saved its state and left politely."""
    if ended.code != 0 or ended.lost or ended.error:
        return False
    left_politely = ended.terminated and progress.reports > 0
    return not left_politely or 0 < description.iterations <= progress.step


def saved_in(progress: Progress, every: int) -> int:
    """The last checkpoint: the one that the job reported, else the last multiple of `checkpoint_every`."""
    if progress.saved >= 0:
        return progress.saved
    return max(0, progress.step) // every * every
