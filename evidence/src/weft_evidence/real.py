"""What the simulator and the papers say, beside what real TCP does on a testbed.

Everything runs on two racks joined by one link, the bottleneck. A link of the testbed is faster than its nominal rate
by as much as headers take, so that both worlds move the same data in the same time when nothing is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from weft.model.plan import Gate
from weft.model.profile import Phase, Profile
from weft.network.topologies import Machine, leaf_spine
from weft.policies.pace.base import Pace
from weft.stacks.registry import make
from weft_evidence.claims import Measured
from weft_live.agent.flowing import PAYLOAD
from weft_live.testbed.build import Links, Testbed
from weft_live.testbed.jobs import Replay, play
from weft_live.testbed.plan import blueprint
from weft_live.testbed.stillness import Undisturbed
from weft_live.testbed.trials import Openings

CAPACITY_GBPS = 50.0
SCALE = 250.0  # 50 Gbit/s are 200 Mbit/s
JOBS = 3  # at most beside each other; job k has server k of each rack
Say = Callable[[str], None]
_ITERATIONS = 20  # simulated in each case


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


def judged(rows: list[dict[str, Any]], still: Undisturbed) -> list[dict[str, Any]]:
    """The rows; where a run that they come from stayed disturbed, with the reason instead of the numbers."""
    why = still.judged()
    return [{**row, "real": None, "ci95": (None, None), "disturbed": why} for row in rows] if why else rows


@dataclass(frozen=True)
class Case:
    """Equal jobs side by side: computing, then megabytes (of the scaled network) over the link, whose port has so many
    kilobytes of buffer."""

    compute_s: float
    mbytes: float
    jobs: int = 1
    shifted: bool = False
    collective: str = "ring"
    buffer_kb: int = 256

    @property
    def name(self) -> str:
        """In words."""
        how = "alone" if self.jobs == 1 else f"{self.jobs} {'shifted' if self.shifted else 'together'}"
        shallow = f", buffer {self.buffer_kb} kB" if self.buffer_kb != 256 else ""
        return f"{1e3 * self.compute_s:g} ms, {self.mbytes:g} MB, {self.collective}, {how}{shallow}"

    @property
    def profile(self) -> Profile:
        """At the scale of the testbed."""
        return Profile.from_phases("case", [Phase(self.compute_s), Phase(0.0, 1e6 * self.mbytes, self.collective)], 2)


CASES = (
    Case(0.3, 5), Case(0.3, 5, 2), Case(0.3, 5, 2, True), Case(0.01, 10, 2), Case(0.01, 10, 2, buffer_kb=44),
    Case(0.01, 10, 3, buffer_kb=44), Case(0.3, 5, 2, buffer_kb=44), Case(0.2, 10), Case(0.2, 5, 2), Case(0.1, 5, 2),
    Case(0.4, 5, 2, True), Case(0.4, 2.5, 3), Case(0.4, 2.5, 3, True), Case(0.1, 5, 3),
    Case(0.2, 2.5, collective="parameter-server"),
)  # fmt: skip
_QUICK = 6
_GOODPUTS = tuple(round(0.86 + 0.02 * k, 2) for k in range(8))
HOWS = ("max-min", "and noise", "fluid TCP", "fitted")


@dataclass(frozen=True)
class Fit:
    """What was fitted to real runs, by the buffer of a port: the part of a link that CUBIC's flows fill with data that
    counts; and the standard deviation of computing on this machine, relative."""

    goodput: dict[int, float]
    noise: float

    def pace(self, case: Case) -> str:
        """The fluid model with these constants."""
        return f"tcp:cubic,buffer={case.buffer_kb}kB,goodput={100 * self.goodput[case.buffer_kb]:g}%"


def validate(quick: bool, say: Say) -> tuple[list[dict[str, Any]], Fit]:
    """By case the median iteration, real and simulated: max-min sharing without and with the noise of this machine, and
    the fluid TCP with it, as it is and with a goodput that is fitted to the other cases."""
    cases, iterations = (CASES[:_QUICK], 8) if quick else (CASES, 20)
    real, noise, still = [], [], Undisturbed(say)
    for case in cases:
        say(f"on the testbed: {case.name}")
        with two_racks(Links(queue_bytes=1000 * case.buffer_kb)) as bed:
            median_s, spread = still.run(partial(_real, bed, case, iterations))
        real.append(median_s)
        noise += [spread] if case.jobs == 1 else []
    return compared(cases, real, float(np.median(noise)), say)


def compared(cases: Sequence[Case], real: Sequence[float], noise: float, say: Say) -> tuple[list[dict[str, Any]], Fit]:
    """The errors of the simulator. That of a fitted goodput is out of the sample: it was fitted to the rings with the
    same buffer other than the case itself (a parameter server is no ring, so all of them are others)."""
    errors = []  # by case, then by goodput
    for case, seconds in zip(cases, real, strict=True):
        say(f"fitting the fluid model: {case.name}")
        paces = {good: Fit({case.buffer_kb: good}, 0.0).pace(case) for good in _GOODPUTS}
        errors.append({good: _fluid(case, pace, noise) / seconds - 1 for good, pace in paces.items()})
    rings = {
        buffer: [n for n, case in enumerate(cases) if (case.buffer_kb, case.collective) == (buffer, "ring")]
        for buffer in sorted({case.buffer_kb for case in cases})
    }
    rows = []
    for n, (case, seconds) in enumerate(zip(cases, real, strict=True)):
        others = [errors[k] for k in rings[case.buffer_kb] if k != n]
        plain = f"tcp:cubic,buffer={case.buffer_kb}kB"
        found = {
            "max-min": _fluid(case, "fair"), "and noise": _fluid(case, "fair", noise),
            "fluid TCP": _fluid(case, plain, noise),
        }  # fmt: skip
        told = {f"{how} error": x / seconds - 1 for how, x in found.items()}
        rows.append({"case": case.name, "real_s": seconds, **told, "fitted error": errors[n][_best(others)]})
    return rows, Fit({buffer: _best([errors[n] for n in which]) for buffer, which in rings.items()}, noise)


def _best(errors: Sequence[dict[float, float]]) -> float:
    """The goodput with the smallest mean error."""
    return min(_GOODPUTS, key=lambda good: sum(abs(each[good]) for each in errors))


def _fluid(case: Case, pace: str, noise: float = 0.0) -> float:
    """The median iteration in the simulator, on the testbed's own rates."""
    from weft.sim.engine import Engine, EngineSpec
    from weft.sim.lower import Lowering
    from weft.sim.spec import NetworkSpec

    cluster = leaf_spine(2, JOBS, Machine(nic_gbps=CAPACITY_GBPS / SCALE), oversubscription=float(JOBS), spines=1)
    chosen = cast(Pace, make("pace", pace))
    lowering = Lowering(cluster, NetworkSpec(), transport=chosen.transport())
    spec = EngineSpec(lowering.capacity, lowering.ports, rule=chosen.rates, jitter=noise, skip=False, seed=1)
    engine = Engine(spec)
    rounds = 1 if case.collective == "ring" else 2
    period = case.compute_s + rounds * case.mbytes * 1e6 / (CAPACITY_GBPS / SCALE * 1e9 / 8)
    for k in range(case.jobs):
        gpus = tuple(cluster.servers[server].gpus[0] for server in (k, k + JOBS))
        gate = Gate(case.compute_s + k * period / case.jobs, 1.03 * period, 1, 0.06) if case.shifted else None
        engine.attach(k, lowering.program(case.profile, gpus, "case", k), _ITERATIONS, gate=gate)
    engine.run(go_on=True)
    records = engine.records()
    medians = []
    for k in range(case.jobs):
        mine = records[records["uid"] == k]
        medians.append(float(np.median(np.repeat(mine["duration"], np.maximum(1, mine["count"].astype(np.int64))))))
    return float(np.mean(medians))


def _real(bed: Testbed, case: Case, iterations: int) -> tuple[float, float]:
    """The median iteration, and how much iterations differ, relative."""
    profile = Profile.from_phases("case", [Phase(case.compute_s), Phase(bytes=case.mbytes * 1e6 * SCALE)], 2)
    gates: Sequence[dict[str, float] | None] = [None] * case.jobs
    if case.shifted:
        single = play(bed, [Replay("0", profile, (0, JOBS), 4)], bed.folder)["0"]
        gates = Openings.after([single] * case.jobs, time.monotonic() + 1.0).gates
    jobs = [Replay(str(k), profile, (k, k + JOBS), iterations, case.collective, gates[k]) for k in range(case.jobs)]
    timings = play(bed, jobs, bed.folder).values()
    spread = np.mean([np.std(timing.rows[1:, 4] - timing.rows[1:, 0]) / case.compute_s for timing in timings])
    return float(np.mean([timing.median_s for timing in timings])), float(spread)
