"""A controller that is killed and comes back with what it last saved."""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from live.tests.slurm.serving import (
    WITNESS,
    Serving,
    ended,
    python,
    running,
    serve_until,
    state,
    wait_until_saved,
)
from live.tests.slurm.test_kill import PREEMPTIVE
from testkit.sandbox import Sandbox
from weft.model.reason import because, code_of

pytestmark = pytest.mark.engine


@pytest.mark.long
def test_a_script_that_ended_while_the_controller_was_away_drains_no_node(serving: Serving, box: Sandbox) -> None:
    """The controller dies just after a start, which it forgets, and the script ends before its node has told of it."""
    log, go = serving.tmp_path / "log", serving.tmp_path / "go"
    job = serving.sbatch(8, python(serving.tmp_path, WITNESS, log, 1, go), says="iterations=1 iteration_s=0.05")
    wait_until_saved(box, job)
    before, drained = remember(serving, box), drains(box)
    with serving.start(PREEMPTIVE) as server:
        serve_until(server, lambda: begun(log, 1))
        box.kill("slurmctld")
        go.touch()
        box.wait(lambda: "end" in log.read_text())
        forget(box, before)
        serve_until(server, ended(server, job))
    assert serving.statuses() == {job: "finished"}
    words = [line.split()[0] for line in log.read_text().splitlines()]
    assert words == ["start", "end", "start", "end"]
    assert drains(box) == drained
    assert box.up()


@pytest.mark.long
def test_a_node_that_slurm_drains_for_a_job_that_it_had_is_used_again(serving: Serving, box: Sandbox) -> None:
    """The controller forgets a start, and the node loses all of the job but the memory that it has it."""
    told, go = serving.tmp_path / "told", serving.tmp_path / "go"
    script = f"sh -c 'echo $$ $PPID >> {told}; until [ -e {go} ]; do sleep 0.1; done'"
    job = serving.sbatch(128, script, says="iterations=1 iteration_s=0.05")
    wait_until_saved(box, job)
    before, drained = remember(serving, box), drains(box)
    with serving.start(PREEMPTIVE) as server:
        serve_until(server, lambda: told.exists() and len(told.read_text().split()) == 2)
        box.kill("slurmctld")
        for process in map(int, reversed(told.read_text().split())):
            os.kill(process, signal.SIGKILL)
        go.touch()
        forget(box, before)
        serve_until(server, ended(server, job))
        assert [words for words in serving.said if "drained it" in words and "resumed" in words]
    assert serving.statuses() == {job: "finished"}
    assert drains(box) == drained + 1
    assert box.up()


def begun(log: Path, times: int) -> bool:
    """Whether a job's own process has told so many times that it begins."""
    return log.exists() and log.read_text().count("start") == times


def drains(box: Sandbox) -> int:
    """How many nodes Slurm has drained because they had a job already."""
    return (box.folder / "log" / "slurmctld.log").read_text(errors="replace").lower().count("duplicate jobid on")


@pytest.mark.long
def test_a_job_whose_placement_the_controller_forgets_is_placed_again(serving: Serving, box: Sandbox) -> None:
    """The controller saves its state every few seconds. It dies when it has been told where a job is to run, and comes
    back with the job as it was before; then the release arrives, and Slurm would start the job as it likes, without
    what weft tells it. The job runs to its end in the end, as weft decided."""
    log = serving.tmp_path / "log"
    job = serving.sbatch(8, python(serving.tmp_path, WITNESS, log, 5), says="iterations=5 iteration_s=0.05")
    wait_until_saved(box, job)
    before = remember(serving, box)
    forgot: list[str] = []
    carry = box.slurm.scontrol

    def forgets(lines: Sequence[str]) -> str:
        if not forgot and f"release {job}" in lines:
            forgot.append(box.run("scontrol", "--oneliner", "show", "job", job))
            forget(box, before)
        return carry(lines)

    box.slurm.scontrol = forgets  # type: ignore[method-assign]
    try:
        server = serving.start(PREEMPTIVE)
        serve_until(server, lambda: bool(server.ledger.jobs()) and not server.core.table.jobs)
    finally:
        del box.slurm.scontrol
    assert "AdminComment=weft:job=" in forgot[0], "it had been told"
    assert {row.id: (row.status, row.why) for row in server.ledger.jobs()} == {
        job: ("finished", because("live.exit", status=0))
    }
    assert [line.split()[:2] for line in log.read_text().splitlines()] == [["start", job], ["end", job]]


def remember(serving: Serving, box: Sandbox) -> Path:
    """A copy of the controller's state, as it last saved it."""
    beside = shutil.ignore_patterns("*.new")
    return shutil.copytree(box.folder / "state", serving.tmp_path / "state", ignore=beside)


def forget(box: Sandbox, before: Path) -> None:
    """kill -9 of the controller, which comes back with an earlier state."""
    box.kill("slurmctld")
    shutil.rmtree(box.folder / "state")
    shutil.copytree(before, box.folder / "state")
    box.start_controller()
    box.wait(box.up)


@pytest.mark.long
def test_a_job_whose_run_the_controller_forgets_is_not_doubled_and_not_left_held(
    serving: Serving, box: Sandbox
) -> None:
    """It was stopped to give way before, by a requeue that holds it: the state to which the controller comes back. That
    is nobody else's hold. Its processes run on until their node has told of them; it does not start beside them."""
    log = serving.tmp_path / "log"
    mark = box.sbatch("--hold", wrap="true")
    long = serving.sbatch(128, python(serving.tmp_path, WITNESS, log, 200), says="iterations=200 iteration_s=0.05")
    with serving.start(PREEMPTIVE) as first:
        serve_until(first, lambda: begun(log, 1))  # a script that Slurm has started may not have written a line yet
        short = serving.sbatch(128, "sleep 2", says="iterations=1 iteration_s=0.1")
        serve_until(first, running(first, short))
    box.wait(lambda: state(box, short).startswith("COMPLETED"))
    wait_until_saved(box, mark)
    before = remember(serving, box)
    with serving.start(PREEMPTIVE) as server:
        serve_until(server, lambda: running(server, long)() and begun(log, 2))
        forget(box, before)
        serve_until(server, lambda: server.ledger.starts(long) == 3)
        assert server.core.table.jobs[long].barred == ""
        serve_until(server, ended(server, long))
        told = [code_of(event.why) for event in server.ledger.events(long) if event.kind == "stopped"]
        assert told == ["live.stopped", "slurm.forgot-run"]
    assert serving.statuses() == {long: "finished", short: "finished"}
    words = [line.split()[0] for line in log.read_text().splitlines()]
    assert words == ["start", "start", "start", "end"], "and never doubled"
    assert box.up(), "no node was drained because it had the job already"
    box.run("scancel", mark)
