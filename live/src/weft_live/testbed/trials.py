"""Trials: jobs on a fresh testbed, each alone, then all together, then on chosen paths, shifted and paced if that was
asked for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import cast

import numpy as np

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.profile import Profile
from weft.policies.pace.base import Pace
from weft.stacks.registry import make
from weft.workload import zoo
from weft_live.agent.control import Control
from weft_live.agent.plane import steers
from weft_live.testbed.build import Links, Testbed
from weft_live.testbed.jobs import Replay, Script, Timing, foreign, overlap, play
from weft_live.testbed.plan import Blueprint, Forwarding
from weft_live.testbed.routing import choose, forwarding

Job = tuple[str, "str | Profile | tuple[str, ...]", tuple[int, ...]]  # name; model, profile or command; servers
Gates = Sequence[Mapping[str, float] | None]
_ROOM = 1.03  # a period is so much longer than an iteration alone, so that what is late can catch up
_TOLERANCE = 0.06
_FOREIGN_S = 2.0  # that the flows of others have for themselves


@dataclass(frozen=True)
class Settings:
    """How the jobs run. `outside`: shifts are kept by agents instead of in the trainer. `patience_s`: that a script has
    until it opens its log."""

    iterations: int = 20
    pace: str | None = None
    slot_s: float = 0.06
    shift: bool = False
    outside: bool = False
    jitter: float = 0.0
    foreign: Sequence[tuple[int, int]] = field(default_factory=tuple)
    patience_s: float = 60.0
    route: str | None = None

    @property
    def phases(self) -> list[str]:
        """What follows when each job has run alone."""
        routed = ["routed"] if self.route else []
        return ["together", *routed, *(["shifted"] if self.shift else []), *(["paced"] if self.pace else [])]


@dataclass(frozen=True)
class Outcome:
    """By phase (alone, together, routed, shifted, paced): what the logs of jobs say, and the bytes per second that each
    flow of others handed over (alone: without any job)."""

    phases: Mapping[str, Mapping[str, Timing]]
    foreign: Mapping[str, Sequence[float]]
    fits: bool = True  # what is shifted has room for its turns

    def jobs(self) -> dict[str, dict[str, float]]:
        """By job the median iteration of each phase, how much longer than alone that and the mean are (a job that waits
        for its next turn now and then has a longer mean), and the part of its communication that met another job's."""
        rows = {}
        for name, alone in self.phases["alone"].items():
            rows[name] = {"alone_s": alone.median_s}
            for phase, timings in list(self.phases.items())[1:]:
                others = [other for other in timings.values() if other.name != name]
                rows[name] |= {
                    f"{phase}_s": timings[name].median_s, f"{phase}_times": timings[name].median_s / alone.median_s,
                    f"{phase}_mean_times": fmean(timings[name].iterations_s) / fmean(alone.iterations_s),
                    f"{phase}_overlap": max((overlap(timings[name], other) for other in others), default=0.0),
                }  # fmt: skip
        return rows


@dataclass(frozen=True)
class Openings:
    """Gates by which jobs communicate in turn: the phase of each begins when that of the job before it is over."""

    gates: tuple[dict[str, float], ...]
    fits: bool = (
        True  # in a period hardly longer than the longest iteration; otherwise the period has room for all turns
    )

    @classmethod
    def after(cls, alone: Sequence[Timing], epoch: float) -> Openings:
        """From what the jobs look like alone."""
        talks = [float((timing.rows[1:, 2] - timing.rows[1:, 1]).mean()) for timing in alone]
        longest = _ROOM * max(timing.median_s for timing in alone)
        period = max(longest, sum(talks) / (1 - len(talks) * _TOLERANCE / 2))
        gates, at = [], epoch
        for talk in talks:
            gates.append({"epoch": at, "period": period, "tolerance": _TOLERANCE})
            at += talk + _TOLERANCE * period / 2
        return cls(tuple(gates), period == longest)


def refuse_trial(cluster: Cluster, plan: Blueprint, jobs: Sequence[Job], settings: Settings) -> None:
    """Raise, before anything is built, if a job cannot run or cannot be shifted or paced like that."""
    for job in jobs:
        made = _made(cluster, job, settings)
        if isinstance(made, Replay):
            made.tasks(plan.scale)
        elif settings.shift and not settings.outside:
            raise InputError(f"--shift: {job[0]} is a script, and scripts are shifted by agents; add --outside")
        elif settings.jitter:
            raise InputError(f"--jitter: {job[0]} is a script, whose computing is its own; leave --jitter out")
    if settings.shift and len(jobs) < 2:
        raise InputError("--shift: one job alone has nobody to make way for; give two jobs or more")
    if settings.outside and not settings.shift:
        raise InputError("--outside says how --shift is carried out; add --shift")
    if settings.route is not None:
        _table(cluster, plan, jobs, settings.route)
    if settings.pace is not None and not steers(_pace(settings.pace, settings.slot_s)):
        raise InputError(
            f"--pace {settings.pace}: senders do that by themselves, so agents have nothing to do; leave it out "
            f"(--control sets the congestion control)"
        )


