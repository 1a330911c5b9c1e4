"""What the simulator and the papers say, beside what real TCP does on a testbed.

Everything runs on two racks joined by one link, the bottleneck. A link of the testbed has as much more than its nominal
rate as headers take, so that both worlds move the same data in the same time when nothing is lost.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.agent.flowing import PAYLOAD
from weft.model.profile import Phase, Profile
from weft.model.topologies import Machine, leaf_spine
from weft.research.claims import Measured
from weft.testbed.build import Links, Testbed
from weft.testbed.jobs import Replay, play
from weft.testbed.plan import blueprint
from weft.testbed.trials import Slots

CAPACITY_GBPS = 50.0
SCALE = 250.0  # 50 Gbit/s are 200 Mbit/s
JOBS = 3  # at most beside each other; job k has server k of each rack
Say = Callable[[str], None]


def two_racks(links: Links | None = None) -> Testbed:
    """Two racks with as many servers as there are jobs, joined by one link."""
    nic = CAPACITY_GBPS / PAYLOAD
    cluster = leaf_spine(2, JOBS, Machine(nic_gbps=nic), oversubscription=float(JOBS), spines=1)
    return Testbed(blueprint(cluster, SCALE), links)


def row(
    what: str, unit: str, published: float | None, simulated: float | None, real: Sequence[float], least: float = -1e9
) -> dict[str, Any]:
    """A line of a table: published, simulated, and real with its interval over repetitions."""
    measured = Measured.over_seeds(list(real), least)
    return {
        "what": what, "unit": unit, "published": published, "simulated": simulated, "real": measured.value,
        "ci95": measured.ci95,
    }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """Equal jobs side by side: computing, then megabytes (of the scaled network) over the link."""

    compute_s: float
    mbytes: float
    jobs: int = 1
    shifted: bool = False
    collective: str = "ring"

    @property
    def name(self) -> str:
        """In words."""
        how = "alone" if self.jobs == 1 else f"{self.jobs} {'shifted' if self.shifted else 'together'}"
        return f"{1e3 * self.compute_s:g} ms, {self.mbytes:g} MB, {self.collective}, {how}"


CASES = (
    Case(0.3, 5), Case(0.3, 5, 2), Case(0.3, 5, 2, True), Case(0.1, 2.5), Case(0.2, 10), Case(0.2, 5, 2),
    Case(0.1, 5, 2), Case(0.4, 5, 2, True), Case(0.4, 2.5, 3), Case(0.4, 2.5, 3, True), Case(0.1, 5, 3),
    Case(0.2, 2.5, collective="parameter-server"),
)  # fmt: skip


def validate(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Median iterations by case, simulated and real, and the error of the simulator as it is and with a fitted goodput.

    The goodput is the part of a link that a job gets when it is alone: one constant, from the cases of single jobs.
    """
    cases, iterations = (CASES[:4], 8) if quick else (CASES, 16)
    with two_racks() as bed, tempfile.TemporaryDirectory(prefix="weft-validate-") as folder:
        real = []
        for case in cases:
            say(f"on the testbed: {case.name}")
            real.append(_real(bed, case, iterations, Path(folder)))
    goodput = float(
        np.median([_wire_s(c) / (r - c.compute_s) for c, r in zip(cases, real, strict=True) if c.jobs == 1])
    )
    rows = []
    for case, real_s in zip(cases, real, strict=True):
        simulated_s, fitted_s = _simulated(case), _simulated(case, goodput)
        rows.append(
            {
                "case": case.name, "simulated_s": simulated_s, "real_s": real_s, "error": simulated_s / real_s - 1,
                "fitted_s": fitted_s, "fitted_error": fitted_s / real_s - 1, "goodput": goodput,
            }
        )  # fmt: skip
    return rows


def _wire_s(case: Case) -> float:
    """Seconds on the bottleneck alone: a ring of two sends the message once each way, a server gets it and sends it."""
    return (1 if case.collective == "ring" else 2) * case.mbytes * 1e6 * SCALE / (CAPACITY_GBPS * 1e9 / 8)


def _simulated(case: Case, goodput: float = 1.0) -> float:
    from weft.scenario.jobfile import load_job_file
    from weft.sim.replay import run_replay

    period = case.compute_s + _wire_s(case) / goodput
    jobs = []
    for k in range(case.jobs):
        message = {"bytes": case.mbytes * 1e6 * SCALE, "flows": {"link": 1}}
        rounds = 1 if case.collective == "ring" else 2
        job: dict[str, Any] = {"id": str(k), "iterations": 40, "phases": [{"compute_s": case.compute_s}]}
        job["phases"] += [message] * rounds
        if case.shifted:
            epoch = case.compute_s + k * period / case.jobs
            job["gate"] = {"epoch_s": epoch, "period_s": 1.03 * period, "task": 1, "tolerance": 0.06}
        jobs.append(job)
    spec = {"links": {"link": {"gbps": CAPACITY_GBPS * goodput}}, "network": {"sharing": "max-min"}, "jobs": jobs}
    found = run_replay(load_job_file(spec).model_dump())
    return float(np.mean([job["iteration_s"]["p50"] for job in found["jobs"].values()]))


def _real(bed: Testbed, case: Case, iterations: int, folder: Path) -> float:
    profile = Profile.from_phases("case", [Phase(case.compute_s), Phase(bytes=case.mbytes * 1e6 * SCALE)], 2)
    gates: Sequence[dict[str, float] | None] = [None] * case.jobs
    if case.shifted:
        single = play(bed, [Replay("0", profile, (0, JOBS), 4)], folder)["0"]
        gates = Slots.after([single] * case.jobs, time.monotonic() + 1.0).gates
    jobs = [Replay(str(k), profile, (k, k + JOBS), iterations, case.collective, gates[k]) for k in range(case.jobs)]
    return float(np.mean([timing.median_s for timing in play(bed, jobs, folder).values()]))
