"""A real Slurm of 16 nodes: held, placed, run, preempted, placed again; shifts; what goes wrong there."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import pytest

from live.tests.jobs import LOOP
from live.tests.serving import own_s
from live.tests.slurm.serving import (
    Serving,
    actions,
    ended,
    environment,
    python,
    running,
    serve_until,
    state,
    until_there,
    wait_until_saved,
)
from testkit.sandbox import Sandbox, release
from weft.core.stack import Stack
from weft.model.plan import Candidate, Gate, State
from weft.model.reason import speak
from weft.model.view import ClusterView, JobStatus
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.planners.base import Planner
from weft.stacks import resolve
from weft.testing.probes import Waking
from weft_live.server.listing import explain_live, queue
from weft_live.slurm.client import Command
from weft_live.slurm.states import Do

pytestmark = pytest.mark.engine
EVEN = "[place=even:best-fit]"


def test_a_job_is_held_placed_and_run(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """Nobody but weft starts it; then it has the nodes, GPUs and tasks that were decided, and knows who it is."""
    big = serving.sbatch(16, f"sh -c 'env > {tmp_path}/env; srun -l hostname > {tmp_path}/tasks'", "--ntasks=4")
    time.sleep(1.0)
    assert state(box, big) == "PENDING JobHeldUser"
    server = serving.start()
    serve_until(server, ended(server, big))
    assert [row.gpus for _, row in server.ledger.decisions(big)] == [" ".join(map(str, range(16)))]
    found = environment(tmp_path / "env")
    assert found["SLURM_JOB_NODELIST"] == "n[1-2]"
    assert (found["SLURM_GPUS_ON_NODE"], found["SLURM_TASKS_PER_NODE"]) == ("8", "2(x2)")
    assert (found["WEFT_JOB"], found["WEFT_ATTEMPT"], found["WEFT_SHIFT"]) == (big, "1", "")
    assert len((tmp_path / "tasks").read_text().splitlines()) == 4
    assert explain_live(serving.folder, server.ledger, big).headline.startswith("finished: exited with code 0, after ")


def test_tasks_for_each_gpu_run_as_they_were_asked_for(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """--ntasks-per-gpu, with the number of tasks or with that of GPUs."""
    if release() > (23,):
        pytest.skip("this Slurm wants a number of GPUs beside --ntasks-per-gpu")
    jobs = {}
    for asks in ("--ntasks=8", "--gpus=4"):
        file = tmp_path / f"job{asks}.sh"
        file.write_text(f"#!/bin/sh\nsrun -l hostname > '{tmp_path}/tasks{asks}'\n")
        jobs[asks] = box.sbatch("--ntasks-per-gpu=2", asks, str(file))
    server = serving.start()
    serve_until(server, ended(server, *jobs.values()))
    assert set(serving.statuses().values()) == {"finished"}
    for asks, job in jobs.items():
        assert [len(row.gpus.split()) for _, row in server.ledger.decisions(job) if row.action == "start"] == [4]
        assert len((tmp_path / f"tasks{asks}").read_text().splitlines()) == 8


# Its first start reports one iteration over and over until it is stopped.
LINGERS = """
import os, time, weft
for step in range(weft.resume_step(), 60):
    weft.progress(step)
    while step == 30 and os.environ["WEFT_ATTEMPT"] == "1":
        time.sleep(0.05)
        weft.progress(step)
    time.sleep(0.02)