def trial(cluster: Cluster, plan: Blueprint, links: Links, jobs: Sequence[Job], settings: Settings) -> Outcome:
    """All phases, one after another on the same testbed."""
    refuse_trial(cluster, plan, jobs, settings)
    patience = settings.patience_s + 20.0 * settings.iterations
    with Testbed(plan, links) as bed:
        phases: dict[str, dict[str, Timing]] = {"alone": {}}
        if settings.route:  # until then hashes choose, as they do where nobody does
            bed.forward(_table(cluster, plan, jobs, "ecmp"))
        others: dict[str, list[float]] = {}
        for job in jobs:
            phases["alone"] |= play(bed, [_made(cluster, job, settings)], bed.folder / "jobs", patience)
        if settings.foreign:
            with _foreign(bed, settings) as logs:
                time.sleep(_FOREIGN_S)
            others["alone"] = [_rate(log, 0.0, np.inf) for log in logs]
        openings = Openings(())
        for phase in settings.phases:
            free: Gates = [None] * len(jobs)
            gates = free
            if settings.route and phase == "routed":
                bed.forward(_table(cluster, plan, jobs, settings.route))
            with ExitStack() as beside:
                if phase == "shifted":
                    openings = Openings.after(list(phases["alone"].values()), time.monotonic() + 1.0)
                    gates = openings.gates
                    if settings.outside:
                        _controlled(bed, cluster, jobs, gates, "fair", settings.slot_s, beside)
                        gates = free
                elif phase == "paced":
                    _controlled(bed, cluster, jobs, free, settings.pace or "", settings.slot_s, beside)
                logs = beside.enter_context(_foreign(bed, settings))
                made = [_made(cluster, job, settings, gate) for job, gate in zip(jobs, gates, strict=True)]
                phases[phase] = play(bed, made, bed.folder / "jobs", patience)
            if logs:
                begin = max(timing.rows[0, 0] for timing in phases[phase].values())
                end = min(timing.rows[-1, 3] for timing in phases[phase].values())
                others[phase] = [_rate(log, begin, end) for log in logs]
    return Outcome(phases, others, openings.fits)


def _table(cluster: Cluster, plan: Blueprint, jobs: Sequence[Job], name: str) -> Forwarding:
    """What switches do when a route policy has been asked."""
    made = []
    for job, what, servers in jobs:
        if isinstance(what, tuple):
            raise InputError(f"--route: {job} is a script, and nobody knows what it sends where; leave --route out")
        profile = what if isinstance(what, Profile) else zoo.profile(what, len(servers), gpu=cluster.gpu)
        made.append((job, profile, servers))
    return forwarding(plan, cluster, choose(cluster, made, make("route", name)))


@contextmanager
def _foreign(bed: Testbed, settings: Settings) -> Iterator[list[Path]]:
    """The flows of others, and their logs."""
    logs = [bed.folder / f"foreign.{n}" for n in range(len(settings.foreign))]
    children = []
    for n, ((src, dst), log) in enumerate(zip(settings.foreign, logs, strict=True)):
        log.write_text("")
        children += foreign(bed, src, dst, log=log, number=n)
    try:
        yield logs
    finally:
        for child in reversed(children):  # senders first: they would complain of receivers that go
            child.kill()
            child.wait()


def _rate(log: Path, begin: float, end: float) -> float:
    """Bytes per second that a flow of others handed over in this time."""
    rows = np.array([line.split() for line in log.read_text().splitlines()], dtype=np.float64)
    if len(rows) < 2:
        return 0.0
    begin, end = max(begin, rows[0, 0]), min(end, rows[-1, 0])
    return float((np.interp(end, *rows.T) - np.interp(begin, *rows.T)) / (end - begin)) if end > begin else 0.0


def _pace(name: str, slot_s: float) -> Pace:
    return cast(Pace, make("pace", f"flow:slot={1e3 * slot_s:g}ms" if name == "flow" else name))


def _controlled(
    bed: Testbed, cluster: Cluster, jobs: Sequence[Job], gates: Gates, pace: str, slot_s: float, beside: ExitStack
) -> None:
    """Agents on all hosts, and jobs that they expect."""
    hosts = {host.name: bed.namespace(host.name) for host in bed.blueprint.hosts}
    control = beside.enter_context(
        Control(
            cluster, _pace(pace, slot_s), bed.folder / "control", hosts, bed.blueprint.scale, slot_s=slot_s,
            watch_s=min(slot_s, 0.02),
        )
    )  # fmt: skip
    control.wait()
    for (job, _, servers), gate in zip(jobs, gates, strict=True):
        gpus = [cluster.servers[server].gpus[0] for server in servers]
        control.add(job, gpus, gate)


def _made(cluster: Cluster, job: Job, settings: Settings, gate: Mapping[str, float] | None = None) -> Replay | Script:
    name, what, servers = job
    if isinstance(what, tuple):
        return Script(name, what, servers, {"ITERATIONS": str(settings.iterations)}, settings.patience_s)
    profile = what if isinstance(what, Profile) else zoo.profile(what, len(servers), gpu=cluster.gpu)
    return Replay(name, profile, servers, settings.iterations, gate=gate, jitter=settings.jitter)
