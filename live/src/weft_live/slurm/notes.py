"""What travels between weft and the tasks of a Slurm job: a note in its AdminComment, and files that both can reach.

The note is read by the TaskProlog of every task; it names the start, the shift, and weft's folder. In the folder of the
start `progress` is written by the job's relay (relay.py), and `gate` by weft whenever the shift of a running job
changes. Jobs of other users may write their own `progress` and nothing else.

The AdminComment of a waiting job says why it waits, so that users see it in Slurm itself (`weft explain` is for
whoever runs weft):

    squeue --me -O jobid,reason,admin_comment:100

The reason is compared with the one that Slurm shows and is sent only if it differs: a few jobs at a time, at long
intervals, by the thread that talks to Slurm anyway.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import re
import struct
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

from weft import __version__
from weft.errors import InputError
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.slurm.records import HOLD_WORD, Record
from weft_live.slurm.states import Pauses, SlurmTask, Waits

_FOREIGN = re.compile(r"weft:job=\S*,since=(\d{1,12}\.\d{1,9}),dir=([^\s,]+)")
_OWNERS = re.compile(r"^local owners = \{([^}]*)\}", re.MULTILINE)
_PARTITIONS = re.compile(r"^local partitions = \{([^}]*)\}", re.MULTILINE)
_NOBODY = 0xFFFFFFFF
Shift = tuple[float, float, float, float]  # epoch by wall time, period, tolerance; how much later the task begins


def note(folder: Path, clock: Clock, task: SlurmTask, shift: Shift | None) -> str:
    """One word without blanks, which Slurm keeps as it is. `since` tells servers apart: when their run began."""
    shifted = f",shift={shift[0]:.6f}/{shift[1]:.9g}/{shift[2]:.6g}" if shift else ""
    return (
        f"weft:job={task.job.id},attempt={task.starts},resume={task.saved},iterations={task.description.iterations},"
        f"since={clock.wall_s:.6f},dir={folder.resolve()}{'' if task.job.per_server else ',shape=free'}{shifted}"
    )


def foreign(admin_comment: str, clock: Clock) -> str:
    """The folder of a server that began before this one, if that has written the note; else ""."""
    match = _FOREIGN.match(admin_comment)
    return match[2] if match and float(match[1]) < round(clock.wall_s, 6) else ""


def uid_of(description: Description) -> int:
    """The number of a job's user; -1 if it is not known."""
    told = int(description.env.get("uid", "-1"))
    if told < 0:
        with suppress(KeyError):
            told = pwd.getpwnam(description.user).pw_uid
    return told


def make_folder(folder: Path, uid: int) -> None:
    """The folder of a start: weft's own but for the file that the job's user writes, and a folder for sockets."""
    whole = str(folder)
    for part in (os.path.dirname(os.path.dirname(whole)), os.path.dirname(whole), whole):
        with suppress(FileExistsError):
            os.mkdir(part)
        os.chmod(part, 0o711)
    os.close(os.open(f"{whole}/progress", os.O_WRONLY | os.O_CREAT, 0o600))
    with suppress(FileExistsError):
        os.mkdir(f"{whole}/s", 0o700)
    if uid >= 0:
        for name in ("progress", "s"):
            give(f"{whole}/{name}", uid)


def give(path: str | Path, uid: int) -> None:
    """Let a user read and write a file or folder of ours: it becomes theirs, or an access list says so."""
    if uid == os.geteuid():
        return
    try:
        os.chown(path, uid, -1)
    except PermissionError:
        allowed = 7 if os.path.isdir(path) else 6
        entries = ((0x01, allowed, _NOBODY), (0x02, allowed, uid), (0x04, 0, _NOBODY), (0x10, allowed, _NOBODY),
                   (0x20, 0, _NOBODY))  # fmt: skip
        told = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
        os.setxattr(path, "system.posix_acl_access", told)


def refuse_giving(folder: Path) -> None:
    """Raise if files here cannot be given to the users of jobs: they could not report."""
    trial = folder / "trial"
    try:
        trial.touch(mode=0o600)
        give(trial, 65534 if os.geteuid() != 65534 else 65533)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return  # that passes
        raise InputError(
            f"{folder}: files there cannot be given to users ({error.strerror}), so no job could report its progress; "
            "run weft serve as root, or on a file system with access lists (--shared)"
        ) from None
    finally:
        trial.unlink(missing_ok=True)


def write_gate(folder: Path, shift: Shift | None) -> None:
    """What holds from the next iteration on; whole, or as it was: on a full disk a job is shifted later, or not."""
    gate = (
        None if shift is None else dict(zip(("epoch", "period", "tolerance", "offset"), map(float, shift), strict=True))
    )
    new = f"{folder}/gate.new"
    with suppress(OSError):
        with open(new, "w", encoding="ascii") as file:
            file.write(json.dumps(gate))
            os.fchmod(file.fileno(), 0o644)
        os.replace(new, f"{folder}/gate")


def no_hook(config: Mapping[str, str]) -> str:
    """What is missing if Slurm does not ask the hook at all: then it starts jobs by itself."""
    if re.search(r"\blua\b", config.get("JobSubmitPlugins", "lua")):
        return ""
    return "JobSubmitPlugins lacks lua: Slurm would start jobs by itself; install weft's hook (weft serve --setup)"


