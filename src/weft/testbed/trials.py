"""Trials: jobs on a fresh testbed, each alone and then all together, shifted or paced if asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from weft.agent.control import Control
from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.profile import Profile
from weft.registry import make
from weft.testbed.build import Links, Testbed
from weft.testbed.jobs import Replay, Script, Timing, foreign, overlap, play
from weft.testbed.plan import Blueprint
from weft.workload import zoo

Job = tuple[str, "str | Profile | tuple[str, ...]", tuple[int, ...]]  # name; model, profile or command; servers
_ROOM = 1.03  # a period is so much longer than an iteration alone, so that what is late can catch up
_TOLERANCE = 0.06


@dataclass(frozen=True)
class Settings:
    """How the jobs run together. `outside`: shifts are kept by agents instead of in the trainer."""

    iterations: int = 20
    pace: str | None = None
    slot_s: float = 0.06
    shift: bool = False
    outside: bool = False
    jitter: float = 0.0
    foreign: Sequence[tuple[int, int]] = field(default_factory=tuple)


@dataclass(frozen=True)
class Openings:
    """Gates that let jobs take turns: the phase of each begins when that of the one before it is over."""

    gates: tuple[dict[str, float], ...]

    @classmethod
    def after(cls, alone: Sequence[Timing], epoch: float) -> Openings:
        """From what the jobs look like alone."""
        period = _ROOM * max(timing.median_s for timing in alone)
        gates, at = [], epoch
        for timing in alone:
            gates.append({"epoch": at, "period": period, "tolerance": _TOLERANCE})
            talks = timing.rows[1:, 2] - timing.rows[1:, 1]
            at += float(talks.mean()) + _TOLERANCE * period / 2
        return cls(tuple(gates))


def trial(
    cluster: Cluster, plan: Blueprint, links: Links, jobs: Sequence[Job], settings: Settings, folder: Path
) -> tuple[dict[str, dict[str, float]], dict[str, Timing]]:
    """By job: its median iteration alone and together, the ratio, and how much of its communication met another's;
    and what the logs of the jobs together say."""
    with Testbed(plan, links) as bed:
        alone = [
            play(bed, [_made(cluster, job, settings)], folder / "alone", _patience(settings))[job[0]] for job in jobs
        ]
        with ExitStack() as beside:
            for n, (src, dst) in enumerate(settings.foreign):
                log = folder / f"foreign.{n}"
                for child in foreign(bed, src, dst, log=log):
                    beside.callback(child.kill)
            gates: Sequence[dict[str, float] | None] = [None] * len(jobs)
            scripts = any(isinstance(what, tuple) for _, what, _ in jobs)
            if settings.shift:
                gates = Openings.after(alone, time.monotonic() + 1.0).gates
            if settings.pace or settings.outside:
                _controlled(bed, cluster, jobs, gates, settings, folder, beside)
            if scripts and settings.shift and not settings.outside:
                raise InputError("testbed: scripts are shifted by agents; add --outside")
            inside = [None] * len(jobs) if settings.outside else gates
            together = play(
                bed,
                [_made(cluster, job, settings, gate) for job, gate in zip(jobs, inside, strict=True)],
                folder / "together",
                _patience(settings),
            )
    rows = {
        timing.name: {
            "alone_s": timing.median_s, "together_s": together[timing.name].median_s,
            "times": together[timing.name].median_s / timing.median_s,
            "overlap": max(
                (overlap(together[timing.name], other) for other in together.values() if other.name != timing.name),
                default=0.0,
            ),
        }
        for timing in alone
    }  # fmt: skip
    return rows, together


def _controlled(
    bed: Testbed, cluster: Cluster, jobs: Sequence[Job], gates: Sequence[dict[str, float] | None], settings: Settings,
    folder: Path, beside: ExitStack,
) -> None:  # fmt: skip
    """Agents on all hosts, and jobs that they expect."""
    name = settings.pace or "fair"
    if name == "flow":
        name = f"flow:slot={1e3 * settings.slot_s:g}ms"
    hosts = {host.name: bed.namespace(host.name) for host in bed.blueprint.hosts}
    control = beside.enter_context(
        Control(
            cluster, make("pace", name), folder / "control", hosts, bed.blueprint.scale, slot_s=settings.slot_s,
            watch_s=min(settings.slot_s, 0.02),
        )
    )  # fmt: skip
    control.wait()
    for (job, _, servers), gate in zip(jobs, gates, strict=True):
        gpus = [cluster.servers[server].gpus[0] for server in servers]
        control.add(job, gpus, gate if settings.outside else None)


def _made(cluster: Cluster, job: Job, settings: Settings, gate: dict[str, float] | None = None) -> Replay | Script:
    name, what, servers = job
    if isinstance(what, tuple):
        return Script(name, what, servers, {"ITERATIONS": str(settings.iterations)})
    profile = what if isinstance(what, Profile) else zoo.profile(what, len(servers), gpu=cluster.gpu)
    return Replay(name, profile, servers, settings.iterations, gate=gate, jitter=settings.jitter)


def _patience(settings: Settings) -> float:
    return 60.0 + 20.0 * settings.iterations