weft.progress(60)
"""


def test_a_short_job_preempts_a_long_one_which_goes_on_elsewhere(serving: Serving, tmp_path: Path) -> None:
    server = serving.start(f"srsf-preemptive{EVEN}")
    says = "iterations={} iteration_s=0.05"
    long = serving.sbatch(128, python(tmp_path, LINGERS), says=says.format(60))
    # The job's own report counts here: until it reports, the world only estimates how far it is.
    serve_until(server, lambda: running(server, long)() and server.world.attempt(long, 1).progress().step > 5)
    short = serving.sbatch(8, python(tmp_path, LOOP, 0.05, 4), says=says.format(4))
    serve_until(server, ended(server, long, short))
    assert actions(server) == [(long, "start"), (long, "stop"), (short, "start"), (long, "start")]
    assert set(serving.statuses().values()) == {"finished"}
    told = [line.text for line in explain_live(serving.folder, server.ledger, long).lines]
    assert f"decided to stop: gives way to {short}" in told
    assert "off its GPUs: stopped as asked" in told
    first, second = (server.world.attempt(long, n).progress() for n in (1, 2))
    assert 5 < first.step < second.step == 60
    assert second.reports <= 60 - first.step + 2, "it went on from its checkpoint"


@pytest.mark.parametrize("drained_first", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_job_is_placed_again_on_other_nodes(drained_first: bool, serving: Serving, box: Sandbox) -> None:
    """Stopped on a node that is drained: it goes to another. If weft heard of the end before it heard of the drain, it
    has been sent there again: that start is given up, not waited for."""
    server = serving.start()
    job = serving.sbatch(8, "sleep 600")
    serve_until(server, running(server, job))
    first = state(box, job).split()[-1]
    assert state(box, job) == f"RUNNING None {first}"
    drain = ("scontrol", "update", f"nodename={first}", "state=drain", "reason=test")
    stop = ("scontrol", "requeue", job)
    for command in (drain, stop) if drained_first else (stop, drain):
        box.run(*command)
    try:

        def elsewhere() -> bool:
            words = state(box, job).split()
            return words[0] == "RUNNING" and words[-1] != first

        serve_until(server, elsewhere)
        serve_until(server, running(server, job))
        failures = server.core.table.jobs[job].failures
        assert failures in (1, 2)  # the stop that nobody asked for, and perhaps a start on the drained node
        assert server.world.tasks[job].starts == failures + 1
    finally:
        box.run("scontrol", "update", f"nodename={first}", "state=resume")
    serve_until(server, lambda: not server.world.down)


class Shifted(Interleave):
    """Every start has a gate; once a job has done five iterations it gets another one."""

    name = "shifted"
    shifts = True
    first, later = Gate(epoch_s=1.0, period_s=0.2), Gate(epoch_s=2.0, period_s=0.24)

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        plan = candidates[0].plan
        gates = {}
        for job in plan.placements:
            on = job in view.running and view.running[job].status is JobStatus.RUNNING
            gates[job] = self.later if on and view.iterations_done(job) >= 5 else self.first
        return Pick(replace(candidates[0], plan=replace(plan, gates=gates)), state, dict.fromkeys(gates, "shifted"))


def planner() -> Planner:
    """The layers of a plain stack."""
    return resolve(f"fifo{EVEN}").planner


# Tells between which moments it is told to begin each iteration, and whether it is held. It ends when the later gate
# has held it seven times, at moments that are no openings of the first one.
REPORT = """
import math, os, sys, time, weft
zero = float(os.environ["WEFT_SHIFT"].partition("/")[0]) - 1.0
def opens(first, last, epoch_s, period_s):
    return math.ceil((first - zero - epoch_s - 1e-3) / period_s) * period_s <= last - zero - epoch_s + 1e-3
left = 7
for step in range(400):
    before = time.time()
    delay = weft.progress(step)
    told = before + delay, time.time() + delay
    at = opens(*told, 1.0, 0.2), opens(*told, 2.0, 0.24)
    with open(f"{sys.argv[1]}.{os.environ['SLURM_PROCID']}", "a") as file:
        print(step, int(delay > 0), *map(int, at), os.environ["WEFT_SHIFT"], os.environ["SLURMD_NODENAME"], file=file)
    time.sleep(delay)
    left -= delay > 0 and at == (False, True)
    if not left:
        break
    time.sleep(0.17)
