"""Files for users: a path that cannot be written is reported in one line, if possible before anything is run."""

from __future__ import annotations

import os
from pathlib import Path

from weft.errors import InputError

__all__ = ["refuse_unwritable", "refuse_unwritable_folder", "write_text"]


def refuse_unwritable(path: Path, what: str = "report") -> None:
    """Raise if a file cannot be written there; folders that are missing are made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, what, error.strerror) from None
    if path.is_dir():
        raise _unwritable(path, what, "Is a directory")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _unwritable(path, what, "Permission denied")


def refuse_unwritable_folder(folder: Path) -> None:
    """Raise if nothing can be written into that folder, which is made if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder}: a file is in the way of the folder for the run; name another folder") from None
    except OSError as error:
        raise _no_folder(folder, error.strerror) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _no_folder(folder, "Permission denied")


def write_text(path: Path, text: str, what: str) -> None:
    """Write a file; `what` names it in the message if that fails."""
    refuse_unwritable(path, what)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(path, what, error.strerror) from None


def _unwritable(path: Path, what: str, why: str | None) -> InputError:
    return InputError(f"{path}: cannot write the {what} ({why}); name a writable file")


def _no_folder(folder: Path, why: str | None) -> InputError:
    return InputError(f"{folder}: cannot write the run ({why}); name a writable folder")
