"""kill -9 of the server at any moment: no job is lost, started twice, or left held."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest

from tests.live.slurm.serving import WITNESS, Serving, fork_server, python, serve_until
from weft.live.slurm.sandbox import Sandbox

pytestmark = pytest.mark.engine
STACK = "srsf-preemptive[place=even:best-fit]"


def test_kill_9_at_twenty_random_moments(serving: Serving, box: Sandbox) -> None:
    """Ten jobs that do not all fit, under a preemptive stack, and servers that live for 0 to 1.2 s; in the end every
    job has finished once, no two processes of a job ever ran at a time, and nothing is left in Slurm's queue."""
    log, lot = serving.tmp_path / "log", random.Random(7)
    jobs: list[str] = []
    to_come = [(lot.choice((8, 32, 64, 128)), lot.choice((10, 20, 60))) for _ in range(10)]
    for _ in range(20):
        child = fork_server(serving, STACK)
        try:
            until = time.monotonic() + lot.uniform(0.0, 1.2)
            if to_come:
                gpus, steps = to_come.pop()
                says = f"iterations={steps} iteration_s=0.05"
                jobs.append(serving.sbatch(gpus, python(serving.tmp_path, WITNESS, log, steps), says=says))
            time.sleep(max(0.0, until - time.monotonic()))
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    with serving.start(STACK) as last:
        serve_until(last, lambda: len(last.ledger.jobs()) == 10 and not last.core.table.jobs, within_s=120)
        policy, saved = last.core.snapshot(), last.ledger.core()
    assert serving.statuses() == dict.fromkeys(jobs, "finished")
    lines = [line.split() for line in log.read_text().splitlines()]
    assert not [line for line in lines if line[0] == "doubled"]
    assert Counter(job for word, job, _ in lines if word == "end") == Counter(jobs)
    starts = Counter((job, attempt) for word, job, attempt in lines if word == "start")
    assert set(starts.values()) == {1}, "no attempt was started twice"
    assert box.run("squeue", "--noheader", "--states=PD,R,CG,S") == "", "nothing is left held"
    assert saved is not None
    assert (policy["planner_state"], policy["cycle"]) == (saved["planner_state"], saved["cycle"])
