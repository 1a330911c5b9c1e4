import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from live.tests.jobs import describe, python
from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.model.plan import Candidate, Gate, State
from weft.model.view import ClusterView, JobStatus
from weft.policies.interleave.base import Interleave, Pick
from weft.testing import toy_cluster, toy_job
from weft.testing.probes import Waking, plain_planner
from weft_live.clock import Clock
from weft_live.local import LocalWorld
from weft_live.reports import opening


@given(
    st.floats(-1e4, 1e4), st.floats(1e-3, 1e3), st.floats(0, 0.5), st.floats(0, 1e5)
)  # fmt: skip
def test_a_slot_is_now_or_the_next_one(epoch: float, period: float, tolerance: float, now: float) -> None:
    """Either it starts at once, no later after an opening than the tolerance, or exactly at the next opening."""
    at = opening({"epoch": epoch, "period": period, "tolerance": tolerance}, now)
    late = (now - epoch) % period
    if at == now:
        near = 2 * math.ulp(now + period)
        assert late <= tolerance * period or period - late <= near, "or the opening is nearer than a float can tell"
    else:
        assert late > tolerance * period
        assert -1e-12 <= at - now <= period * (1 + 1e-12)
        off = (at - epoch) % period
        assert min(off, period - off) < 1e-6 * max(1.0, abs(epoch), now)


def test_a_gate_without_period_is_a_delay_once() -> None:
    gate = {"epoch": 5.0, "period": 0.0, "tolerance": 0.05}
    assert opening(gate, 3.0) == 5.0
    assert opening(gate, 6.0) == 6.0
    assert opening(None, 6.0) == 6.0


class _Later(Interleave):
    """No gate until a job runs; then one, of the given period, for the rest of its life."""

    name = "later"
    shifts = True

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s

    def initial_state(self) -> State:
        return {"epoch": {}}

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        epochs = dict(state["epoch"])
        for job in view.running.values():
            if job.status is JobStatus.RUNNING and view.iterations_done(job.id) >= 3:
                epochs.setdefault(job.id, view.now)
        here = candidates[0].plan.placements
        gates = {job: Gate(epoch, self.period_s) for job, epoch in epochs.items() if job in here}
        plan = replace(candidates[0].plan, gates=gates)
        return Pick(replace(candidates[0], plan=plan), {"epoch": epochs}, dict.fromkeys(gates, "shifted"))


def test_a_running_job_sees_a_gate(tmp_path: Path) -> None:
    """Iterations of 120 ms come whenever they like, until a gate of 150 ms is set on the running job; then every one is
    told to begin at an opening: at epoch + k x period on the machine's clock, as far from the moment of its question
    as it is told. The job ends when eight have been held, however late the gate comes."""
    period_s = 0.15
    script = """
import time, weft
held = 0
for step in range(400):
    before = time.monotonic()
    delay = weft.progress(step)
    print(step, before + delay, time.monotonic() + delay, delay > 0, flush=True)
    time.sleep(delay)
    held += delay > 0
    if held == 8:
        break
    time.sleep(0.12)
"""
    world = LocalWorld(toy_cluster(1, 1, 2), tmp_path / "run", Clock.begin())
    world.submit(toy_job("a", 1, 400, 0.12), describe("a", python(script), iterations=400))
    core = Core(Stack("gated", Waking(plain_planner(world), 0.02), _Later(period_s)), world)
    epochs: list[float] = []

    def look(now: float, core: Core) -> None:
        if "a" in core.table.gates and not epochs:
            epochs.append(world.clock.monotonic(core.table.gates["a"].epoch_s))

    run(core, world, on_progress=look)
    world.close()
    rows = [line.split() for line in (world.folder / "jobs/a/1/output").read_text().splitlines()]
    held = [(int(step), float(first), float(last)) for step, first, last, held in rows if held == "True"]
    assert len(held) == 8
    assert min(step for step, _, _ in held) >= 3, "none was held before the gate was set"
    for _, first, last in held:
        opens = epochs[0] + math.ceil((first - 1e-6 - epochs[0]) / period_s) * period_s
        assert opens <= last + 1e-6, "it is told to begin at an opening"


def test_the_gate_of_a_start_is_there_from_the_beginning(tmp_path: Path) -> None:
    """A one-off delay: the first iteration begins no earlier than the epoch, the others at once."""
    script = "import time, weft\nfor i in range(3): weft.progress(i, wait=True); print(time.monotonic(), flush=True)"

    class Delayed(_Later):
        def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
            plan = candidates[0].plan
            gates = {job: Gate(0.8) for job in plan.placements}
            return Pick(replace(candidates[0], plan=replace(plan, gates=gates)), state, dict.fromkeys(gates, "later"))

    world = LocalWorld(toy_cluster(1, 1, 2), tmp_path / "run", Clock.begin())
    world.submit(toy_job("a", 1, 3, 0.01), describe("a", python(script), iterations=3))
    run(Core(Stack("delayed", plain_planner(world), Delayed(0.0)), world), world)
    world.close()
    times = [float(line) for line in (world.folder / "jobs/a/1/output").read_text().splitlines()]
    assert len(times) == 3
    assert world.clock.monotonic(0.8) - 1e-6 <= times[0]
    spec = json.loads((world.folder / "jobs/a/1/spec.json").read_text())
    assert spec["gate"]["epoch"] == pytest.approx(world.clock.monotonic(0.8))


def test_a_fork_has_its_own_connection(tmp_path: Path) -> None:
    """A data loader that forks and reports too must not steal answers from its parent."""
    script = """
import os, weft
weft.progress(1)
if os.fork() == 0:
    weft.progress(2); os._exit(0)
os.wait()
weft.progress(3)
"""
    world = LocalWorld(toy_cluster(1, 1, 2), tmp_path / "run", Clock.begin())
    world.submit(toy_job("a", 1, 9, 0.01), describe("a", python(script), iterations=9))
    run(Core(Stack("plain", plain_planner(world)), world), world)
    world.close()
    attempt = world.attempt("a", 1)
    assert (attempt.progress().step, attempt.progress().reports) == (3, 3)
    assert os.stat(world.folder).st_mode & 0o077 == 0, "the folder is its owner's alone"
