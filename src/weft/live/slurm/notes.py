"""What travels between weft and the tasks of a Slurm job: a note in its AdminComment, and files that both can reach.

The note is read by the TaskProlog of every task; it names the start, the shift, and weft's folder. In the folder of the
start `progress` is written by the job's relay (relay.py), and `gate` by weft whenever the shift of a running job
changes. Jobs of other users may write their own `progress` and nothing else.
"""

from __future__ import annotations

import json
import os
import pwd
import re
from contextlib import suppress
from pathlib import Path

from weft.errors import InputError
from weft.live.slurm.reconcile import Task

__all__ = ["Shift", "make_folder", "note", "refuse_folder", "write_gate"]

Shift = tuple[float, float, float]  # epoch by wall time, period, tolerance


def note(folder: Path, task: Task, shift: Shift | None) -> str:
    """One word without blanks, which Slurm keeps as it is."""
    shifted = f",shift={shift[0]:.6f}/{shift[1]:.9g}/{shift[2]:.6g}" if shift else ""
    return (
        f"weft:job={task.job.id},attempt={task.starts},resume={task.saved},iterations={task.description.iterations},"
        f"dir={folder.resolve()}{shifted}"
    )


def make_folder(folder: Path, user: str) -> None:
    """The folder of a start: weft's own but for the file that the job's user writes."""
    for part in (folder.parent.parent, folder.parent, folder):
        part.mkdir(exist_ok=True, parents=True)
        part.chmod(0o711)
    file = os.open(folder / "progress", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        with suppress(KeyError, PermissionError):
            os.fchown(file, pwd.getpwnam(user).pw_uid, -1)
    finally:
        os.close(file)


def write_gate(folder: Path, shift: Shift | None) -> None:
    """What holds from the next iteration on; whole, or as it was."""
    gate = None if shift is None else dict(zip(("epoch", "period", "tolerance"), map(float, shift), strict=True))
    new = folder / "gate.new"
    with suppress(FileNotFoundError):
        new.write_text(json.dumps(gate), encoding="ascii")
        new.chmod(0o644)
        new.replace(folder / "gate")


def refuse_folder(folder: Path) -> None:
    """Raise if the folder's name cannot travel in a comment."""
    name = str(folder.resolve())
    if not re.fullmatch(r"[A-Za-z0-9_./+@:=~-]+", name):  # scontrol, sed and sh read it
        raise InputError(f"{folder}: its name has letters that Slurm's comments cannot carry; choose another --dir")
