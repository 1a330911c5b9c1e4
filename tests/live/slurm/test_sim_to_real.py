"""Sixty jobs through weft serve on sixteen nodes of a real Slurm, and through weft simulate; then twenty that preempt.

What is asserted of the sixty: the same starts on the same GPUs in the same order, and completion times that differ by
what Slurm takes. Of the twenty: the same stops and starts in the same order, starts on the same GPUs, up to the end of
the last of five short jobs, and the completion times of these.
"""

from __future__ import annotations

import csv
import statistics
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import weft
from tests.live.slurm.serving import Serving, python, serve_until
from weft.live.slurm.sandbox import GPUS_PER_NODE, Sandbox
from weft.results.run import RunResult
from weft.workload.profiles.files import save_measured
from weft.workload.profiles.measured import Measured

STACK = "srsf[place=even:best-fit]"
LATENCY = 1.0  # units from a decision to the start, in the simulator too
UNIT_S = 0.8
UNITS_S = (UNIT_S, 3 * UNIT_S)  # tried one after the other, as a busy machine needs it
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
    monkeypatch.setattr("weft.live.slurm.intake._TOGETHER_S", 60.0)


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
        found, jct_s = real(serving, box, unit_s)
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
        found, jct_s = visited(serving, unit_s, len(expected))
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


def visited(serving: Serving, unit_s: float, n: int) -> tuple[list[tuple[str, str, str]], dict[str, float]]:
    """The first n stops and starts, and the visitors' completion times."""
    rows = residents_and_visitors()
    names: dict[str, str] = {}
    submitted_s: dict[str, float] = {}

    def submit(row: Row) -> None:
        says = f"model={serving.tmp_path}/m.json iterations={row.iterations}"
        if row.submit:
            script = python(serving.tmp_path, PUNCTUAL, serving.folder, (LATENCY + row.units) * unit_s - SEEN_S)
        else:
            script = python(serving.tmp_path, ENDLESS, serving.folder, LATENCY * unit_s, 0.1 * unit_s)
        names[serving.sbatch(row.gpus, script, says=says)] = row.id
        submitted_s[row.id] = time.time()

    for row in rows:
        if not row.submit:
            submit(row)
    serving.profiles = [serving.tmp_path]
    server = serving.start(PREEMPTIVE)
    serve_until(server, lambda: bool(server.core.table.running))
    zero = server.world.clock.wall_s + server.ledger.decisions()[0][1].time_s

    def later() -> None:
        for row in rows:
            if row.submit:
                time.sleep(max(0.0, zero + row.submit * unit_s - SEEN_S - time.time()))
                submit(row)

    thread = threading.Thread(target=later)
    thread.start()
    done: list[tuple[str, str, str]] = []

    def over() -> bool:
        done[:] = [(j, r.action, r.gpus) for j, r in server.ledger.decisions() if r.action in ("start", "stop")]
        ended = sum(bool(row.status) for row in server.ledger.jobs())
        return len(names) == 20 and ended == 5 and len(done) >= n

    with suppress(AssertionError):  # if it took too long, what was decided tells
        serve_until(server, over, within_s=100 * unit_s)
    thread.join()
    ended_s = {names[row.id]: server.world.clock.wall_s + row.end_s for row in server.ledger.jobs() if row.end_s}
    found = [(names[job], action, gpus) for job, action, gpus in done[:n]]
    return found, {job: ended_s[job] - submitted_s[job] for job in ended_s}


def real(serving: Serving, box: Sandbox, unit_s: float) -> tuple[list[tuple[str, str]], dict[str, float]]:
    """Starts in order, and completion times, by the names of the trace."""
    scripts = {
        row.id: python(serving.tmp_path, PUNCTUAL, serving.folder, (LATENCY + row.units) * unit_s - SEEN_S)
        for row in trace()
    }
    numbers: dict[str, str] = {}
    submitted_s: dict[str, float] = {}

    def submit(row: Row) -> None:
        says = f"model={serving.tmp_path}/m.json iterations={row.iterations}"
        number = serving.sbatch(row.gpus, scripts[row.id], says=says)
        numbers[number], submitted_s[row.id] = row.id, time.time()

    for row in trace():
        if not row.submit:
            submit(row)
    serving.profiles = [serving.tmp_path]
    server = serving.start(STACK)
    serve_until(server, lambda: bool(server.core.table.running))
    zero = server.world.clock.wall_s + server.ledger.decisions()[0][1].time_s  # when it saw them
    submitted_s |= dict.fromkeys(submitted_s, zero)

    def later() -> None:
        for row in trace():
            if row.submit:
                time.sleep(max(0.0, zero + row.submit * unit_s - SEEN_S - time.time()))
                submit(row)

    thread = threading.Thread(target=later)
    thread.start()
    with suppress(AssertionError):
        serve_until(
            server, lambda: len(numbers) == 60 and len(server.ledger.jobs()) == 60 and not server.core.table.jobs,
            within_s=200 * unit_s,
        )  # fmt: skip
    thread.join()
    found = [(numbers[job], row.gpus) for job, row in server.ledger.decisions() if row.action == "start"]
    ended_s = {numbers[row.id]: server.world.clock.wall_s + (row.end_s or 0.0) for row in server.ledger.jobs()}
    return found, {job: ended_s[job] - submitted_s[job] for job in ended_s}
