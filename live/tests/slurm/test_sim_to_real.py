"""Sixty jobs through weft serve on sixteen nodes of a real Slurm, and through weft simulate; then twenty that preempt.

What is asserted of the sixty: the same starts on the same GPUs in the same order, and completion times that differ by
what Slurm takes. Of the twenty: the same stops and starts in the same order, starts on the same GPUs, up to the end of
the last of five short jobs, and the completion times of these.
"""

import csv
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import weft
from live.tests.slurm.serving import Serving, python, serve_until
from testkit.sandbox import GPUS_PER_NODE, Sandbox
from weft.results.run import RunResult
from weft.workload.profiles.files import save_measured
from weft.workload.profiles.measured import Measured
from weft_live.server.ledger import DecisionRow

STACK = "srsf[place=even:best-fit]"
LATENCY = 1.0  # units from a decision to the start, in the simulator too
UNIT_S = 0.8
UNITS_S = (UNIT_S, 2 * UNIT_S, 3 * UNIT_S)  # tried one after the other, as a busy machine needs it
SEEN_S = 0.3  # what it takes Slurm and weft to notice an arrival or an end

# Ends so many seconds after its start was decided, however long it took to come up: a machine that is busy for a
# moment then delays one job, not all that come after it.
PUNCTUAL = """
import os, sys, time
gate = f"{sys.argv[1]}/jobs/{os.environ['WEFT_JOB']}/{os.environ['WEFT_ATTEMPT']}/gate"
time.sleep(max(0.0, os.stat(gate).st_mtime + float(sys.argv[2]) - time.time()))
"""


# Goes on until it is stopped, and says how far it is by the clock that the simulator has: from the decision on.
ENDLESS = """
import os, sys, time, weft
gate = f"{sys.argv[1]}/jobs/{os.environ['WEFT_JOB']}/{os.environ['WEFT_ATTEMPT']}/gate"
begin, tenth_s, first = os.stat(gate).st_mtime + float(sys.argv[2]), float(sys.argv[3]), weft.resume_step()
while True:
    weft.progress(first + max(0, int((time.time() - begin) / tenth_s)))
    time.sleep(3 * tenth_s)
"""


class Row(NamedTuple):
    """A job of the trace; times in units."""

    id: str
    submit: float
    gpus: int
    units: float

    @property
    def iterations(self) -> int:
        """Of a tenth of a unit."""
        return round(10 * self.units)


def trace() -> list[Row]:
    """Two thirds of the jobs are there at the beginning; no two later arrivals or ends come close together."""
    with open(Path(__file__).parent / "sixty.csv", encoding="ascii") as file:
        return [Row(r["job"], float(r["submit"]), int(r["gpus"]), float(r["units"])) for r in csv.DictReader(file)]


PREEMPTIVE = "srsf-preemptive[place=even:best-fit]"


def residents_and_visitors() -> list[Row]:
    """Fifteen jobs of two nodes, of which eight fit, each longer than the one before by more than the visits take. Then
    five short ones, each wanting two to eight nodes that are taken: the longest that run give way, and come back when
    the visitor has left, before the next one comes."""
    residents = [Row(f"r{i:02}", 0.0, 16, 40.0 + 6 * i) for i in range(15)]
    visitors = [Row(f"v{i}", 2.0 + 4 * i, gpus, 1.0) for i, gpus in enumerate((64, 16, 32, 8, 64))]
    return residents + visitors


def simulated(folder: Path, topology: Path, unit_s: float, rows: Sequence[Row] = (), stack: str = STACK) -> RunResult:
    """`weft simulate` on Slurm's own topology.conf; an iteration is a tenth of a unit."""
    tenth = Measured("V100", "fp32", 1, 0.05 * unit_s, 0.05 * unit_s, 0.0, (), 0, 0.0)
    save_measured("tenth", [tenth], folder / "m.json")
    jobs = [
        {"id": r.id, "model": "m.json", "gpus": r.gpus, "iterations": r.iterations, "submit_s": r.submit * unit_s}
        for r in rows or trace()
    ]
    scenario: dict[str, Any] = {
        "cluster": {"topology": "file", "file": str(topology), "gpus_per_server": GPUS_PER_NODE},
        "workload": {"source": "jobs", "job": jobs},
        "stack": {"name": stack},
        "run": {"start_latency_s": LATENCY * unit_s},
    }
    text = _toml(scenario)
    (folder / "sixty.toml").write_text(text)
    return weft.simulate(folder / "sixty.toml")


