"""A testbed that stays up: a process of its own holds it, and a file says where its namespaces are.

When the process ends, in whatever way, its warden ends everything that runs in the namespaces, and the namespaces
disappear. If the warden was killed as well, `down` finds through the file what still runs there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft_live.agent.namespaces import cookie
from weft_live.testbed.build import Testbed
from weft_live.testbed.warden import end_all, inhabitants

_FILE = "testbed.json"


@dataclass(frozen=True)
class Standing:
    """A testbed that is up: its keeper, and what hosts are called, addressed and found by."""

    pid: int
    scale: float
    words: str
    hosts: dict[str, dict[str, str]]  # name: address, netns


def standing(folder: Path) -> Standing | None:
    """The testbed of this folder, if it is up."""
    try:
        said = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        found = Standing(said["pid"], said["scale"], said["words"], said["hosts"])
        held = os.stat(next(iter(found.hosts.values()))["netns"]).st_ino
    except (OSError, ValueError, KeyError, StopIteration):
        return None
    return found if held == said["inode"] else None


def up(folder: Path, argv: list[str], patience_s: float = 60.0) -> Standing:
    """Start a keeper with this command and wait until the testbed is up."""
    if standing(folder) is not None:
        raise InputError(f"{folder}: a testbed is up there; weft testbed down --dir {folder} ends it")
    end_all(_orphaned(folder))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "testbed.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "weft", *argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    until = time.monotonic() + patience_s
    try:
        while time.monotonic() < until and child.poll() is None:
            found = standing(folder)
            if found is not None and found.pid == child.pid:
                return found
            time.sleep(0.05)
        child.kill()
        child.wait()
    except KeyboardInterrupt:
        child.kill()
        raise
    said = (folder / "testbed.log").read_text(errors="replace").strip().splitlines()[-1:] or ["it did not come up"]
    raise InputError(said[0].removeprefix("error: "))


def announce(folder: Path, testbed: Testbed) -> None:
    """Write down where the namespaces of a testbed are, which this process holds."""
    names = [host.name for host in testbed.blueprint.hosts]
    said: dict[str, Any] = {
        "pid": os.getpid(), "scale": testbed.blueprint.scale, "words": testbed.blueprint.words,
        "inode": testbed.inode(names[0]), "boot": _boot(),
        "namespaces": {str(testbed.inode(name)): testbed.cookie(name) for name in names},
        "hosts": {h.name: {"address": h.address, "netns": testbed.namespace(h.name)} for h in testbed.blueprint.hosts},
    }  # fmt: skip
    new = folder / f"{_FILE}.new"
    new.write_text(json.dumps(said), encoding="utf-8")
    new.replace(folder / _FILE)


def keep(folder: Path, testbed: Testbed) -> None:
    """Hold a testbed until SIGTERM."""
    announce(folder, testbed)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])


def down(folder: Path) -> int:
    """End what runs in the testbed and its keeper; returns how many processes ran."""
    found = standing(folder)
    inodes = _orphaned(folder) if found is None else {os.stat(host["netns"]).st_ino for host in found.hosts.values()}
    ended = end_all(inodes)
    if found is not None:
        with suppress(ProcessLookupError):
            os.kill(found.pid, signal.SIGTERM)
        until = time.monotonic() + 5.0
        while standing(folder) and time.monotonic() < until:
            time.sleep(0.02)
    (folder / _FILE).unlink(missing_ok=True)
    if found is None and not ended:
        raise InputError(f"{folder}: no testbed is up there")
    return ended


def _orphaned(folder: Path) -> set[int]:
    """Inodes of namespaces of a testbed that is not up, which processes still run in. An inode may be that of another
    namespace by now, a cookie may not."""
    try:
        said = json.loads((folder / _FILE).read_text(encoding="utf-8"))
        known = {int(inode): int(number) for inode, number in said["namespaces"].items()}
        if said["boot"] != _boot():
            return set()
    except (OSError, ValueError, KeyError, AttributeError):
        return set()
    found = set()
    for inode, number in known.items():
        for pid in inhabitants({inode})[:1]:
            with suppress(OSError):
                file = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    if number and cookie(file) == number:
                        found.add(inode)
                finally:
                    os.close(file)
    return found


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
