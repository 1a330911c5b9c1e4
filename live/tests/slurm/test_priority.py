import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from live.tests.slurm.accounting import Accounted, missing
from live.tests.slurm.conftest import OtherUser
from live.tests.slurm.serving import Serving, actions, ended, running, serve_until
from testkit import sandbox
from testkit.engines import missing_engine
from weft.errors import InputError, StackError
from weft.model.reason import speak
from weft.stacks import resolve
from weft_live.server.server import Server
from weft_live.slurm.commands import Ended
from weft_live.slurm.priority import Standing, read_standing
from weft_live.slurm.records import Record

STACK = "srsf[place=even:best-fit]"
PREEMPTIVE = "srsf-preemptive[place=even:best-fit]"
ACCOUNTS = (
    "add qos urgent priority=100",
    "add account physics fairshare=1",
    "add account biology fairshare=9",
    "add account guests fairshare=0",
    "add user root account=physics",
    "modify user root set defaultaccount=physics",
    "add user nobody account=biology",
    "add user daemon account=guests",
    "modify account physics,biology,guests set qos=normal,urgent",
)


def open_folder() -> Path:
    """A folder that every user may write to, in no other that only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="weft-test-", dir="/tmp"))
    folder.chmod(0o777)
    return folder


@pytest.fixture(scope="module")
def accounted() -> Iterator[Accounted]:
    """Two nodes, three users in three accounts; physics has used the cluster, and guests have no share of it."""
    if why := sandbox.missing() or missing():
        missing_engine(f"Slurm's accounting ({why})")
    folder = open_folder()
    with Accounted(folder / "slurm", 2) as box:
        for words in ACCOUNTS:
            box.run("sacctmgr", "-i", *words.split())
        usage = box.sbatch("--ntasks=64", "--account=physics", wrap="sleep 60")
        box.wait(lambda: "RUNNING" in box.run("squeue", "--noheader", f"--jobs={usage}", "--format=%T"))
        time.sleep(2.0)
        box.stop("slurmctld")  # it computes shares when it comes up, and then once a minute
        box.start_controller()
        box.wait(lambda: box.up() and "|0.500000" in box.slurm.shares())
        box.clear()
        yield box
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def box(accounted: Accounted) -> Iterator[Accounted]:
    """In place of the Slurm without accounting."""
    yield accounted
    accounted.clear()


@pytest.fixture
def work() -> Iterator[Path]:
    """Where users keep their scripts."""
    folder = open_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def submit(box: Accounted, work: Path) -> dict[str, str]:
    """By whose they are: a long job that is urgent, a short one, and one between them; each wants all GPUs."""
    wants = ("--gpus=16", "--nodes=2")
    jobs = {}
    for name, steps, qos in (("daemon", 1000, "urgent"), ("nobody", 10, "normal"), ("root", 100, "normal")):
        user = OtherUser(box, name, work)
        comment = f"--comment=weft: iterations={steps} iteration_s=1"
        jobs[name] = user.sbatch(*wants, f"--qos={qos}", comment, script="sleep 0.2")
    return jobs


def starts(server: Server) -> list[str]:
    """Jobs in the order in which they were started."""
    return [job for job, action in actions(server) if action == "start"]


def behind(server: Server, serving: Serving, box: Accounted, work: Path) -> tuple[str, dict[str, str]]:
    """The three jobs, waiting behind one that has the whole cluster."""
    first = serving.sbatch(16, "sleep 60")
    serve_until(server, running(server, first))
    jobs = submit(box, work)
    serve_until(server, lambda: set(jobs.values()) <= server.core.table.waiting.keys())
    return first, jobs


@pytest.mark.long
@pytest.mark.engine
@pytest.mark.parametrize(
    ("priority", "expected"),
    [
        ("off", ("nobody", "root", "daemon")),  # shortest first: 10, 100, 1000 iterations
        ("qos", ("daemon", "nobody", "root")),  # the urgent one, then shortest first
        ("slurm", ("daemon", "nobody", "root")),  # 1000 x 1 + 1000 x 0.25; 1000 x 1; 1000 x 0.5
    ],
)
def test_jobs_start_by_priority_then_as_the_stack_says(
    priority: str, expected: tuple[str, ...], serving: Serving, box: Accounted, work: Path
) -> None:
    server = serving.start(STACK, priority=priority)
    first, jobs = behind(server, serving, box, work)
    box.run("scancel", first)
    serve_until(server, ended(server, *jobs.values()))
    assert starts(server)[1:] == [jobs[name] for name in expected]


@pytest.mark.long
@pytest.mark.engine
def test_fair_shares_count_and_a_job_can_become_urgent_while_it_waits(
    serving: Serving, box: Accounted, work: Path
) -> None:
    """Without a QOS it is nobody (share 1), root (0.5), daemon (0.25), whoever is shortest. Then root's becomes urgent,
    and a server that comes back meanwhile knows it."""
    server = serving.start(STACK, priority="slurm")
    first, jobs = behind(server, serving, box, work)
    box.run("scontrol", "update", f"JobId={jobs['daemon']}", "QOS=normal")
    serve_until(server, lambda: server.core.table.jobs[jobs["daemon"]].job.priority == 1)
    found = {name: server.core.table.jobs[job].job.priority for name, job in jobs.items()}
    assert found == {"nobody": 5, "root": 2, "daemon": 1}
    assert list(server.core.table.waiting) == [jobs[name] for name in ("nobody", "root", "daemon")]
    box.run("scontrol", "update", f"JobId={jobs['root']}", "QOS=urgent")
    serve_until(server, lambda: server.core.table.jobs[jobs["root"]].job.priority == 7)
    words = [speak(event.why) for event in server.ledger.events(jobs["root"]) if event.kind == "prioritised"]
    assert words == ["Slurm's priority is 500 of 2000", "Slurm's priority is 1500 of 2000"]
    server.close()
    server = serving.start(STACK, priority="slurm")
    box.run("scancel", first)
    serve_until(server, ended(server, *jobs.values()))
    assert starts(server)[1:] == [jobs[name] for name in ("root", "nobody", "daemon")]


@pytest.mark.long
@pytest.mark.engine
def test_a_running_job_gives_way_to_an_urgent_one_and_to_no_shorter_one(
    serving: Serving, box: Accounted, work: Path
) -> None:
    """Under a preemptive order; without the setting the shorter one would have taken its place."""
    server = serving.start(PREEMPTIVE, priority="qos")
    first = serving.sbatch(16, "sleep 60", says="iterations=500 iteration_s=1")
    box.run("scontrol", "update", f"JobId={first}", "QOS=urgent")
    serve_until(server, running(server, first))
    jobs = submit(box, work)  # 1000 iterations and urgent, 10, 100
    serve_until(server, lambda: set(jobs.values()) <= server.core.table.waiting.keys())
    assert [action for _, action in actions(server)] == ["start"]
    box.run("scontrol", "update", f"JobId={jobs['root']}", "QOS=urgent")
    serve_until(server, ended(server, jobs["root"]))
    assert actions(server)[:3] == [(first, "start"), (first, "stop"), (jobs["root"], "start")]


@pytest.mark.long
@pytest.mark.engine
def test_the_accounting_remembers_what_the_controller_may_forget(box: Accounted) -> None:
    """sacct of a real Slurm; of a job that it does not know it says nothing."""
    done, failed = box.sbatch(wrap="true"), box.sbatch(wrap="exit 3")
    expected = {done: Ended("COMPLETED", 0, 0), failed: Ended("FAILED", 3, 0)}
    box.wait(lambda: box.slurm.accounting([done, failed, "99999"]) == expected)


def test_nice_lowers_and_unknown_names_count_for_nothing() -> None:
    weights = {"qos": 100.0, "share": 100.0, "partition": 0.0}
    standing = Standing("slurm", {"high": 10, "low": 5}, {("a", "u", ""): 0.5, ("a", "u", "p"): 1.0}, {}, weights)
    plain = Record("1", "1", "PENDING", False, True, user="u", account="a", partition="train")
    cases = [(plain, 2), (replace(plain, qos="high"), 7), (replace(plain, qos="low"), 5), (replace(plain, nice=60), -1)]
    cases += [(replace(plain, qos="unheard"), 2), (replace(plain, partition="p"), 5), (replace(plain, user="x"), 0)]
    cases += [(replace(plain, nice=2**31), -100), (replace(plain, nice=-(2**31)), 9)]
    assert [standing.of(record)[0] for record, _ in cases] == [number for _, number in cases]


@pytest.mark.engine
def test_what_cannot_be_known_is_refused_in_words(slurm16: sandbox.Sandbox) -> None:
    with pytest.raises(InputError, match="this Slurm has no QOS, which needs slurmdbd"):
        read_standing(slurm16.slurm, "qos")
    with pytest.raises(InputError, match=r"PriorityWeightQOS, PriorityWeightFairShare, .* are all 0"):
        read_standing(slurm16.slurm, "slurm")
    with pytest.raises(InputError, match="write off, qos or slurm"):
        read_standing(slurm16.slurm, "always")
    with pytest.raises(StackError, match="themis weighs jobs by itself"):
        resolve("themis").planner.refuse_priorities()
