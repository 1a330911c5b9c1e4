"""`weft.progress(step)`: what a training script calls once per iteration.

    import weft
    for step in range(weft.resume_step(), steps):
        weft.progress(step, wait=True)
        train(step)

This module needs only the standard library, and does nothing when the script does not run under weft.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time

_FIRST_S = 1.0  # seconds for the first answer: who gives it may just have been started, on a busy machine
_PATIENCE_S = 0.2  # an answer takes microseconds; after this long nobody is going to answer
_PAUSE_S = (1.0, 60.0)  # seconds before somebody who did not answer is asked again: at first, doubling, and at most;
# who has answered before, and may have stood still for a moment, is asked again at once


class _Line:
    """The connection of this process to its runner; made anew after a fork and after a failure."""

    def __init__(self) -> None:
        self.now = time.monotonic
        self.lock = threading.Lock()
        self.socket: socket.socket | None = None
        self.path = ""
        self.pid = 0
        self.forget()

    def forget(self) -> None:
        """Nobody has been asked yet."""
        self.not_before, self.pause_s, self.patience_s = 0.0, _PAUSE_S[0], _FIRST_S

    def ask(self, path: str, message: bytes) -> bytes:
        """Send a line and return the answer; b"" when nobody is there."""
        if (path, os.getpid()) != (self.path, self.pid):
            self.hang_up()
            self.path, self.pid = path, os.getpid()
            self.forget()
        if self.socket is None and self.now() < self.not_before:
            return b""
        try:
            if self.socket is None:
                self.socket = _connect(path, self.patience_s)
            self.socket.sendall(message)
            answer = b""
            while not answer.endswith(b"\n"):
                part = self.socket.recv(4096)
                if not part:
                    raise ConnectionError
                answer += part
            self.socket.settimeout(_PATIENCE_S)
            self.pause_s, self.patience_s = 0.0, _PATIENCE_S
            return answer
        except OSError:
            self.hang_up()
            self.not_before = self.now() + self.pause_s
            self.pause_s, self.patience_s = min(max(_PAUSE_S[0], 2 * self.pause_s), _PAUSE_S[1]), _PATIENCE_S
            return b""

    def hang_up(self) -> None:
        """Close it, if it is open."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


_line = _Line()


def progress(step: int, wait: bool = False, saved: bool = False) -> float:
    """Report that `step` iterations are done; returns the seconds to wait before the next one begins.

    Call it at the top of the loop. With `wait` it sleeps that long itself. `saved` says that a checkpoint holds these
    iterations: a job that is stopped goes on from the last one (`resume_step`). Without weft it returns 0.0 at once,
    and it never raises.

    Examples:
        >>> for step in range(weft.resume_step(), 3):
        ...     weft.progress(step, wait=True)
        0.0
        0.0
        0.0
    """
    return _ask(step, wait, {"saved": bool(saved)})


def at_gate(step: int) -> None:
    """Wait for the opening of the communication that is about to begin, in the iteration after `step` others.

    What `weft run` has a DDP script call: the gate acts inside the iteration, where it was computed for.
    """
    _ask(step + resume_step(), True, {"inside": True})


def _ask(step: int, wait: bool, more: dict[str, bool]) -> float:
    path = os.environ.get("WEFT_PROGRESS_SOCKET")
    if not path:
        return 0.0
    delay_s = 0.0
    with contextlib.suppress(Exception):  # whatever goes wrong here must not stop a training run
        rank = os.environ.get("RANK") or os.environ.get("SLURM_PROCID") or "0"
        message = {"step": int(step), "rank": int(rank), **more}
        with _line.lock:
            answer = _line.ask(path, json.dumps(message).encode() + b"\n")
        at = json.loads(answer).get("at") if answer else None
        if at is not None:
            delay_s = max(0.0, float(at) - time.monotonic())  # one clock for all processes of a machine
    if wait and delay_s > 0:
        time.sleep(delay_s)
        return 0.0
    return delay_s


def resume_step() -> int:
    """Iterations that the job had saved when it was last stopped: where this start should go on.

    Examples:
        >>> weft.resume_step()
        0
    """
    try:
        return max(0, int(os.environ.get("WEFT_RESUME_STEP", "0")))
    except ValueError:
        return 0


def _connect(path: str, patience_s: float) -> socket.socket:
    """Connect to a socket; a path that is too long for a socket's address is opened through its folder."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.settimeout(patience_s)
    try:
        if len(os.fsencode(path)) < 100:
            connected.connect(path)
        else:
            folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
            try:
                connected.connect(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
            finally:
                os.close(folder)
    except BaseException:
        connected.close()
        raise
    return connected
