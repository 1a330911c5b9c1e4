import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from live.tests.serving import ended_for_good
from live.tests.slurm.serving import (
    WITNESS,
    Serving,
    fork_server,
    python,
    serve_until,
    wait_until_saved,
)
from testkit.sandbox import Sandbox
from weft.stacks import resolve
from weft_live.server.ledger import End, EventRow
from weft_live.server.server import Server
from weft_live.server.snapshot import Changes
from weft_live.slurm.engine import SlurmEngine

pytestmark = pytest.mark.engine
STACK = "tiresias:gittins[order=gittins:40,place=even:best-fit]"  # preempts, and remembers who finished with what

PREEMPTIVE = "srsf-preemptive[place=even:best-fit]"
KILLS = int(os.environ.get("WEFT_KILLS", "3"))
SEED = int(os.environ.get("WEFT_SEED", "11"))

VICTIMS = ("server", "slurmctld", "slurmd")


@pytest.mark.long
def test_kill_9_at_twenty_random_moments(serving: Serving, box: Sandbox) -> None:
    """Ten jobs that do not all fit, under a preemptive stack, and servers that live for 0 to 1.2 s (on a busy machine
    up to twice what the first needs to remember something). In the end every job has finished once, no two processes
    of a job ever ran at a time, and nothing is left in Slurm's queue.

    Every server notes the policies' memory before it keeps it. The next one has that memory: of the last cycle that was
    noted, or of the one before it, if the kill came in between."""
    log, lot = serving.tmp_path / "log", random.Random(7)
    jobs: list[str] = []
    to_come = [(lot.choice((8, 32, 64, 128)), lot.choice((10, 20, 60))) for _ in range(10)]
    seen, longest_s = 0, 1.2
    for n in range(20):
        began = time.monotonic()
        child = fork_server(serving, STACK, note_memory(serving))
        try:
            until = began + lot.uniform(0.0, longest_s)
            if to_come:
                gpus, steps = to_come.pop()
                says = f"iterations={steps} iteration_s=0.05"
                jobs.append(serving.sbatch(gpus, python(serving.tmp_path, WITNESS, log, steps), says=says))
            if n == 0:
                box.wait((serving.tmp_path / "memory").exists)
                longest_s = max(longest_s, 2 * (time.monotonic() - began))
            time.sleep(max(0.0, until - time.monotonic()))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        seen += memory_survived(serving)
    assert seen >= 10, "most servers lived long enough to remember something"
    with serving.start(STACK) as last:
        serve_until(last, lambda: len(last.ledger.jobs()) == 10 and not last.core.table.jobs)
    assert serving.statuses() == dict.fromkeys(jobs, "finished")
    lines = [line.split() for line in log.read_text().splitlines()]
    assert not [line for line in lines if line[0] == "doubled"]
    assert ended_for_good(serving.folder, lines) == set(jobs)
    starts = Counter((job, attempt) for word, job, attempt in lines if word == "start")
    assert set(starts.values()) == {1}, "no attempt was started twice"
    assert empty(box), "nothing is left held"


def note_memory(serving: Serving) -> Callable[[Server], None]:
    """Has a server write each state to a file before its ledger gets it."""

    def arrange(server: Server) -> None:
        keep = server.ledger.keep

        def noted(changes: Changes, events: Sequence[EventRow], ended: Sequence[End]) -> None:
            with open(serving.tmp_path / "memory", "a", encoding="ascii") as file:
                file.write(json.dumps([changes.small["cycle"], changes.small["planner_state"]]) + "\n")
            keep(changes, events, ended)

        server.ledger.keep = noted  # type: ignore[method-assign]

    return arrange


def memory_survived(serving: Serving) -> bool:
    """Whether servers have noted anything; then a server of the folder has the memory that was noted last."""
    file = serving.tmp_path / "memory"
    lines = file.read_text(encoding="ascii").splitlines() if file.exists() else []
    if not lines:
        return False
    notes = [(cycle, memory) for cycle, memory in map(json.loads, lines)]
    with Server(
        serving.folder, serving.cluster, resolve(STACK), dry_run=True, engine=SlurmEngine(serving.box.slurm)
    ) as next:
        found = (next.core.cycle, json.loads(json.dumps(next.core.planner_state)))
    assert found in notes[-2:] or (len(notes) == 1 and found[0] == 0)
    return True


