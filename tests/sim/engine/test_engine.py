import math
import random

import numpy as np
import pytest

from testkit.draws import thorough
from tests.sim.cases import Case, draw_case, draw_features, plain
from tests.sim.driver import run_case
from weft.model.plan import Gate
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.glance import all_iterations_done, iterations_done
from weft.sim.engine.program import Program, compute_node, make_program, transfer_node


def engine(**more: object) -> Engine:
    """One link, one GPU."""
    return Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), n_gpus=1, **more))  # type: ignore[arg-type]


def program(compute_s: float = 1.0, size: float = 1.0) -> Program:
    """Compute, then send."""
    return make_program([compute_node(0, compute_s), transfer_node(1, size, [(0, 1)], (0,))], np.ones(1))


@pytest.mark.parametrize("skip", [False, True])
def test_go_on_reports_everybody(skip: bool) -> None:
    """With `go_on` a run passes finished jobs by and reports them all, even when its records overflow on the way."""
    e = engine(jitter=0.1, skip=skip)
    rows = [e.attach(i, program(), n) for i, n in enumerate((5, 9, 20_000))]
    assert e.run(go_on=True) == rows
    usage = [e.detach(row) for row in rows]
    assert [u.iterations for u in usage] == [5, 9, 20_000]
    assert usage[0].finish_s < usage[1].finish_s < usage[2].finish_s == e.now
    assert e.records()["count"].sum() == 20_014


def test_run_stops_where_a_job_finishes() -> None:
    """Without `go_on` the clock stands at the first finish; jobs that finish together are reported together."""
    e = engine()
    rows = [e.attach(i, program(), n) for i, n in enumerate((2, 2, 3))]
    assert e.run() == rows[:2]
    assert e.now == pytest.approx(2 * 4.0, rel=1e-12)
    for row in rows[:2]:
        e.detach(row)
    assert e.run(8.5) == []
    assert e.now == 8.5
    assert e.iterations_done(rows[2]) == 2
    assert e.run() == rows[2:]


def test_nothing_to_do() -> None:
    """An empty engine moves its clock to the bound, and stays where it is without one."""
    e = engine()
    assert e.run(5.0) == []
    assert e.now == 5.0
    assert e.run() == []
    assert e.now == 5.0


def test_looking_changes_nothing() -> None:
    """Stopping the clock at any moments, and asking for links and progress there, leaves every bit as it is."""
    for seed in range(thorough(120)):
        rng = random.Random(seed)
        skip = rng.choice(["off", "exact", "estimate"])
        case = draw_case(rng, draw_features(rng, stops="none", skip=skip), iterations=6 if skip == "off" else 30)
        usual, watched = run_case(case), run_case(case, Nosy)
        if len(usual.done) == len(case.jobs):  # nobody waits for ever: then the end is a moment of its own
            assert watched.usage == usual.usage
            assert (watched.bytes, watched.busy, watched.durations) == (usual.bytes, usual.busy, usual.durations)


class Nosy(Engine):
    """Looks in every 0.37 s, for a while."""

    def run(self, until: float = math.inf, *, go_on: bool = False) -> list[int]:
        """In small steps."""
        while self.now + 0.37 < min(until, 200.0):
            if finished := super().run(self.now + 0.37, go_on=go_on):
                return finished
            self.carried(), self.records()
            for row in self._programs:
                assert self.iterations_done(row) <= self.arrays.jobs[row]["total"]
            together = all_iterations_done(self.arrays)
            assert all(together[row] == iterations_done(self.arrays, row) for row in self._programs)
        return super().run(until, go_on=go_on)


def test_progress_is_counted_anew_when_anything_changes() -> None:
    """Many jobs are asked about, so that all are counted at once: then the clock goes on, and one comes and goes."""
    e = engine()
    rows = [e.attach(i, program(), 400) for i in range(9)]
    for until in (40.0, 80.0):
        e.run(until)
        counted = [e.iterations_done(row) for row in rows]
        assert counted == [iterations_done(e.arrays, row) for row in rows]
        assert min(counted) > 0
    extra = e.attach(9, program(), 400)
    assert e.iterations_done(extra) == 0
    assert [e.iterations_done(row) for row in rows] == counted
    e.detach(rows[0])
    again = e.attach(10, program(), 400)
    assert (again, [e.iterations_done(row) for row in (again, *rows[1:])]) == (rows[0], [0, *counted[1:]])


def test_a_job_that_comes_and_goes() -> None:
    """Started and stopped at one instant it leaves nothing behind, and its row serves the next."""
    e = engine()
    first = e.attach(0, program(), 4)
    assert e.detach(first).iterations == 0
    row = e.attach(1, program(), 4)
    assert e.run() == [row]
    assert e.detach(row).finish_s == pytest.approx(8.0, rel=1e-12)
    assert e.links()["bytes"][0] == pytest.approx(4.0, rel=1e-12)


def test_one_job_never_meets_itself() -> None:
    """Results do not depend on how jobs are numbered in memory: rows are reused in any order."""
    rng = random.Random(3)
    case = plain(
        draw_case(rng, draw_features(rng, stops="none", gate="none", chance="none", rule="none"), iterations=5)
    )
    alone = run_case(case)

    def crowded(spec: EngineSpec) -> Engine:
        made = Engine(spec)
        rows = [made.attach(50 + i, make_program(case.jobs[0].stays[0].specs, spec.capacity), 3) for i in range(70)]
        for row in reversed(rows):
            made.detach(row)
        return made

    assert run_case(Case(case.spec, case.jobs), crowded).physics() == alone.physics()


def test_gate_can_be_taken_away() -> None:
    """set_gate(None) frees the job from the next release on."""
    e = engine()
    row = e.attach(0, program(1.0, 1.0), 4, gate=Gate(0.0, 5.0))
    e.run(6.0)
    e.set_gate(row, None)
    assert e.run() == [row]
    assert e.detach(row).finish_s == pytest.approx(5.0 + 3 * 2.0, rel=1e-12)
