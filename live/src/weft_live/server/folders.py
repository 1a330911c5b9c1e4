"""Who owns a folder: what weft runs, believes and answers comes from files, so nobody else may have written them."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from weft.errors import InputError

_NETWORK = ("nfs", "cifs", "smb", "lustre", "gpfs", "beegfs", "ceph", "gluster", "afs", "pvfs", "orangefs", "fuse.")


def own(folder: Path, option: str = "--dir") -> None:
    """Make a folder for its owner alone, if it is not there, and raise if others could have put something there."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"{folder}: cannot be used ({error.strerror}); name another folder with {option}") from None
    refuse_foreign(folder, option)


def refuse_foreign(folder: Path, option: str = "--dir") -> None:
    """Raise if the folder, or one that it lies in, is somebody else's, or can be written by others.

    `option` is what names another folder on the command line.
    """
    whole = folder.resolve()
    status = whole.stat()
    if status.st_uid != os.geteuid():
        raise InputError(f"{folder}: belongs to somebody else; name your own folder with {option}")
    if status.st_mode & 0o022:
        raise InputError(f"{folder}: others may write there; chmod go-w it, or name another folder with {option}")
    named = Path(os.path.abspath(folder))
    for link in (named, *named.parents):
        if link.is_symlink() and link.lstat().st_uid not in (0, os.geteuid()):
            raise InputError(f"{folder}: {link} is a link of somebody else, who could change it; name another {option}")
    for parent in {*whole.parents, *named.parents}:
        known = parent.stat()
        if known.st_uid not in (0, os.geteuid()):
            raise InputError(
                f"{folder}: {parent} belongs to somebody else, who could replace it; name another {option}"
            )
        if known.st_mode & 0o022 and not known.st_mode & stat.S_ISVTX:
            raise InputError(f"{folder}: others may write in {parent} and replace it; name another {option}")


def refuse_network(folder: Path, mounts: str | None = None) -> None:
    """Raise if the folder is on a network file system: the ledger's log is shared memory, which those do not share."""
    kind = _kind(folder.resolve(), _mounts() if mounts is None else mounts)
    if kind.startswith(_NETWORK):
        raise InputError(
            f"{folder}: is on a network file system ({kind}), where the ledger is not safe; name a folder on a local "
            "disk with --dir, and one that the nodes see with --shared"
        )


def refuse_to_read(folder: Path, name: str) -> None:
    """Raise if the ledger, a file of that name, is not there, or not ours."""
    try:
        with open(folder / name, "rb"):
            pass
    except PermissionError:
        raise InputError(
            f"{folder}: belongs to somebody else; ask its owner, or name another folder with --dir"
        ) from None
    except OSError:
        raise InputError(f"{folder}: no run of weft serve; start one there, or name its folder with --dir") from None


def _mounts() -> str:
    try:
        return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _kind(path: Path, mounts: str) -> str:
    """The type of the file system that holds a path: that of the longest mount point above it."""
    best, kind = "", ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), fields[4])  # blanks are written so
        if (str(path) + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind


def remove_old(jobs: Path, present: Mapping[str, int], before_s: float) -> int:
    """Remove the folders of attempts that have ended, and in which nothing has changed since; returns how many. What
    users have put there may be removed by others meanwhile, or may not let itself be removed."""
    removed = 0
    for job in _listed(jobs):
        for attempt in _listed(job):
            if attempt.name != str(present.get(job.name, 0)) and _changed_s(attempt) < before_s:
                shutil.rmtree(attempt, ignore_errors=True)
                removed += 1
        with suppress(OSError):
            job.rmdir()  # empty now
    return removed


def _listed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return [entry for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink()]
    return []


def _changed_s(attempt: Path) -> float:
    with suppress(OSError):
        known = [entry.lstat() for entry in (attempt, *attempt.iterdir())]
        return max(min(one.st_mtime, one.st_ctime) for one in known)  # users may write any time into a file of theirs
    return float("inf")