"""


def test_a_shift_reaches_every_task_and_the_running_job(serving: Serving, tmp_path: Path) -> None:
    """The gate of the start is in the environment of all four tasks on two nodes, and holds their iterations; the gate
    that is set while they run holds the later ones: every one is told to begin at an opening."""
    server = serving.start(Stack("shifted", Waking(planner(), 0.1), Shifted()))
    script = f"srun {' '.join(python(tmp_path, REPORT, tmp_path / 'seen'))}"
    # Iterations are said to be long, so that no estimate made before the first report reaches five of them.
    job = serving.sbatch(16, script, "--ntasks=4", says="iterations=400 iteration_s=30")
    serve_until(server, ended(server, job))
    nodes = set()
    for rank in range(4):
        rows = [line.split() for line in (tmp_path / f"seen.{rank}").read_text().splitlines()]
        nodes.add(rows[0][5])
        assert {row[4] for row in rows} == {f"{server.world.clock.wall_s + 1.0:.6f}/0.2/0.05"}
        held = [(int(step), first == "1", later == "1") for step, is_held, first, later, *_ in rows if is_held == "1"]
        assert all(first or later for _, first, later in held), "they begin at openings"
        assert sum(later and not first for _, first, later in held) == 7, "at last at those of the later gate"
        if rank == 0:
            assert all(first for step, first, _ in held if step < 5), "at first at those of the first one"
            assert server.world.attempt(job, 1).progress().step == int(rows[-1][0])
    assert len(nodes) == 2


@pytest.mark.parametrize("absent_s", [1.0, pytest.param(60.0, marks=pytest.mark.long)])
def test_the_controller_is_killed_and_comes_back(
    absent_s: float, serving: Serving, box: Sandbox, tmp_path: Path
) -> None:
    """Slurm is absent: a job runs on, one that ends meanwhile is heard of, a later one runs.

    One that is cancelled meanwhile is cancelled as soon as Slurm can be told.
    """
    server = serving.start()
    long, brief = serving.sbatch(8, "sleep 600"), serving.sbatch(8, until_there(tmp_path / "go"))
    unwanted = serving.sbatch(8, "sleep 600", says="restarts=3")
    serve_until(server, running(server, long, brief, unwanted))
    starts = server.world.tasks[long].starts
    wait_until_saved(box, long)
    box.slurm.limit_s = 2.0
    box.kill("slurmctld")
    (tmp_path / "go").touch()
    server.cancel(unwanted)
    serve_until(server, lambda: bool(serving.said))
    server.run(server.world.now() + absent_s)
    assert running(server, long, brief)(), "no news is no news"
    box.slurm.limit_s = 60.0
    box.start_controller()
    serve_until(server, ended(server, brief, unwanted))
    assert serving.statuses() == {long: "", brief: "finished", unwanted: "cancelled"}
    late = serving.sbatch(120, "sleep 0.2")
    serve_until(server, ended(server, late))
    assert running(server, long)()
    assert server.world.tasks[long].starts == starts
    assert [text.partition(":")[0] for text in serving.said] == [
        "Slurm does not answer and is asked again", "Slurm answers again"
    ]  # fmt: skip


@pytest.mark.long
def test_a_controller_that_hangs_does_not_hold_weft_up(serving: Serving, box: Sandbox) -> None:
    """Decisions and requests go on; what was decided meanwhile is carried out when Slurm answers again."""
    box.slurm.limit_s = 1.0
    server = serving.start()
    job, waits = serving.sbatch(128, "sleep 60"), serving.sbatch(128, "sleep 0.2")
    serve_until(server, lambda: running(server, job)() and waits in server.core.table.waiting)
    box.pause("slurmctld")
    try:
        server.run(server.world.now() + 3.5)
        began = own_s()
        server.cancel(job)
        server.run(server.world.now() + 0.2)
        assert own_s() - began < 1.0
        assert any(text.startswith("Slurm does not answer") for text in serving.said)
    finally:
        box.pause("slurmctld", False)
        box.slurm.limit_s = 10.0
    serve_until(server, ended(server, job, waits))
    assert serving.statuses() == {job: "cancelled", waits: "finished"}


def test_a_job_is_warned_and_has_its_grace(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """It traps the signal that it named, saves, and leaves by itself within its grace: it is stopped, not finished."""
    server = serving.start(f"srsf-preemptive{EVEN}")
    traps = f"trap 'sleep 1; touch {tmp_path}/saved; exit 0' USR1; touch {tmp_path}/traps"
    script = f"{traps}; while true; do sleep 0.1; done"
    long = serving.sbatch(128, f'sh -c "{script}"', says="iterations=900 iteration_s=1 grace_s=20 signal=USR1")
    serve_until(server, lambda: running(server, long)() and (tmp_path / "traps").exists())
    short = serving.sbatch(8, "sleep 0.1", says="iterations=1 iteration_s=0.1")
    serve_until(server, ended(server, short))
    assert (tmp_path / "saved").exists()
    serve_until(server, lambda: server.ledger.starts(long) == 2 and running(server, long)())
    assert serving.statuses() == {long: "", short: "finished"}
    assert server.core.table.jobs[long].preemptions == 1


@pytest.mark.long
def test_a_stop_that_comes_too_late_does_not_run_a_job_again(box: Sandbox) -> None:
    """Slurm requeues even jobs that have ended, if it is asked plainly."""
    job = box.sbatch("--hold", "--gpus=1", wrap="true")
    box.run("scontrol", "release", job)
    box.wait(lambda: state(box, job).startswith("COMPLETED"))
    box.slurm.scontrol([Command(Do.REQUEUE, job).line()])
    time.sleep(1.0)
    assert state(box, job).startswith("COMPLETED")
    box.slurm.scontrol([Command(Do.REVIVE, job).line()])
    box.wait(lambda: state(box, job).startswith("PENDING"))


def test_users_cancel_and_administrators_requeue(serving: Serving, box: Sandbox) -> None:
    server = serving.start()
    first, second = serving.sbatch(128, "sleep 60"), serving.sbatch(8, "sleep 60")
    serve_until(server, lambda: running(server, first)() and second in server.core.table.waiting)
    box.run("scancel", second)
    serve_until(server, ended(server, second))
    box.run("scontrol", "requeue", first)
    serve_until(server, lambda: server.ledger.starts(first) == 2 and running(server, first)())
    box.run("scancel", first)
    serve_until(server, ended(server, first))
    assert serving.statuses() == {first: "cancelled", second: "cancelled"}
    told = [line.text for line in explain_live(serving.folder, server.ledger, first).lines]
    assert [line for line in told if line.startswith("off its GPUs: requeued by Slurm (")]  # the reason may come later
    assert told[-1] == "over: cancelled by its user or an administrator"


@pytest.mark.long
def test_failures_are_started_again_as_often_as_the_job_says(serving: Serving) -> None:
    server = serving.start()
    once = serving.sbatch(1, "sh -c 'exit 3'")
    twice = serving.sbatch(1, "sh -c '[ $WEFT_ATTEMPT = 3 ] || exit 4'", says="restarts=2")
    serve_until(server, ended(server, once, twice))
    rows = {row.id: (row.status, speak(row.why)) for row in server.ledger.jobs()}
    assert rows == {once: ("failed", "failed: exited with code 3"), twice: ("finished", "exited with code 0")}
    assert server.ledger.starts(twice) == 3


def test_jobs_that_make_no_sense_stay_held_and_are_explained(serving: Serving, box: Sandbox) -> None:
    server = serving.start()
    odd = serving.sbatch(2, says="model=resnet51")
    fine = serving.sbatch(2, "sleep 0.1")
    serve_until(server, ended(server, fine))
    serve_until(server, lambda: odd in {row["job"] for row in queue(serving.folder, server.ledger)})
    rows = {row["job"]: (row["status"], row["reason"]) for row in queue(serving.folder, server.ledger)}
    assert rows[odd][0] == "refused"
    assert "'resnet51' is not in the zoo" in rows[odd][1]
    assert explain_live(serving.folder, server.ledger, odd).headline.startswith("stays held: ")
    assert state(box, odd) == "PENDING JobHeldUser"
    box.run("scontrol", "update", f"JobId={odd}", "Comment=weft: model=resnet50")
    serve_until(server, ended(server, odd))
    assert [row["job"] for row in queue(serving.folder, server.ledger)] == []


def test_an_array_is_many_jobs_and_users_wishes_are_kept(serving: Serving, box: Sandbox) -> None:
    server = serving.start()
    array = serving.sbatch(1, "sleep 0.3", "--array=1-7:3")
    after = serving.sbatch(1, "sleep 0.1", f"--dependency=afterok:{array}")
    tomorrow = serving.sbatch(1, "sleep 0.1", "--begin=tomorrow")
    names = [f"{array}_{task}" for task in (1, 4, 7)]
    serve_until(server, ended(server, *names))
    found = serving.statuses()
    assert {name: found[name] for name in names} == dict.fromkeys(names, "finished")
    assert tomorrow not in found
    assert (after, "start") not in actions(server)[:3], "it was not thought of before the others were over"


@pytest.mark.long
def test_no_more_tasks_of_an_array_are_started_than_it_allows(serving: Serving, box: Sandbox) -> None:
    server = serving.start()
    array = serving.sbatch(1, "sleep 0.3", "--array=1-4%2")
    names = [f"{array}_{task}" for task in (1, 2, 3, 4)]
    serve_until(server, ended(server, *names))
    assert set(serving.statuses().values()) == {"finished"}
    times = [(row.time_s, row.action) for name in names for _, row in server.ledger.decisions(name)]
    times += [(row.end_s or 0.0, "end") for row in server.ledger.jobs()]
    live = list(accumulate({"start": 1, "end": -1}.get(what, 0) for _, what in sorted(times)))
    assert max(live) == 2


@pytest.mark.long
def test_a_job_is_recorded_from_when_it_could_run(serving: Serving, box: Sandbox, tmp_path: Path) -> None:
    """A time, the limit of an array: in a replay no job is there before it could run here, though weft itself came back
    in between."""
    server = serving.start(record=tmp_path / "trace.csv")
    first = serving.sbatch(1, "sleep 0.1")
    begin_s = server.world.now() + 4.0
    later = serving.sbatch(1, "sleep 0.1", "--begin=now+4")
    array = serving.sbatch(1, "sleep 1.5", "--array=1-2%1")
    serve_until(server, ended(server, first))
    server.close()
    server = serving.start(record=tmp_path / "trace.csv")
    serve_until(server, ended(server, first, later, f"{array}_1", f"{array}_2"))
    ends = {row.id: row.end_s or 0.0 for row in server.ledger.jobs()}
    server.close()
    with open(tmp_path / "trace.csv", encoding="utf-8") as file:
        submits = {row["job_id"]: float(row["submit_s"]) for row in csv.DictReader(file)}
    assert submits.keys() == ends.keys()
    assert submits[first] < 2.0
    assert submits[later] >= begin_s - 1.0, "Slurm counts in seconds"
    assert submits[f"{array}_2"] >= ends[f"{array}_1"] - 0.5


@pytest.mark.long
def test_a_requeue_by_slurm_leaves_the_restarts_alone(serving: Serving, box: Sandbox) -> None:
    """Requeued by an administrator, then failed by itself: it has its one restart, also after a server that died."""
    server = serving.start()
    job = serving.sbatch(1, "sh -c 'case $WEFT_ATTEMPT in 1) sleep 60;; 2) sleep 1; exit 3;; esac'", says="restarts=1")
    serve_until(server, running(server, job))
    box.run("scontrol", "requeue", job)
    serve_until(server, lambda: server.ledger.starts(job) == 2)
    server.close()
    server = serving.start()
    serve_until(server, ended(server, job))
    assert (serving.statuses(), server.ledger.starts(job)) == ({job: "finished"}, 3)
