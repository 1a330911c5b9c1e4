"""What weft serve --setup writes: a hook that Slurm takes, and a TaskProlog that harms nobody."""

import configparser
import os
import pwd
import re
import subprocess
from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving, ended, environment, serve_until
from testkit.sandbox import Sandbox
from weft.errors import InputError
from weft_live.slurm.notes import no_hook, refuse_folder, refuse_hook
from weft_live.slurm.setup import hook, instructions, write_files


def test_the_files_are_written_and_explained(tmp_path: Path) -> None:
    names = {path.name for path in write_files(tmp_path / "etc", ["train"])}
    assert names == {
        "job_submit.lua",
        "weft-task-prolog",
        "relay.py",
        "reports.py",
        "weft.service",
        "weft-agent.service",
    }
    assert os.access(tmp_path / "etc" / "weft-task-prolog", os.X_OK)
    for when in ("Prolog", "Epilog"):
        assert f"\nTask{when}={tmp_path}/etc/weft-task-prolog\n" in instructions(tmp_path / "etc")
    text = instructions(None, ["train"])
    assert "function slurm_job_submit" in text
    assert "export WEFT_SHIFT" in text
    assert not re.search("@[A-Z_]+@", hook(["a", "b"]))  # every placeholder is filled in
    assert 'local partitions = { "a", "b" }' in hook(["b", "a"])
    unit = configparser.ConfigParser(strict=False)
    unit.read(tmp_path / "etc" / "weft.service")
    told = {name: unit["Service"][name] for name in ("Type", "WatchdogSec", "Restart")}
    assert told == {"Type": "notify", "WatchdogSec": "60", "Restart": "always"}
    assert re.match(r"\S*weft serve --world slurm ", unit["Service"]["ExecStart"])


def test_users_can_read_what_is_written_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files = write_files(tmp_path / "opt" / "weft" / "etc")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644, 0o755}
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("opt", "opt/weft", "opt/weft/etc")] == [0o755] * 3
    assert "TimeoutStartSec=600" in (tmp_path / "opt/weft/etc/weft.service").read_text()


def test_a_hook_of_another_version_is_refused(tmp_path: Path) -> None:
    config = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    (tmp_path / "job_submit.lua").write_text(hook(owners=[os.geteuid()]))
    refuse_hook(config)
    for other in (hook(owners=[os.geteuid()]).replace('version = "', 'version = "9.'), "local owners = { 0 }\n"):
        (tmp_path / "job_submit.lua").write_text(other)
        with pytest.raises(InputError, match="--setup"):
            refuse_hook(config)


def test_a_hook_that_holds_the_jobs_of_other_partitions_is_refused(tmp_path: Path) -> None:
    """Those of the others would start by themselves."""
    config = {"SLURM_CONF": str(tmp_path / "slurm.conf")}
    (tmp_path / "job_submit.lua").write_text(hook(["a", "b"], owners=[os.geteuid()]))
    refuse_hook(config, frozenset("a"))
    refuse_hook(config, frozenset("ab"))
    for served in ("", "c", "ac"):
        with pytest.raises(InputError, match="--partition a,b"):
            refuse_hook(config, frozenset(served))


@pytest.mark.parametrize(
    ("plugins", "missing"), [("lua", False), ("throttle,lua", False), ("job_submit/lua", False), ("(null)", True)]
)
def test_a_slurm_that_does_not_ask_the_hook_is_noticed(plugins: str, missing: bool) -> None:
    assert bool(no_hook({"JobSubmitPlugins": plugins})) is missing


def test_a_folder_with_blanks_does_not_break_the_prolog(tmp_path: Path) -> None:
    folder = tmp_path / "it's weft; here"
    write_files(folder)
    text = (folder / "weft-task-prolog").read_text()
    shown = subprocess.run(
        ["sh", "-c", text.partition("note=")[0] + 'printf %s "$here"'], capture_output=True, text=True, check=True
    )
    assert shown.stdout == str(folder)


