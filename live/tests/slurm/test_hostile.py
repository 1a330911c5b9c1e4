import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

import pytest

from live.tests.serving import fill, own_s, small_disk
from live.tests.slurm.conftest import OtherUser
from live.tests.slurm.serving import Serving, ended, running, serve_until, state
from testkit.sandbox import Sandbox
from weft.errors import InputError
from weft.model.reason import code_of, speak
from weft.stacks import resolve
from weft_live.server.listing import queue
from weft_live.server.server import Server
from weft_live.slurm.commands import Slurm
from weft_live.slurm.engine import SlurmEngine

pytestmark = pytest.mark.engine


def test_a_model_that_is_no_file_of_theirs_stops_nobody(serving: Serving, user: OtherUser) -> None:
    """/proc/kmsg blocks whoever reads it: the job is refused, others run, also under the next server."""
    odd = user.sbatch("--gpus=1", "--comment=weft: model=/proc/kmsg iterations=3")
    slow = user.sbatch("--gpus=1", "--comment=weft: model=gpt3[micro_batches=99999999] iterations=3")
    for _ in range(2):
        server = serving.start()
        fine = user.sbatch("--gpus=1", script="sleep 0.1")
        serve_until(server, ended(server, fine))

        def refused(server: Server = server) -> bool:
            reasons = {row["job"]: row["reason"] for row in queue(serving.folder, server.ledger)}
            return "/proc/kmsg is a file, and this server reads none" in reasons.get(odd, "")

        serve_until(server, refused)  # the other may have ended before anybody has looked at this one
        server.close()
    assert slow not in serving.statuses() or serving.statuses()[slow] == ""


def test_a_progress_file_of_eight_gigabytes_is_not_read(serving: Serving, user: OtherUser) -> None:
    """The job's user writes their own `progress`: whatever it holds, at most a line of it is read."""
    server = serving.start()
    script = f"truncate -s 8G {serving.folder}/jobs/$SLURM_JOB_ID/1/progress; touch {user.work}/done; sleep 30"
    job = user.sbatch("--gpus=1", script=script)
    serve_until(server, lambda: (user.work / "done").exists())
    assert (server.world.attempt(job, 1).folder / "progress").stat().st_size == 8 << 30
    began = own_s()
    assert server.world.iterations_done(job) >= 0
    server.run(server.world.now() + 0.5)
    assert own_s() - began < 2.0


def test_the_name_in_a_profile_does_not_reach_the_terminal_of_who_runs_weft(serving: Serving, user: OtherUser) -> None:
    """A file with control characters for a name, and a job that cannot be planned: both are told without them."""
    file = user.work / "odd.json"
    head = {"format": "weft-profile", "version": 1, "kind": "graph", "name": "\033]0;mine\007", "workers": 1}
    file.write_text(json.dumps({**head, "tasks": [{"name": "a", "type": "compute", "seconds": 1e308}]}))
    serving.profiles = [user.work]
    server = serving.start()
    job = user.sbatch("--gpus=1", f"--comment=weft: model={file} iterations=3")
    serve_until(server, lambda: any("no amount that can be planned" in line for line in serving.said))
    told = [row["reason"] for row in queue(serving.folder, server.ledger) if row["job"] == job]
    assert told
    assert all(line.isprintable() for line in (*told, *serving.said))


