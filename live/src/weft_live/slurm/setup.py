"""What an administrator installs once: the submission hook, the TaskProlog and -Epilog, and the relay."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from weft import __version__
from weft.errors import InputError
from weft_live.slurm.commands import Slurm, Unreachable
from weft_live.slurm.request import KEYS

HOOK, PROLOG, UNIT, AGENT = "job_submit.lua", "weft-task-prolog", "weft.service", "weft-agent.service"


def hook(partitions: Iterable[str] = (), owners: Iterable[int] | None = None) -> str:
    """The submission hook for these partitions (all, if none are named); `owners` may release jobs: by default root,
    who runs this, and SlurmUser, if Slurm can be asked."""
    uids = {0, os.geteuid(), *slurm_user()} if owners is None else set(owners)
    return (
        _text("job_submit.lua")
        .replace("@PARTITIONS@", ", ".join(f'"{name}"' for name in sorted(partitions)))
        .replace("@OWNERS@", ", ".join(map(str, sorted(uids))))
        .replace("@VERSION@", __version__)
        .replace("@KEYS@", ", ".join(f'"{key}"' for key in KEYS))
    )


def slurm_user() -> set[int]:
    """The number of SlurmUser, if Slurm can be asked here."""
    try:
        told = re.search(r"\((\d+)\)", Slurm(limit_s=3.0).config().get("SlurmUser", ""))
    except Unreachable:
        return set()
    return {int(told[1])} if told else set()


def everybodys(python: str) -> str:
    """A Python that every user can run; raises if this interpreter is not one and no other was named.

    The relay runs as the user of a job: if that user could not run it, progress would silently stay 0."""
    for file in (python,) if python else (sys.executable, "/usr/bin/python3"):
        if file and _for_all(Path(file)):
            return file
    named = python or sys.executable
    raise InputError(
        f"--python {named}: other users cannot run it, so no job could report its progress; name one that they can, "
        "Python 3.10 or later, such as /usr/bin/python3"
    )


def _for_all(file: Path) -> bool:
    """Whether everybody may run the file: it, what it is a link to, and every folder on the way."""
    with suppress(OSError):
        whole = Path(os.path.abspath(file))
        paths = {whole, whole.resolve()}
        folders = {parent for path in paths for parent in path.parents}
        if whole.parent.name == "bin" and (home := whole.parent.parent / "pyvenv.cfg").exists():
            return home.stat().st_mode & 0o004 != 0 and _passable(folders) and _runnable(whole)
        return _passable(folders) and _runnable(whole)
    return False


def _passable(folders: Iterable[Path]) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in folders)


def _runnable(file: Path) -> bool:
    return file.is_file() and file.stat().st_mode & 0o001 != 0


def task_prolog(folder: Path, python: str = "") -> str:
    """The TaskProlog; `folder` holds relay.py and reports.py, on every node."""
    return (
        _text("task_prolog.sh")
        .replace("@HERE@", shlex.quote(str(folder)))
        .replace("@PYTHON@", shlex.quote(python or sys.executable))
    )


def write_files(
    folder: Path, partitions: Iterable[str] = (), python: str = "", owners: Iterable[int] | None = None
) -> list[Path]:
    """Write everything into a folder; returns the files."""
    texts = {
        HOOK: hook(partitions, owners),
        PROLOG: task_prolog(folder.resolve(), everybodys(python)),
        **{unit: _text(unit).replace("@WEFT@", shutil.which("weft") or "weft") for unit in (UNIT, AGENT)},
        "relay.py": _text("relay.py"),
        **{name: files("weft_live").joinpath(name).read_text(encoding="utf-8") for name in ("reports.py",)},
    }
    try:
        for new in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            new.mkdir()
            new.chmod(0o755)  # whatever the umask is: users' tasks read what is in it
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
#    The folder must have the same name on every node and be readable there for every user; relay.py needs Python 3.10
#    or later, which users can run (--python FILE).
# 2. Put {HOOK} beside slurm.conf on the controller (if you have one, call its two functions from yours).
# 3. In slurm.conf (if you have a TaskProlog or a TaskEpilog, end it with: exec {where}/{PROLOG}):
JobSubmitPlugins=lua
TaskProlog={where}/{PROLOG}
TaskEpilog={where}/{PROLOG}
JobRequeue=1
SchedulerParameters=batch_sched_delay=0,sched_min_interval=100000,bf_interval=1
# 4. scontrol reconfigure, and restart slurmctld once for the plugin.
# 5. weft serve --world slurm --stack srsf --dir /var/lib/weft --shared DIR
#    as root or SlurmUser; DIR is on a file system that the nodes see (for progress, and shifts of running jobs), the
#    other folder on a local disk. {UNIT} does it under systemd, which starts it again whatever ends it.
# 6. To pace jobs, or to shift those that report nothing: add --agents ADDRESS:PORT, and run {AGENT} on every
#    node, with a copy of DIR/agents.secret.
# To take it out again: remove the lines, and release what is held: squeue -h -t PD -o %A | xargs scontrol release
"""
    if folder is not None:
        return steps
    return (
        f"{steps}\n# ---- {where}/{HOOK}\n{hook(partitions)}\n# ---- {where}/{PROLOG}\n{task_prolog(where, 'python3')}"
    )


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
