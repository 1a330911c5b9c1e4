"""Placement, Gate, Routes, Plan, Candidate, Decision: what a scheduler says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.model.reason import Why

Placement = tuple[int, ...]  # GPU id of each rank
State = dict[str, Any]  # a policy's memory: versioned, JSON-able, kept by the core
Parts = tuple[tuple[int, float], ...]  # (number of a path, share of the flow); the shares sum to 1
Routes = tuple[Parts, ...]  # of all flows of a job, in the order of `RoutedJob.flows`


@dataclass(frozen=True, slots=True)
class Gate:
    """The named task of each iteration waits for its opening: epoch, epoch + period, ...

    `task` is an index into the profile's tasks. Period 0 is a one-off delay until `epoch_s`. A job that is later than
    `tolerance` (a fraction of the period) waits for the next opening; a job that is less late starts at once.
    """

    epoch_s: float
    period_s: float = 0.0
    task: int = 0
    tolerance: float = 0.05


@dataclass(frozen=True, slots=True)
class Declined:
    """A job that was considered and not placed: why, and when to ask again (None: at the next event)."""

    job: str
    reason: Why
    ask_again_s: float | None = None


@dataclass(frozen=True)
class Plan:
    """Placements of all jobs that should run, and their gates."""

    placements: Mapping[str, Placement]
    gates: Mapping[str, Gate] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A whole-cluster plan, the planner's next state, why each change, and what was declined.

    `wake_s` asks for another cycle at that time (a lease end, a timer) even if nothing else happens. `restart_share` is
    what the plan's restarts of running jobs cost, as a part of the GPU time that it hands out; a planner whose plans
    all stop the same jobs need not say.
    """

    plan: Plan
    state: State
    reasons: Mapping[str, Why] = field(default_factory=dict)
    declined: tuple[Declined, ...] = ()
    wake_s: float | None = None
    restart_share: float = 0.0


@dataclass(frozen=True, slots=True)
class Start:
    """Run the job on these GPUs (rank r on gpus[r]), communication gated if a gate is given.

    `turn` is the key (p0, p1) with which its tasks queue for a shared GPU and for admission: smallest
    p0 + p1 x iterations left first.
    """

    job: str
    gpus: Placement
    reason: Why
    gate: Gate | None = None
    turn: tuple[float, float] = (0.0, 0.0)
    routes: Routes | None = None  # None: ECMP's


@dataclass(frozen=True, slots=True)
class Stop:
    """Take the job off its GPUs; it goes back to its last checkpoint and waits."""

    job: str
    reason: Why


@dataclass(frozen=True, slots=True)
class SetGate:
    """Change the gate of a running job (None removes it)."""

    job: str
    gate: Gate | None
    reason: Why


@dataclass(frozen=True, slots=True)
class SetRoutes:
    """Send the flows of a running job over these paths from now on."""

    job: str
    routes: Routes
    reason: Why


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave the job waiting; nothing is carried out, but the reason is kept for `weft explain`."""

    job: str
    reason: Why
    ask_again_s: float | None = None


Decision = Start | Stop | SetGate | SetRoutes | Hold
