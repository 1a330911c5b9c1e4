"""CASSINI on real TCP: Figure 2, Table 2's snapshots, adjustments (Figure 17) and marks (Figure 19), scaled down."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from weft.model.profile import Phase, Profile
from weft_evidence.cassini.snapshots import FIGURE_2, SNAPSHOTS, Snapshot, gates_of, played
from weft_evidence.real import JOBS, Say, judged, row, two_racks
from weft_live.testbed.build import Links, Testbed, controls, no_dctcp
from weft_live.testbed.jobs import Replay, Timing, overlap, play
from weft_live.testbed.packets import Marks
from weft_live.testbed.stillness import Undisturbed

_JITTER = 0.01  # relative spread of computing, as in the simulated Figure 17
_LONGER = (0.0, 0.01, 0.02)  # periods of the gates of Figure 17: as the profiles say, and with some room as controls
_MARK_BYTES = 20_000  # a queue longer than this marks packets: 0.8 ms of the link


def table(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Published, simulated and real, with intervals over repetitions."""
    return repeated(*(2, 20) if quick else (5, 60), say)


def repeated(repetitions: int, iterations: int, say: Say) -> list[dict[str, Any]]:
    """The table from so many repetitions of so many iterations."""
    chosen = {"figure 2": FIGURE_2, **{f"snapshot {n}": SNAPSHOTS[n] for n in (1, 2, 3, 5)}}
    rows: list[dict[str, Any]] = []
    still = Undisturbed(say)
    with two_racks() as bed:
        for name, snapshot in chosen.items():
            made: list[dict[str, Any]] = []
            measured: dict[tuple[str, bool], list[float]] = {}
            met: dict[str, list[float]] = {}
            for n in range(repetitions):
                say(f"on the testbed: {name}, repetition {n + 1} of {repetitions}")
                for shifted in (False, True):
                    found = still.run(partial(_played, bed, snapshot, shifted, iterations))
                    if not shifted:
                        for which, part in _quarters(iterations).items():
                            met.setdefault(which, []).append(_met(list(found.values()), part))
                    for who, timing in found.items():
                        ms = 1e3 * float((timing.rows[2:, 2] - timing.rows[2:, 1]).mean())
                        measured.setdefault((who, shifted), []).append(ms)
            for job in snapshot.jobs:
                for shifted, published in ((False, job.themis_ms), (True, job.cassini_ms)):
                    what = f"{name}: {job.name}, {'shifted' if shifted else 'together'}, communication"
                    simulated = played(snapshot, shifted)["jobs"][job.name]["comm_ms"]
                    made.append(row(what, "ms", published or None, simulated, measured[job.name, shifted], 0.0))
            for which, shares in met.items():
                what = f"{name}: together, communication beside another job's, {which}"
                made.append(row(what, "%", None, None, shares, 0.0))
            rows += judged(made, still)
        for longer in _LONGER:
            rows += judged([_adjustments(bed, longer, repetitions, iterations, still)], still)
    return rows + marks(repetitions, iterations, say)