def _toml(scenario: dict[str, Any]) -> str:
    lines = []
    for section, fields in scenario.items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_value(value)}" for key, value in fields.items() if key != "job"]
        for job in fields.get("job", ()):
            lines += [f"[[{section}.job]]", *(f"{key} = {_value(value)}" for key, value in job.items())]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def starts(run: RunResult) -> list[tuple[str, str]]:
    """Every start in order, with its GPUs."""
    found = run.decisions.filter(pl.col("action") == "start")
    return list(zip(found["job_id"].to_list(), found["gpus"].to_list(), strict=True))


@pytest.fixture(autouse=True)
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that are there at the beginning are taken together, also where reading their models takes a while."""
    monkeypatch.setattr("weft_live.slurm.intake._TOGETHER_S", 60.0)


def test_the_trace_proves_something(tmp_path: Path) -> None:
    """Jobs wait, and are passed; and nothing that might change places is closer than half a unit."""
    topology = tmp_path / "topology.conf"
    leaves = [f"SwitchName=leaf{i + 1} Nodes=n[{4 * i + 1}-{4 * i + 4}]\n" for i in range(4)]
    topology.write_text("".join(leaves) + "SwitchName=spine Switches=leaf[1-4]\n")
    run = simulated(tmp_path, topology, 1.0)
    order = [job for job, _ in starts(run)]
    assert len(order) == 60
    assert order != sorted(order)
    assert (run.jobs["queueing_s"] > 1.5).sum() >= 10
    times = sorted({*run.jobs["finish_s"].to_list(), *(r.submit for r in trace() if r.submit)})
    assert min(b - a for a, b in pairwise(times)) > 0.45
    ends = sorted(run.jobs["finish_s"].to_list())
    assert min(b - a for a, b in pairwise(ends)) > 0.9


@pytest.mark.alone
@pytest.mark.engine
def test_decisions_match_one_for_one(
    serving: Serving, box: Sandbox, tmp_path: Path, record_property: pytest.FixtureRequest
) -> None:
    """The same starts on the same GPUs in the same order, and completion times that differ by what Slurm takes; a
    machine that was too busy for that is given other chances at lower speeds."""
    for unit_s in UNITS_S:
        run = simulated(tmp_path, box.conf.parent / "topology.conf", unit_s)
        found, jct_s = real(serving, unit_s, starts(run))
        if found == starts(run):
            break
        serving.close()
        box.clear()
        serving.folder = tmp_path / f"again{unit_s}"
    assert found == starts(run)
    expected = dict(zip(run.jobs["job_id"].to_list(), run.jobs["jct_s"].to_list(), strict=True))
    off = [jct_s[job] - expected[job] for job in expected]
    told = f"mean {statistics.mean(off):+.2f} s, largest {max(off, key=abs):+.2f} s"
    record_property("summary", f"60 jobs on Slurm against the simulator: same decisions, JCT {told}")  # type: ignore[operator]
    assert abs(statistics.mean(off)) < unit_s / UNIT_S
    assert max(map(abs, off)) < 3.0 * unit_s / UNIT_S


@pytest.mark.alone
@pytest.mark.engine
def test_preemptions_match_one_for_one(
    serving: Serving, box: Sandbox, tmp_path: Path, record_property: pytest.FixtureRequest
) -> None:
    """Stops and starts, as the module says; a machine that was too busy is given other chances at lower speeds."""
    for unit_s in UNITS_S:
        run = simulated(tmp_path, box.conf.parent / "topology.conf", unit_s, residents_and_visitors(), PREEMPTIVE)
        visits = run.jobs.filter(pl.col("job_id").str.starts_with("v"))
        until_s = visits["finish_s"].max()
        expected = [
            (row["job_id"], row["action"], row["gpus"] if row["action"] == "start" else "")
            for row in run.decisions.filter(pl.col("time_s") <= until_s).iter_rows(named=True)
            if row["action"] in ("start", "stop")
        ]
        found, jct_s = visited(serving, unit_s, expected)
        if found == expected:
            break
        serving.close()
        box.clear()
        serving.folder = tmp_path / f"again{unit_s}"
    assert sum(action == "stop" for _, action, _ in expected) == 12
    assert found == expected
    off = [jct_s[job] - jct for job, jct in zip(visits["job_id"], visits["jct_s"], strict=True)]
    told = f"mean {statistics.mean(off):+.2f} s, largest {max(off, key=abs):+.2f} s"
    record_property("summary", f"12 preemptions on Slurm against the simulator: same decisions, JCT {told}")  # type: ignore[operator]
    assert max(map(abs, off)) < 3.0 * unit_s / UNIT_S


def visited(
    serving: Serving, unit_s: float, expected: list[tuple[str, str, str]]
) -> tuple[list[tuple[str, str, str]], dict[str, float]]:
    """Stops and starts, as many as are expected or up to the first that is another; and visitors' completion times."""
    trial = Trial(serving, unit_s)
    for row in residents_and_visitors():
        if row.submit:
            argv = python(serving.tmp_path, PUNCTUAL, serving.folder, (LATENCY + row.units) * unit_s - SEEN_S)
        else:
            argv = python(serving.tmp_path, ENDLESS, serving.folder, LATENCY * unit_s, 0.1 * unit_s)
        trial.scripts[row] = argv

    def done() -> list[tuple[str, str, str]]:
        return [(job, row.action, row.gpus) for job, row in trial.decided("start", "stop")][: len(expected)]

    def over() -> bool:
        found, ended = done(), sum(bool(row.status) for row in trial.server.ledger.jobs())
        return (len(trial.names) == 20 and ended == 5 and len(found) == len(expected)) or diverged(found, expected)

    trial.run(PREEMPTIVE, over, within_s=100 * unit_s)
    return done(), trial.jct_s()


