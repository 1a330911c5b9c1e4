import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving
from testkit.engines import missing_engine
from testkit.sandbox import Sandbox, missing


@pytest.fixture(scope="session")
def slurm16(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Sixteen nodes of eight GPUs, four to a leaf switch, with weft's hook and TaskProlog.

    Where that is allowed they go before other processes, this one too: its clocks are real, and the tests beside it
    only compute."""
    if why := missing():
        missing_engine(f"Slurm ({why})")
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    with Sandbox(tmp_path_factory.mktemp("slurm"), 16) as box:
        yield box


@pytest.fixture
def box(slurm16: Sandbox) -> Iterator[Sandbox]:
    """The same, empty before and after each test."""
    yield slurm16
    slurm16.clear()


class OtherUser:
    """Somebody who is not root, with a folder to work in; commands run as them."""

    def __init__(self, box: Sandbox, name: str, work: Path) -> None:
        self.box, self.known, self.work = box, pwd.getpwnam(name), work

    def run(self, *argv: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """A command."""
        return subprocess.run(
            argv, env={**self.box.environment, "HOME": str(self.work), **(environment or {})}, user=self.known.pw_uid,
            group=self.known.pw_gid, extra_groups=[], cwd=self.work, capture_output=True, text=True, timeout=240,
            check=False,
        )  # fmt: skip

    def sbatch(self, *options: str, script: str = "sleep 1") -> str:
        """A job; returns its number."""
        file = self.work / f"job{time.monotonic_ns()}.sh"
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)
        done = self.run("sbatch", "--parsable", "--output=/dev/null", *options, str(file))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture
def user(box: Sandbox, serving: Serving) -> Iterator[OtherUser]:
    """nobody, who can reach the sandbox and the folders of servers."""
    with for_others(box, serving.folder) as somebody:
        yield somebody


@contextmanager
def for_others(box: Sandbox, *reached: Path) -> Iterator[OtherUser]:
    """nobody, who can reach the sandbox and what lies above these folders."""
    for path in (box.folder, *box.folder.parents, *(parent for folder in reached for parent in folder.parents)):
        if path.stat().st_uid == os.geteuid() and path.stat().st_mode & 0o055 != 0o055:
            path.chmod(path.stat().st_mode | 0o055)
    work = Path("/tmp") / f"weft-test-{os.getpid()}-{time.monotonic_ns()}"
    work.mkdir()
    work.chmod(0o777)
    try:
        yield OtherUser(box, "nobody", work)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@pytest.fixture
def serving(box: Sandbox, tmp_path: Path) -> Iterator[Serving]:
    """Makes servers of this Slurm, and closes what is open in the end."""
    made = Serving(box, tmp_path)
    yield made
    made.close()
