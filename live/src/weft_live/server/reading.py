"""The child process in which users' model descriptions are read: a hostile file can end it, and can do no other harm.

It takes one JSON line for each model on its standard input and answers with one line: the profile, or why there is
none, and how long that took. It limits its own memory, and its caller (profiles.py) limits its time.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import sys
import time
from pathlib import Path
from typing import Any

from weft.errors import InputError, WeftError
from weft.model.profile import Profile, Transfer
from weft.network.collectives import get_collective
from weft.workload import zoo

LARGEST = 16 << 20  # bytes of a file, as it lies there
MOST_TASKS = 4096  # most tasks of one iteration: policies look at every task
_MOST_EDGES = 16 * MOST_TASKS  # most dependencies between tasks
_MOST_SERVERS = 64  # parameter servers: each is opened into messages from every worker
_MOST_S, _MOST_BYTES = 1e9, 1e18  # most in one iteration: multiplied by iterations and GPUs, these are still finite
_MEMORY = 2 << 30


def main() -> None:
    """Answer until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        began = time.monotonic()
        print(json.dumps(_answer(json.loads(line)) | {"seconds": time.monotonic() - began}), flush=True)


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"profile": _read(asked["model"], asked["gpus"], asked["gpu"], asked["folders"]).as_json()}
    except WeftError as error:
        return {"error": str(error)}
    except (MemoryError, RecursionError, OverflowError):
        return {"error": f"submit: {asked['model']:.80} needs too much memory to be read; name a smaller one"}
    except Exception as error:  # whatever a file does to its parser must not stop who asked
        return {"error": f"submit: {asked['model']:.80} cannot be read ({type(error).__name__}); check the file"}


def _read(model: str, gpus: int, gpu: str, folders: list[str] | None) -> Profile:
    if not zoo.is_path(model):
        return _plannable(zoo.profile(model, gpus, gpu=gpu))
    path = zoo.without(model)
    file = open_model(Path(path), folders)
    there = f"/proc/self/fd/{file}"
    try:
        return _plannable(zoo.profile(model.replace(path, there, 1), gpus, gpu=gpu))
    except WeftError as error:
        raise InputError(str(error).replace(there, path)) from None
    finally:
        os.close(file)


def _plannable(profile: Profile) -> Profile:
    """The profile; raises if policies, which look at it in the server itself, would fail or take long over it."""
    name, transfers = f"submit: {profile.name:.80}", [task for task in profile.tasks if isinstance(task, Transfer)]
    if len(profile.tasks) > MOST_TASKS:
        raise InputError(f"{name} has {len(profile.tasks)} tasks; at most {MOST_TASKS} are planned")
    if (edges := sum(len(task.after) for task in profile.tasks)) > _MOST_EDGES:
        raise InputError(f"{name}: its tasks wait for {edges} of them; at most {_MOST_EDGES} are planned")
    for task in transfers:
        if task.collective is not None:
            get_collective(task.collective)
        if task.servers > _MOST_SERVERS:
            raise InputError(f"{name} has {task.servers} parameter servers; at most {_MOST_SERVERS} are planned")
    slow = any(task.demand_bytes_per_s is not None and task.demand_bytes_per_s < 1.0 for task in transfers)
    if slow or not (profile.compute_s <= _MOST_S and profile.message_bytes <= _MOST_BYTES):
        raise InputError(
            f"{name}: an iteration of {profile.compute_s:g} s that sends {profile.message_bytes:g} bytes is no amount "
            "that can be planned; check the file"
        )
    return profile


def open_model(path: Path, folders: list[str] | None) -> int:
    """Open a profile file; raises if it is not a regular file of bounded size in one of these folders (None: any).

    Where the file lies is asked of the open file: a link that is changed meanwhile leads nowhere else.
    """
    if folders is not None and not folders:
        raise InputError(f"submit: {path} is a file, and this server reads none; name a model of the zoo (weft models)")
    if folders is not None and not path.is_absolute():
        raise InputError(f"submit: {path} is not an absolute path; give the whole path")
    if folders is not None and not _below(os.path.realpath(path), folders):
        raise InputError(f"submit: {path} is in no folder that profiles are read from: {', '.join(folders)}")
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"submit: {path}: {error.strerror}; check the path") from None
    known = os.fstat(file)
    inside = folders is None or _below(os.readlink(f"/proc/self/fd/{file}"), folders)
    if not inside or not stat.S_ISREG(known.st_mode) or known.st_size > LARGEST or _is_kernels(file):
        os.close(file)
        raise InputError(f"submit: {path} is no profile file; name a file of at most {LARGEST >> 20} MiB")
    return file


def _is_kernels(file: int) -> bool:
    """Whether it is one of the kernel's own files: they are regular by name, and some never end."""
    return os.readlink(f"/proc/self/fd/{file}").startswith(("/proc/", "/sys/", "/dev/"))


def _below(path: str, folders: list[str]) -> bool:
    return any(path.startswith(os.path.realpath(folder).rstrip("/") + "/") for folder in folders)