def real(
    serving: Serving, unit_s: float, expected: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """Starts in order, up to the first that is not as expected, and completion times, by the names of the trace."""
    trial = Trial(serving, unit_s)
    for row in trace():
        argv = python(serving.tmp_path, PUNCTUAL, serving.folder, (LATENCY + row.units) * unit_s - SEEN_S)
        trial.scripts[row] = argv

    def done() -> list[tuple[str, str]]:
        return [(job, row.gpus) for job, row in trial.decided("start")]

    def over() -> bool:
        ledger, table = trial.server.ledger, trial.server.core.table
        ended = len(trial.names) == 60 and not table.jobs and len(ledger.jobs()) == 60
        return ended or diverged(done(), expected)

    trial.run(STACK, over, within_s=200 * unit_s)
    return done(), trial.jct_s()


def diverged(found: Sequence[object], expected: Sequence[object]) -> bool:
    """Whether what has happened so far is not how it should begin: the rest cannot mend that."""
    return found != expected[: len(found)]


class Trial:
    """Jobs of a trace through a server: those of the beginning before it, the others when they are due."""

    def __init__(self, serving: Serving, unit_s: float) -> None:
        self.serving, self.unit_s = serving, unit_s
        self.scripts: dict[Row, tuple[str, ...]] = {}
        self.names: dict[str, str] = {}  # of the trace, by Slurm's
        self.server: Any = None
        self._submitted_s: dict[str, float] = {}

    def run(self, stack: str, over: Callable[[], bool], within_s: float) -> None:
        """Serve until it is over, or has taken too long: what was decided tells."""
        for row in self.scripts:
            if not row.submit:
                self._submit(row)
        self.serving.profiles = [self.serving.tmp_path]
        self.server = server = self.serving.start(stack)
        serve_until(server, lambda: bool(server.core.table.running))
        zero = server.world.clock.wall_s + server.ledger.decisions()[0][1].time_s  # when it saw them
        self._submitted_s |= dict.fromkeys(self._submitted_s, zero)
        enough = threading.Event()

        def later() -> None:
            for row in self.scripts:
                if row.submit:
                    if enough.wait(max(0.0, zero + row.submit * self.unit_s - SEEN_S - time.time())):
                        return
                    self._submit(row)

        thread = threading.Thread(target=later)
        thread.start()
        try:
            with suppress(AssertionError):
                serve_until(server, over, within_s)
        finally:
            enough.set()
            thread.join()

    def decided(self, *actions: str) -> list[tuple[str, DecisionRow]]:
        """What was decided, up to a job whose sbatch has not returned yet."""
        made = [(job, row) for job, row in self.server.ledger.decisions() if row.action in actions]
        return [(self.names[job], row) for job, row in takewhile(lambda one: one[0] in self.names, made)]

    def jct_s(self) -> dict[str, float]:
        """Completion times of jobs that have ended."""
        began_s = self.server.world.clock.wall_s
        ended_s = {self.names[row.id]: began_s + row.end_s for row in self.server.ledger.jobs() if row.end_s}
        return {job: ended_s[job] - self._submitted_s[job] for job in ended_s}

    def _submit(self, row: Row) -> None:
        says = f"model={self.serving.tmp_path}/m.json iterations={row.iterations}"
        number = self.serving.sbatch(row.gpus, self.scripts[row], says=says)
        self.names[number], self._submitted_s[row.id] = row.id, time.time()
