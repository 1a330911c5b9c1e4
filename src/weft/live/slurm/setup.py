"""What an administrator installs once: the submission hook, the TaskProlog, and the relay that it starts."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from weft.errors import InputError
from weft.live.slurm.request import KEYS

__all__ = ["hook", "instructions", "task_prolog", "write_files"]

HOOK, PROLOG = "job_submit.lua", "weft-task-prolog"


def hook(partitions: Iterable[str] = (), owners: Iterable[int] | None = None) -> str:
    """The submission hook for these partitions (all, if none are named); `owners` may release jobs."""
    uids = {0, os.geteuid()} if owners is None else set(owners)
    return (
        _text("job_submit.lua")
        .replace("@PARTITIONS@", ", ".join(f'"{name}"' for name in sorted(partitions)))
        .replace("@OWNERS@", ", ".join(map(str, sorted(uids))))
        .replace("@KEYS@", ", ".join(f'"{key}"' for key in KEYS))
    )


def task_prolog(folder: Path, python: str = "") -> str:
    """The TaskProlog; `folder` holds relay.py and runner.py, on every node."""
    return (
        _text("task_prolog.sh")
        .replace("@HERE@", shlex.quote(str(folder)))
        .replace("@PYTHON@", shlex.quote(python or sys.executable))
    )


def write_files(folder: Path, partitions: Iterable[str] = (), python: str = "") -> list[Path]:
    """Write everything into a folder; returns the files."""
    texts = {
        HOOK: hook(partitions),
        PROLOG: task_prolog(folder.resolve(), python),
        "relay.py": _text("relay.py"),
        "runner.py": files("weft.live").joinpath("runner.py").read_text(encoding="utf-8"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755 if name == PROLOG else 0o644)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror}); name another folder with --out") from None
    return [folder / name for name in texts]


def instructions(folder: Path | None, partitions: Iterable[str] = ()) -> str:
    """What to do with the files, and, if they have not been written, their text."""
    where = folder.resolve() if folder else Path("/etc/weft")
    steps = f"""\
# To let weft schedule this Slurm
# 1. {"The files are in " if folder else "Write the files with: weft serve --setup --out "}{where}
#    The folder must have the same name on every node and be readable there; relay.py needs Python 3.10 or later.
# 2. Put {HOOK} beside slurm.conf on the controller (if you have one, call its two functions from yours).
# 3. In slurm.conf (if you have a TaskProlog, end it with: exec {where}/{PROLOG}):
JobSubmitPlugins=lua
TaskProlog={where}/{PROLOG}
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
# 4. scontrol reconfigure, and restart slurmctld once for the plugin.
# 5. weft serve --world slurm --stack srsf --dir DIR
#    as SlurmUser or root, with DIR on a file system that the nodes see (for progress, and shifts of running jobs).
# To take it out again: remove the lines, and release what is held: squeue -h -t PD -o %A | xargs scontrol release
"""
    if folder is not None:
        return steps
    return (
        f"{steps}\n# ---- {where}/{HOOK}\n{hook(partitions)}\n# ---- {where}/{PROLOG}\n{task_prolog(where, 'python3')}"
    )


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
