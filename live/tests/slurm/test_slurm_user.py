import codecs
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving, ended, serve_until
from testkit.engines import missing_engine
from testkit.sandbox import Sandbox, missing
from weft.errors import InputError
from weft_live.attempt import Attempt
from weft_live.slurm.notes import refuse_hook
from weft_live.slurm.setup import everybodys, hook

REPORT = """\
import json, os, socket
s, path = socket.socket(socket.AF_UNIX), os.environ["WEFT_PROGRESS_SOCKET"]
os.chdir(os.path.dirname(path))
s.connect(os.path.basename(path))
s.sendall(json.dumps({"step": 7}).encode() + b"\\n")
s.recv(100)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody can reach."""
    folder = Path(tempfile.mkdtemp(prefix="weft-user-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def as_user(name: str, argv: list[str], box: Sandbox, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command of somebody else."""
    known = pwd.getpwnam(name)
    return subprocess.run(
        argv, env=box.environment, user=known.pw_uid, group=known.pw_gid, extra_groups=[], cwd=cwd,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.engine
def test_weft_runs_as_slurm_user(place: Path) -> None:
    """Files cannot be given away then: an access list lets the job's user write their progress."""
    if why := missing():
        missing_engine(f"Slurm ({why})")
    with Sandbox(place / "slurm", 2, user="daemon") as box:
        work, run = place / "work", place / "weft"
        for folder in (work, run):
            folder.mkdir()
        work.chmod(0o777)
        os.chown(run, pwd.getpwnam("daemon").pw_uid, -1)
        (work / "report.py").write_text(REPORT)
        (work / "job.sh").write_text(f"#!/bin/sh\nexec /usr/bin/python3 {work}/report.py\n")
        done = as_user("nobody", ["sbatch", "--parsable", "--gpus=2", "--output=/dev/null", "job.sh"], box, work)
        job = done.stdout.strip()
        assert job, done.stderr
        for name in ("ascii", "utf-8", "unicode_escape"):
            codecs.lookup(name)  # now: Python itself may lie where this user cannot read
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(1)
                os.setuid(pwd.getpwnam("daemon").pw_uid)
                serving = Serving(box, run)
                server = serving.start()
                serve_until(server, ended(server, job))
                server.close()
                os._exit(0 if serving.statuses() == {job: "finished"} else 3)
            except BaseException as error:
                (work / "error").write_text(repr(error))
            finally:
                os._exit(1)
        until = time.monotonic() + 300
        while (status := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < until:
            time.sleep(0.1)
        told = (work / "error").read_text() if (work / "error").exists() else ""
        assert os.waitstatus_to_exitcode(status[1]) == 0, told
        assert Attempt(run / "run" / "jobs" / job / "1").progress().step == 7


def test_a_hook_that_does_not_know_who_runs_weft_is_refused_at_the_start(tmp_path: Path) -> None:
    config = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    refuse_hook(config)  # it cannot be read here
    (tmp_path / "job_submit.lua").write_text(hook(owners={0, os.geteuid()}))
    refuse_hook(config)
    (tmp_path / "job_submit.lua").write_text(hook(owners={os.geteuid() + 1}))
    with pytest.raises(InputError, match="does not let uid"):
        refuse_hook(config)


@pytest.mark.parametrize(("said", "refused"), [("No", False), ("Yes", True), ("1", True)])
def test_a_slurm_that_gives_whole_nodes_unseen_is_refused_at_the_start(said: str, refused: bool) -> None:
    """--core-spec takes all GPUs of a node there, and job_submit/lua has no field that tells."""
    with pytest.raises(InputError, match="--core-spec") if refused else nullcontext():
        refuse_hook({"AllowSpecResourcesUsage": said, "SLURM_CONF": "/nowhere/slurm.conf"})


def test_a_python_that_users_cannot_run_is_refused_at_setup(tmp_path: Path) -> None:
    """Its environment may lie where only its owner can read: then no job would ever report."""
    private = tmp_path / "env" / "bin"
    private.mkdir(parents=True)
    (private / "python").symlink_to("/usr/bin/env")
    (tmp_path / "env").chmod(0o700)
    with pytest.raises(InputError, match="other users cannot run it, so no job could report"):
        everybodys(str(private / "python"))
    with pytest.raises(InputError, match="other users cannot run it"):
        everybodys("/nowhere/python")
    assert everybodys("/bin/sh") == "/bin/sh"