def _quarters(iterations: int) -> dict[str, slice]:
    """The first iterations after those that nobody counts, and the last ones."""
    part = max(1, (iterations - 2) // 4)
    return {"first quarter": slice(2, 2 + part), "last quarter": slice(iterations - part, iterations)}


def _met(jobs: Sequence[Timing], part: slice) -> float:
    """The percentage of these iterations' communication during which another job communicated, mean over jobs. Jobs
    that start together and move apart have less of it later."""
    shares = [max(overlap(job, other, part) for other in jobs if other is not job) for job in jobs]
    return 100.0 * float(np.mean(shares))


def _adjustments(bed: Testbed, longer: float, repetitions: int, iterations: int, still: Undisturbed) -> dict[str, Any]:
    """Figure 17: how often a shifted job comes so late that it has to wait for another opening, if the period of the
    gates is longer than the profiles say by this fraction."""
    per_minute = []
    for n in range(repetitions):
        still.say(f"on the testbed: figure 17, period {longer:.0%} longer, repetition {n + 1} of {repetitions}")
        found, gates = still.run(lambda: _with_longer_periods(bed, longer, iterations))
        counts = []
        for job, gate in zip(SNAPSHOTS[1].jobs, gates, strict=True):
            assert gate is not None
            ready, rows = found[job.name].rows[2:, 4], found[job.name].rows
            late = (ready - gate["epoch"]) % gate["period"] / gate["period"]
            minutes = (rows[-1, 3] - rows[2, 0]) / 60.0
            counts.append(float(((late > gate["tolerance"]) & (late < 0.5)).sum() / minutes))
        per_minute.append(float(np.mean(counts)))
    what = "figure 17: adjustments of a job, 1 % jitter"
    if longer:
        return row(f"{what}, period {longer:.0%} longer", "a minute", None, None, per_minute, 0.0)
    jobs = played(SNAPSHOTS[1], True, jitter=_JITTER)["jobs"].values()
    simulated = float(np.mean([job["adjusted_per_min"] for job in jobs]))
    return row(what, "a minute", 2.0, simulated, per_minute, 0.0)


def _with_longer_periods(
    bed: Testbed, longer: float, iterations: int
) -> tuple[dict[str, Timing], list[dict[str, float] | None]]:
    """Logs of the jobs of snapshot 1, and their gates."""
    gates = _gates(SNAPSHOTS[1], _JITTER)
    for gate in gates:
        if gate is not None:
            gate["period"] *= 1.0 + longer
    return _played(bed, SNAPSHOTS[1], True, iterations, _JITTER, gates), gates


def marks(repetitions: int, iterations: int, say: Say) -> list[dict[str, Any]]:
    """Figure 19: packets that are marked, in as many repetitions of as many iterations."""
    control, name = _dctcp(say)
    found: dict[bool, list[float]] = {False: [], True: []}
    still = Undisturbed(say)
    for n in range(repetitions):
        for shifted in (False, True):
            say(f"on the testbed: figure 19, repetition {n + 1} of {repetitions}")
            found[shifted].append(still.run(partial(_marks, control, shifted, iterations)))
    made = [
        row(
            f"figure 19: marked in an iteration, {name}, {'shifted' if shifted else 'together'}", "packets", None,
            None, values, 0.0,
        )
        for shifted, values in found.items()
    ]  # fmt: skip
    return judged(made, still)


def _marks(control: str, shifted: bool, iterations: int) -> float:
    """Marked packets in an iteration of snapshot 1."""
    with two_racks(Links(control=control, marks=Marks(_MARK_BYTES))) as bed:
        _played(bed, SNAPSHOTS[1], shifted, iterations)
        return sum(_marked(bed, host.name) for host in bed.blueprint.hosts) / iterations


def _dctcp(say: Say) -> tuple[str, str]:
    """The congestion control of Figure 19, and what rows call it. Where DCTCP cannot be had it is Reno, which takes a
    mark for a loss."""
    if refused := no_dctcp():
        say(f"{refused}; figure 19 is run with reno, which halves its window for a mark")
        return "reno", "Reno + ECN for DCTCP"
    return "dctcp", "DCTCP of the kernel" if "dctcp" in controls() else "DCTCP of weft"


def _marked(bed: Testbed, host: str) -> int:
    """Packets that came marked to a host."""
    counters = bed.start(host, ["cat", "/proc/net/netstat"], output=subprocess.PIPE, text=True)
    names, values = (line.split() for line in counters.communicate()[0].splitlines() if line.startswith("IpExt"))
    return int(values[names.index("InCEPkts")])


def _gates(snapshot: Snapshot, jitter: float = 0.0) -> list[dict[str, float] | None]:
    """By job, from a moment on that all can meet."""
    found, begin = gates_of(snapshot, jitter), time.monotonic() + 1.0
    return [
        {"epoch": begin + gate.epoch_s, "period": gate.period_s, "tolerance": gate.tolerance} if gate else None
        for gate in (found.get(job.name) for job in snapshot.jobs)
    ]


def _played(
    bed: Testbed, snapshot: Snapshot, shifted: bool, iterations: int, jitter: float = 0.0,
    gates: Sequence[dict[str, float] | None] = (),
) -> dict[str, Timing]:  # fmt: skip
    """The logs of the jobs of a snapshot."""
    gates = gates or (_gates(snapshot) if shifted else [None] * len(snapshot.jobs))
    jobs = []
    for k, job in enumerate(snapshot.jobs):
        rate = job.gbps * 1e9 / 8
        phases = [Phase(job.compute_ms / 1e3), Phase(bytes=job.comm_ms / 1e3 * rate, demand_bytes_per_s=rate)]
        profile = Profile.from_phases(job.name, phases, 2)
        jobs.append(Replay(job.name, profile, (k, k + JOBS), iterations, gate=gates[k], jitter=jitter))
    return play(bed, jobs, bed.folder)