def refuse_hook(config: Mapping[str, str], partitions: Set[str] = frozenset()) -> None:
    """Raise if the hook, where it can be read here, does not know who runs weft or which partitions are served, or
    cannot see what users do."""
    if config.get("AllowSpecResourcesUsage", "").lower() in ("yes", "1"):
        raise InputError(
            "AllowSpecResourcesUsage=Yes: --core-spec and --thread-spec would give users whole nodes with GPUs, and "
            "Slurm does not tell the submission hook; set it to No in slurm.conf"
        )
    file = Path(config.get("SLURM_CONF", "/etc/slurm/slurm.conf")).parent / "job_submit.lua"
    with suppress(OSError):
        text = file.read_text(encoding="utf-8", errors="replace")
        version = re.search(r'^local version = "([^"]*)"', text, re.MULTILINE)
        told = _OWNERS.search(text)
        if told and (version is None or version[1] != __version__):
            raise InputError(
                f"{file}: written by weft {version[1] if version else '0.0'}, not {__version__}; write it again "
                "with weft serve --setup, and scontrol reconfigure"
            )
        named = _PARTITIONS.search(text)
        held = set(re.findall(r'"([^"]+)"', named[1])) if told and named else set()
        if held and not (partitions and partitions <= held):
            served, names = ",".join(sorted(partitions)) or "all", ",".join(sorted(held))
            raise InputError(
                f"{file}: holds jobs of --partition {names}, and weft is to serve {served}; serve those, or write it "
                "again with weft serve --setup"
            )
        if told and str(os.geteuid()) not in re.findall(r"\d+", told[1]):
            raise InputError(
                f"{file}: does not let uid {os.geteuid()} release jobs, so weft could start none; write it again with "
                "weft serve --setup as this user, and scontrol reconfigure"
            )


def refuse_folder(folder: Path) -> None:
    """Raise if the folder's name cannot travel in a comment."""
    name = str(folder.resolve())
    if not re.fullmatch(r"[A-Za-z0-9_./+@:=~-]+", name):  # scontrol, sed and sh read it
        raise InputError(f"{folder}: its name has characters that Slurm's comments cannot carry; choose another --dir")


_EVERY_S = 1.0  # seconds between batches
_AT_A_TIME = 20  # jobs in a batch
_COMPARED = 500  # jobs whose words are compared at a time
_PATIENT_S = 2.0  # seconds after which users are told why a job waits
_SAME_S = 60.0  # seconds before the same words are sent again: Slurm may have changed a letter of them
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Aside:
    """A line for scontrol that carries out no decision; a later one about the same job or node replaces it."""

    key: str
    line: str


def mark(record: Record) -> Aside:
    """Somebody has requeued and held this job: its comment says so, and its user can release it."""
    return Aside(record.key, f'update JobId={record.key} Comment="{_letters(record.comment)} {HOLD_WORD}"')


class Telling:
    """Which words are due."""

    def __init__(self) -> None:
        self._told = 0  # jobs whose words have been compared, in this round
        self._next_s = 0.0
        self._sent: dict[str, tuple[str, float]] = {}

    def look(
        self, tasks: Mapping[str, SlurmTask], why: Callable[[str], str], refused: Mapping[str, str],
        records: Mapping[str, Record], now: float,
    ) -> list[Aside]:  # fmt: skip
        """What the users of jobs that wait, or that stay held, are to be told by now; some of them at a time."""
        if now < self._next_s:
            return []
        part = list(islice(tasks.items(), self._told, self._told + _COMPARED))
        self._told = self._told + _COMPARED if len(part) == _COMPARED else 0
        wanted = {
            task.key: f"waits: {why(job_id)}"
            for job_id, task in part
            if isinstance(task.state, Waits)
            and not task.cancelled
            and (isinstance(task.state, Pauses) or now - task.state.since_s > _PATIENT_S)
        }
        wanted |= {key: f"stays held: {words}" for key, words in refused.items()}
        return self.due(wanted, records, now)

    def due(self, wanted: Mapping[str, str], records: Mapping[str, Record], now: float) -> list[Aside]:
        """Words that Slurm does not show yet. Tasks that are still part of their array are left there."""
        self._next_s = now + _EVERY_S
        self._sent = {key: sent for key, sent in self._sent.items() if key in records}
        found = []
        for key, said in wanted.items():
            record = records.get(key)
            if record is None or not (record.pending and record.held and record.apart) or record.completing:
                continue
            words = plain(f"weft: {said}")
            there = record.admin_comment
            before, sent_s = self._sent.get(key, ("", 0.0))
            if there.strip('"') != words and (before != words or now - sent_s > _SAME_S):
                self._sent[key] = (words, now)
                unpin = "ReqNodeList= " * there.startswith("weft:job=")  # any nodes, not those of its last start
                found.append(Aside(key, f'update JobId={key} {unpin}AdminComment="{words}"'))
                if len(found) == _AT_A_TIME:
                    break
        return found


@lru_cache(maxsize=4096)
def plain(words: str) -> str:
    """In letters that scontrol takes as they are, and not too many of them."""
    text = _letters(words)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _letters(words: str) -> str:
    """Without what scontrol would take for an end of the words."""
    return " ".join(re.sub(r"[^ -~]|[\"\\\\]", " ", words).split())