@pytest.mark.long
@pytest.mark.parametrize("soon", [False, True], ids=["any-moment", "after-a-start"])
def test_kill_9_of_server_controller_and_nodes_in_turn(serving: Serving, box: Sandbox, soon: bool) -> None:
    """Under a load that preempts: no job is lost, doubled, or failed by weft, and no node is drained because it has a
    job already. `WEFT_KILLS=200` kills two hundred times, `WEFT_SEED` draws other moments; with `-s` each kill is told,
    and the sum in the end. `soon`: within two seconds after a job has begun.

    Jobs come three at a time, or (`soon`) one before each kill, mostly a short one, so that something begins. The
    controller is killed at any moment, once it has saved the jobs that users have been told are there. It forgets its
    last seconds: placements, starts, stops. If a job ended in them, Slurm has it run again, with weft or without; to
    weft that is another one (17-2). Such are counted, and told; Slurm puts them off for two minutes, so that one may
    come when all others have ended. In the end nothing is left in Slurm's queue.
    """
    log, lot = serving.tmp_path / "log", random.Random(SEED)
    jobs: list[str] = []
    saved = close = 0
    mark = box.sbatch("--hold", wrap="true")  # without GPUs it is none of weft's; saves of the controller show on it
    child = fork_server(serving, PREEMPTIVE)
    try:
        for kill in range(KILLS):
            for _ in range(1 if soon else 3 if kill % 6 == 0 else 0):
                gpus, steps = lot.choice((64, 128)), lot.choice((10, 10, 40) if soon and kill % 4 else (10, 40, 300))
                says = f"iterations={steps} iteration_s=0.05"
                argv = python(serving.tmp_path, WITNESS, log, steps)
                kept = (f"--output={serving.tmp_path}/output.%j", "--open-mode=append")
                late = ("--begin=now+15",) if soon and kill % 3 == 1 else ()  # by then the controller has saved it
                jobs.append(serving.sbatch(gpus, argv, *kept, *late, says=says))
            if kill % 3 == 1 and saved < len(jobs):
                wait_until_saved(box, mark)
                saved = len(jobs)
            if soon:
                begun_before = begins(log)
                with suppress(TimeoutError):  # none begins: all that runs may be long
                    box.wait(lambda: begins(log) > begun_before, 30.0)  # noqa: B023
                close += begins(log) > begun_before
            time.sleep(lot.uniform(0.0, 2.0 if soon else 1.5))
            print(f"kill {kill + 1}: {VICTIMS[kill % 3]}; {begins(log)} starts so far, {close} kills soon after one")
            match kill % 3:
                case 0:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    child = fork_server(serving, PREEMPTIVE)
                case 1:
                    box.kill("slurmctld")
                    time.sleep(lot.uniform(0.0, 0.5))
                    box.start_controller()
                    box.wait(box.up)
                case 2:
                    name = lot.choice(box.names)
                    box.kill(name)
                    time.sleep(lot.uniform(0.0, 0.5))
                    box.start_node(name)
                    box.wait(box.up)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    box.run("scancel", mark)
    with serving.start(PREEMPTIVE) as last:

        def over() -> bool:
            return box.up() and keys(last) == set(jobs) and not last.core.table.jobs and empty(box)

        serve_until(last, over, within_s=1800)  # large jobs would wait for a drained node
        words = {row.id: row.why for row in last.ledger.jobs() if row.status != "finished"}
        stops = sum(row.action == "stop" for _, row in last.ledger.decisions())
        again = sum("-" in row.id for row in last.ledger.jobs())
    drained = (box.folder / "log" / "slurmctld.log").read_text(errors="replace").lower().count("duplicate job")
    print(
        f"{KILLS} kills, {close} soon after a start, {len(jobs)} jobs, {stops} stopped to give way, {again} whose end "
        f"the controller forgot, {drained} nodes drained"
    )
    assert not drained
    outputs = {job: (serving.tmp_path / f"output.{job.partition('-')[0]}").read_text() for job in words}
    assert not words, f"what these jobs printed: {outputs}"
    assert stops >= KILLS // 20, "so few gave way that it says nothing"
    lines = [line.split() for line in log.read_text().splitlines()]
    assert not [line for line in lines if line[0] == "doubled"]
    assert {job.partition("-")[0] for word, job, _ in lines if word == "end"} == set(jobs)


def begins(log: Path) -> int:
    """How often a process of any job has told that it begins."""
    return log.read_text().count("start") if log.exists() else 0


def empty(box: Sandbox) -> bool:
    """Whether nothing is left in Slurm's queue."""
    return box.run("squeue", "--noheader", "--states=PD,R,CG,S") == ""


def keys(server: Server) -> set[str]:
    """Slurm's names of the jobs that have come."""
    return {row.id.partition("-")[0] for row in server.ledger.jobs()}