@pytest.mark.parametrize(
    ("told", "looks"),
    [
        (["JobState=RUNNING"], 1),
        (["JobState=COMPLETING"], 1),
        (["", "Unable to contact slurm controller (connect failure)", "JobState=RUNNING"], 3),
        (["JobState=PENDING", "SlurmdStartTime=2026-01-02T03:04:05"], 2),
        (["JobState=PENDING", "SlurmdStartTime=None", "JobState=PENDING", "SlurmdStartTime=2026-01-02T03:04:05"], 4),
        (["slurm_load_jobs error: Invalid job id specified", "SlurmdStartTime=2026-01-02T03:04:05"], 2),
        (["scontrol: error: Unable to establish configuration source"] * 9, 6),
    ],
)
def test_a_script_ends_when_the_controller_knows_of_it(told: list[str], looks: int, tmp_path: Path) -> None:
    """A controller that has forgotten the job learns of it from the node; one that is away is asked again."""
    write_files(tmp_path)
    asked = tmp_path / "asked"
    (tmp_path / "told").write_text("".join(f"{line}\n" for line in told))
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >>{asked}\nsed -n "$(wc -l <{asked})p" {tmp_path}/told\n')
    scontrol.chmod(0o755)
    (tmp_path / "sleep").symlink_to("/bin/true")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "17", "SLURMD_NODENAME": "n1"}
    for rank in ("1", "0"):  # one task of a step asks
        done = subprocess.run(
            [tmp_path / "weft-task-prolog"], env={**path, "SLURM_SCRIPT_CONTEXT": "epilog_task", "SLURM_PROCID": rank},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == ("", "")
        assert asked.exists() is (rank == "0")
    lines = asked.read_text().splitlines()
    assert len(lines) == looks
    assert set(lines) <= {"--oneliner show job 17", "--oneliner show node n1"}


@pytest.mark.parametrize("name", ["a b", "a\nb", "a*b", "a,b", "ä", "a[1]"])
def test_a_folder_whose_name_cannot_travel_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose another --dir"):
        refuse_folder(tmp_path / name)
    refuse_folder(tmp_path / "a-b_c.d")


def refused(box: Sandbox, *argv: str) -> str:
    """What a command is refused with."""
    with pytest.raises(RuntimeError) as error:
        box.run(*argv)
    return str(error.value)


@pytest.mark.engine
def test_the_hook_holds_batch_jobs_with_gpus_and_nothing_else(box: Sandbox, tmp_path: Path) -> None:
    held = box.sbatch("--gres=gpu:1", "--ntasks-per-node=2", wrap="true")
    free = box.sbatch(wrap=f"env > {tmp_path}/env")
    box.wait(lambda: "COMPLETED" in box.run("squeue", "-h", "-t", "all", "-j", free, "-o", "%T"))
    assert not [name for name in environment(tmp_path / "env") if name.startswith("WEFT_JOB")], "it is none of weft's"
    assert box.run("squeue", "-h", "-j", held, "-o", "%T %r") == "PENDING JobHeldUser\n"
    assert "runs batch jobs: use sbatch" in refused(box, "srun", "--gpus=1", "true")
    told = refused(box, "sbatch", "--gpus=1", "--comment=weft: colour=red", "--wrap", "true")
    assert "weft does not know 'colour'; a description has the words: model, iterations" in told
    for option in ("--nodelist=n1", "--exclude=n1", "--switches=1", "--contiguous"):
        told = refused(box, "sbatch", "--gpus=1", option, "--wrap", "true")
        assert f"weft chooses the nodes of this job: submit it without {option.partition('=')[0]}" in told
        box.run("sbatch", "--output=/dev/null", option, "--wrap", "true")
    said = box.sbatch(
        "--gpus=1", "--export=ALL,WEFT_DESCRIPTION=iterations=3 iteration_s=1", "--comment=mine", wrap="true"
    )
    assert "Comment=mine weft: iterations=3 iteration_s=1 " in box.run("scontrol", "-o", "show", "job", said)


@pytest.mark.long
@pytest.mark.engine
def test_users_do_not_release_their_jobs_and_report_as_themselves(
    box: Sandbox, serving: Serving, tmp_path: Path
) -> None:
    """A job of another user: its release is refused, weft runs it, and its progress arrives."""
    user = pwd.getpwnam("nobody")
    for path in (box.folder, *box.folder.parents, *serving.folder.parents):
        if path.stat().st_uid == os.geteuid():
            path.chmod(path.stat().st_mode | 0o055)
    work = Path("/tmp") / f"weft-test-{os.getpid()}"
    work.mkdir(mode=0o777)
    work.chmod(0o777)
    try:
        report = "import json,os,socket; s=socket.socket(socket.AF_UNIX); "
        report += 's.connect(os.environ["WEFT_PROGRESS_SOCKET"]); '
        report += 's.sendall(json.dumps({"step": 7}).encode() + b"\\n"); s.recv(100)'
        script = work / "job.sh"
        script.write_text(f"#!/bin/sh\nenv > {work}/env\n/usr/bin/python3 -c '{report}'\n")
        script.chmod(0o755)

        def as_user(*argv: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                argv, env={**box.environment, "HOME": str(work)}, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                cwd=work, capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip

        job = as_user("sbatch", "--parsable", "--gpus=2", "--output=/dev/null", str(script)).stdout.strip()
        assert as_user("scontrol", "release", job).returncode != 0
        assert box.run("squeue", "-h", "-j", job, "-o", "%T %r") == "PENDING JobHeldUser\n"
        server = serving.start()
        serve_until(server, ended(server, job))
        assert serving.statuses() == {job: "finished"}
        assert environment(work / "env")["SLURM_JOB_USER"] == "nobody"
        assert server.world.attempt(job, 1).progress().step == 7
        token = serving.folder / "token"
        assert as_user("cat", str(token)).returncode != 0
    finally:
        subprocess.run(["rm", "-rf", str(work)], check=False)
