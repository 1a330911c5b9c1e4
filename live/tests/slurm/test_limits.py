"""Jobs that Slurm does not start though their GPUs are free, and what their users are told: on a real Slurm."""

from __future__ import annotations

import pytest

from live.tests.slurm.serving import Serving, ended, running, serve_until, state
from testkit.sandbox import Sandbox
from weft.model.reason import code_of, speak
from weft_live.server.listing import explain_live, queue

pytestmark = pytest.mark.engine

# What a Slurm without cores says of such a job: it may not have thought about it yet when it is asked.
REASONS = (
    "n1,n2 lack what it asks for beside GPUs (cores, memory) (Resources)",
    "Slurm does not start it (None)",
)


def told(box: Sandbox, job: str) -> str:
    """What any user may read about a job."""
    return box.run("squeue", "--noheader", f"--jobs={job}", "--Format=admin_comment:250").strip().strip('"')


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seconds of patience are one; the long patience for silence is out of reach."""
    monkeypatch.setattr("weft_live.slurm.patience.SCARCE_S", 1.0)
    monkeypatch.setattr("weft_live.slurm.patience.LONG_S", 1000.0)


@pytest.mark.usefixtures("impatient")
def test_a_job_without_cores_gives_its_gpus_back_and_is_tried_again(serving: Serving, box: Sandbox) -> None:
    """A job without GPUs has all cores of all nodes, so that Slurm does not start what weft places: the start is taken
    back within seconds, the job says why, and runs when the cores are free again; nothing is set aside."""
    cores = box.sbatch("--nodes=16", "--ntasks-per-node=64", wrap="sleep 600")
    box.wait(lambda: state(box, cores).startswith("RUNNING"))
    server = serving.start()
    job = serving.sbatch(16, "sleep 0.2")
    serve_until(server, lambda: bool(job in server.core.table.jobs and server.core.table.jobs[job].barred))
    assert server.core.table.gpus.offer.n_free == 128, "its GPUs are free for others"
    assert state(box, job) == "PENDING JobHeldAdmin"
    words = speak(server.core.table.jobs[job].barred)
    assert words in REASONS
    assert queue(serving.folder, server.ledger)[0]["reason"] == words
    assert words in explain_live(serving.folder, server.ledger, job).headline
    shown: list[str] = []

    def users_know() -> bool:
        text = box.run("scontrol", "--oneliner", "show", "job", job)
        shown.append(text if any(f"weft: waits: {said}" in text for said in REASONS) else "")
        return bool(shown[-1])

    serve_until(server, users_know)
    assert "ReqNodeList=(null)" in shown[-1]
    box.run("scancel", cores)
    serve_until(server, ended(server, job))
    assert serving.statuses() == {job: "finished"}


@pytest.mark.long
def test_jobs_wait_for_licences_in_turn(serving: Serving, box: Sandbox) -> None:
    """One licence, two jobs; a server that comes back meanwhile tries the one that waits again."""
    server = serving.start()
    first = serving.sbatch(8, "sleep 60", "--licenses=solver")
    serve_until(server, running(server, first))
    second = serving.sbatch(8, "sleep 0.2", "--licenses=solver")
    serve_until(server, lambda: bool(second in server.core.table.jobs and server.core.table.jobs[second].barred))
    assert "the licences it asks for are all in use (Licenses)" in explain_live(
        serving.folder, server.ledger, second
    ).headline  # fmt: skip
    server.close()
    server = serving.start()
    assert server.core.table.jobs[second].barred
    box.run("scancel", first)
    serve_until(server, ended(server, first, second))
    assert serving.statuses() == {first: "cancelled", second: "finished"}


@pytest.mark.long
def test_a_job_that_slurm_refuses_is_set_aside_for_good(serving: Serving, box: Sandbox) -> None:
    """Its partition gives one node to a job, and it needs two. What weft itself changed of the request is no reason to
    take it again; its user is told."""
    server = serving.start()
    job = serving.sbatch(16, "sleep 0.2")
    box.run("scontrol", "update", "PartitionName=train", "MaxNodes=1")
    try:
        serve_until(server, ended(server, job))
        server.close()
        server = serving.start()
        serve_until(server, lambda: told(box, job).startswith("weft: stays held: set aside after 3 starts"))
    finally:
        box.run("scontrol", "update", "PartitionName=train", "MaxNodes=UNLIMITED")
    assert serving.statuses() == {job: "failed"}
    reason = queue(serving.folder, server.ledger)[0]["reason"]
    assert "set aside after 3 starts that Slurm refused" in reason
    assert "PartitionNodeLimit" in reason


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_a_job_that_slurm_passes_over_without_a_word_is_taken_back_soon(serving: Serving) -> None:
    """Its four tasks want twice the cores that a node has, and its GPUs are on one: Slurm gives no reason at all. The
    start is taken back because Slurm has considered the job."""
    server = serving.start()
    job = serving.sbatch(8, "sleep 0.2", "--ntasks=4", "--cpus-per-task=32")
    serve_until(server, lambda: bool(job in server.core.table.jobs and server.core.table.jobs[job].barred))
    assert code_of(server.core.table.jobs[job].barred) == "slurm.not-started"


@pytest.mark.long
def test_users_are_told_why_their_jobs_wait(serving: Serving, box: Sandbox) -> None:
    server = serving.start()
    big, waits, behind = serving.sbatch(128, "sleep 60"), serving.sbatch(128), serving.sbatch(128)
    odd = serving.sbatch(2, says="model=resnet51")
    serve_until(server, lambda: all(told(box, job).startswith("weft: ") for job in (waits, behind, odd)))
    assert told(box, waits) == "weft: waits: wants 128 GPUs; fewer are free"
    assert told(box, behind) == "weft: waits: stands behind jobs that go first"
    assert told(box, odd).startswith("weft: stays held: ")
    assert "'resnet51' is not in the zoo" in told(box, odd)
    assert told(box, big).startswith(f"weft:job={big},attempt=1,")