def test_what_an_operator_has_set_for_themselves_hides_nothing(
    box: Sandbox, user: OtherUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables that change what squeue lists and scancel cancels, and how times are written: a controller that was
    just started would count as an old one, whose nodes run nothing that it has forgotten."""
    for name, value in (
        ("SQUEUE_USERS", "root"), ("SQUEUE_PARTITION", "none"), ("SCANCEL_NAME", "none"), ("SCANCEL_USER", "root"),
        ("SINFO_PARTITION", "none"), ("SLURM_TIME_FORMAT", "relative"), ("SLURM_CLUSTERS", "other"),
    ):  # fmt: skip
        monkeypatch.setenv(name, value)
    slurm = Slurm(str(box.conf))
    job = box.sbatch("--gpus=1", wrap="true")
    assert slurm.up_s(0.0) < 86400.0
    slurm.cancel([job])
    box.wait(lambda: state(box, job).startswith("CANCELLED"))


@pytest.mark.long
def test_a_user_who_requeues_a_job_again_and_again_waits_longer_each_time(
    serving: Serving, box: Sandbox, user: OtherUser
) -> None:
    """Each start makes a folder in --shared that is root's. It has not failed, and runs to its end in the end."""
    server = serving.start()
    job = user.sbatch("--gpus=1", script=f"until [ -e {user.work}/go ]; do sleep 0.1; done")
    for _ in range(4):
        serve_until(server, running(server, job))
        assert user.run("scontrol", "requeue", job).returncode == 0
        starts = server.ledger.starts(job)
        serve_until(server, lambda: not running(server, job)())
        serve_until(server, lambda: server.ledger.starts(job) > starts)  # noqa: B023
    (user.work / "go").touch()
    serve_until(server, ended(server, job))
    pauses = [e.why["seconds"] for e in server.ledger.events(job) if code_of(e.why) == "live.pause"]
    assert pauses == [1.0, 2.0, 4.0, 8.0]
    assert serving.statuses() == {job: "finished"}


def test_what_weft_holds_stays_as_weft_planned_it(box: Sandbox, user: OtherUser) -> None:
    """Nobody else releases it, and it can be stopped and placed at any time."""
    refused = user.run("sbatch", "--no-requeue", "--gpus=1", "--wrap", "true")
    assert refused.returncode != 0
    assert "without --no-requeue" in refused.stderr
    plain, held = user.sbatch("--begin=tomorrow"), user.sbatch("--gpus=1")
    assert user.run("scontrol", "update", f"JobId={plain}", "Comment=mine").returncode == 0
    for change in ("Priority=5", "Nice=5", "Requeue=0", "ReqNodeList=n1", "ExcNodeList=n1"):
        # With another nice Slurm gives it a priority, which releases it.
        assert user.run("scontrol", "update", f"JobId={held}", change).returncode != 0, change
    for command in ("release", "top"):
        assert user.run("scontrol", command, held).returncode != 0
    assert state(box, held) == "PENDING JobHeldUser"
    kept = user.sbatch("--hold", "--gpus=16", "--comment=mine")
    assert user.run("scontrol", "update", f"JobId={kept}", "Comment=other weft: iterations=3").returncode == 0
    assert " Comment=other weft: iterations=3 weft: nodes=any weft-hold " in box.run(
        "scontrol", "-o", "show", "job", kept
    )


def test_a_long_comment_does_not_hold_slurm_up(user: OtherUser) -> None:
    """Slurm runs the hook before it looks how long a comment is, and serves nobody meanwhile."""
    began = time.monotonic()
    for comment in ("[" * 120_000, "x" * 1001):
        done = user.run("sbatch", "--gpus=1", f"--comment=weft: {comment}", "--wrap", "true")
        assert "at most 1000 letters" in done.stderr
    assert time.monotonic() - began < 60.0


@pytest.mark.long
def test_many_jobs_that_make_no_sense_hold_nobody_up(serving: Serving, user: OtherUser) -> None:
    """They are noted together: to write all of them down for each one took seconds, in which nothing was started."""
    bad = user.sbatch("--array=0-199", "--gpus=1", "--comment=weft: iterations=many")
    server = serving.start()
    noted: list[str] = []
    note = server.ledger.set_meta

    def counted(key: str, value: object) -> None:
        noted.append(key)
        note(key, value)

    server.ledger.set_meta = counted  # type: ignore[method-assign]
    serve_until(server, lambda: len(server.ledger.meta("refused", {})) == 200)
    assert noted.count("refused") <= 3
    assert user.run("scancel", bad).returncode == 0


@pytest.mark.long
def test_a_comment_outlasts_a_hold(serving: Serving, box: Sandbox, user: OtherUser) -> None:
    """However long it is, it is kept, and the word beside it lets the user release the job."""
    server = serving.start()
    job = user.sbatch("--gpus=1", f"--comment=weft: iterations=5 {'x' * 900}", script="sleep 30")
    serve_until(server, running(server, job))
    box.run("scontrol", "requeuehold", job)
    serve_until(server, lambda: "weft-hold" in box.run("scontrol", "show", "job", job))
    server.run(server.world.now() + 1.0)
    shown = box.run("scontrol", "show", "job", job)
    assert "x" * 900 in shown
    assert shown.count("weft-hold") == 1, "a mark that comes late would undo the release"
    assert user.run("scontrol", "release", job).returncode == 0
    serve_until(server, lambda: server.ledger.starts(job) == 2 and running(server, job)())


def test_users_hold_and_release_what_is_theirs(serving: Serving, box: Sandbox, user: OtherUser) -> None:
    """--hold is kept until the user releases the job; a job without GPUs is none of weft's; a job that waits under weft
    can be held and released; requeuehold keeps a job back until it is released."""
    cpu = user.sbatch("--hold", script="sleep 0.1")
    held = user.sbatch("--hold", "--gpus=1", "--comment=my-weft-hold", script="sleep 0.1")
    server = serving.start()
    big = user.sbatch("--gpus=128", script="sleep 600")
    serve_until(server, running(server, big))
    waits = user.sbatch("--gpus=128", script="sleep 0.1")
    serve_until(server, lambda: waits in server.core.table.waiting)
    assert held not in server.core.table.jobs
    assert user.run("scontrol", "release", cpu).returncode == 0
    assert user.run("scontrol", "hold", waits).returncode == 0
    serve_until(server, lambda: server.core.table.jobs[waits].barred != "")
    box.run("scontrol", "requeuehold", big)
    serve_until(server, lambda: server.core.table.jobs[big].barred != "")
    server.run(server.world.now() + 1.5)
    assert {job: server.ledger.starts(job) for job in (big, waits)} == {big: 1, waits: 0}
    for job in (held, waits):
        assert user.run("scontrol", "release", job).returncode == 0
    serve_until(server, ended(server, held, waits))
    # Slurm refuses this with an "Unspecified error" as long as the node still ends the first attempt.
    serve_until(server, lambda: user.run("scontrol", "release", big).returncode == 0)
    serve_until(server, lambda: server.ledger.starts(big) == 2 and running(server, big)())


@pytest.mark.long
def test_a_folder_that_somebody_else_has_made_silences_nobody(serving: Serving, user: OtherUser) -> None:
    """/tmp/weft-UID of another user is not used: the job reports through the folder that weft made for it."""
    trap = Path(f"/tmp/weft-{user.known.pw_uid}")
    kept = trap.with_name(f"{trap.name}.kept-{os.getpid()}")
    with suppress(FileNotFoundError):
        trap.rename(kept)
    trap.mkdir(mode=0o700)  # root's
    try:
        report = "import json,os,socket; s=socket.socket(socket.AF_UNIX); p=os.environ['WEFT_PROGRESS_SOCKET']; "
        report += "os.chdir(os.path.dirname(p)); s.connect(os.path.basename(p)); "
        report += "s.sendall(json.dumps(dict(step=7)).encode() + b'\\n'); s.recv(100)"
        server = serving.start()
        job = user.sbatch("--gpus=2", script=f'/usr/bin/python3 -c "{report}"')
        serve_until(server, ended(server, job))
        assert serving.statuses() == {job: "finished"}
        assert server.world.attempt(job, 1).progress().step == 7
    finally:
        shutil.rmtree(trap)
        with suppress(FileNotFoundError):
            kept.rename(trap)


def test_a_shared_folder_of_somebody_else_is_refused(serving: Serving, box: Sandbox) -> None:
    """A link of theirs in it would have weft, which may be root, give them another's file."""
    shared = serving.tmp_path / "shared"
    shared.mkdir(mode=0o755)
    engine = SlurmEngine(box.slurm, shared=shared)
    for uid, mode, words in ((65534, 0o755, "belongs to somebody else"), (0, 0o777, "others may write there")):
        os.chown(shared, uid, -1)
        shared.chmod(mode)
        with pytest.raises(InputError, match=f"shared: {words}.*--shared"):
            Server(serving.folder, serving.cluster, resolve("fifo[place=even:best-fit]"), engine=engine)


@pytest.mark.long
def test_a_full_shared_folder_stops_nobody(serving: Serving, box: Sandbox) -> None:
    """Users may fill it: the server lives on, the next one begins, and jobs start when there is room again."""
    with small_disk(serving.tmp_path / "disk") as disk:
        engine = SlurmEngine(box.slurm, poll_s=0.2, shared=disk / "weft")

        def start() -> Server:
            return Server(serving.folder, serving.cluster, resolve("fifo[place=even:best-fit]"), engine=engine)

        with start() as server:
            first = serving.sbatch(1, "sleep 8")
            serve_until(server, running(server, first))
            fill(disk)
            second = serving.sbatch(1, "sleep 0.1")
            serve_until(server, lambda: bool(server.core.table.jobs) and second in server.world.outcomes, within_s=60)
            assert "No space left" in speak(server.world.outcomes[second])
        with start() as server:
            server.run(server.world.now() + 1.0)
            shutil.rmtree(disk / "filler")
            serve_until(server, ended(server, first, second))
    assert serving.statuses() == {first: "finished", second: "finished"}


def test_a_second_server_yields_in_words(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """Two folders on one Slurm: the one that began later ends when it sees the other's note; nothing is requeued. When
    the first has ended for good, another may take its jobs over."""
    first = serving.start()
    job = serving.sbatch(8, "sleep 600")
    serve_until(first, running(first, job))
    other = Serving(box, tmp_path / "other")
    second = other.start()
    with pytest.raises(InputError, match=f"job {job} is served by the weft serve of {serving.folder}"):
        serve_until(second, lambda: False)
    other.close()
    first.run(first.world.now() + 1.0)
    assert first.ledger.starts(job) == 1
    assert state(box, job).startswith("RUNNING")


def test_the_server_ends_when_the_thread_that_acts_does(serving: Serving) -> None:
    """An answer that nobody thought of: not a process that lives on and schedules nothing."""
    server = serving.start()
    server.run(server.world.now() + 0.5)
    serving.box.slurm.nodes = lambda: {}["no such node"]  # type: ignore[method-assign]
    try:
        with pytest.raises(RuntimeError, match="the thread that talks to Slurm has ended"):
            serve_until(server, lambda: False)
    finally:
        del serving.box.slurm.nodes


@pytest.mark.long
def test_a_job_survives_many_preemptions(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """Stopped again and again and placed with other shapes, it is never held to have failed (Slurm goes on showing the
    number of nodes of the last start)."""
    server = serving.start("srsf-preemptive[place=even:best-fit]")
    long = serving.sbatch(16, "sleep 60", says="iterations=1000 iteration_s=1")
    serve_until(server, running(server, long))
    for size in (128, 120, 112):
        short = serving.sbatch(size, "sleep 0.3", says="iterations=1 iteration_s=0.3")
        serve_until(server, ended(server, short))
        assert serving.statuses()[short] == "finished", server.world.outcomes
    serve_until(server, running(server, long))
    assert server.core.table.jobs[long].failures == 0
