"""What the simulated world writes down of a job, and what it has to do later itself."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

from weft.model.job import Job
from weft.model.plan import Gate, Placement

__all__ = ["Clockwork", "JobRecord", "Span"]


@dataclass(slots=True)
class Span:
    """One assignment of a job to GPUs."""

    job: str
    start_s: float
    gpus: Placement
    end_s: float = math.nan
    end: str = ""


@dataclass(slots=True)
class JobRecord:
    """What became of a job, for the results."""

    job: Job
    uid: int
    saved: int = 0  # iterations at the last checkpoint
    slot: int = -1  # in the engine, -1 if not attached
    span: Span | None = None
    gate: Gate | None = None
    turn: tuple[float, float] = (0.0, 0.0)
    start_s: float | None = None
    finish_s: float | None = None
    comm_s: float = 0.0
    gate_s: float = 0.0
    gpu_s: float = 0.0
    lost_gpu_s: float = 0.0
    run_s: float = 0.0
    iterations: int = 0
    stops: int = 0
    adjusted: int = 0
    starts: int = 0
    last_gpus: Placement = ()
    ticket: int = 0  # tells a pending start from one that was cancelled


@dataclass
class Clockwork:
    """What the world itself has to do later: (time, number, action, job, ticket)."""

    queue: list[tuple[float, int, str, str, int]] = field(default_factory=list)
    number: int = 0

    def add(self, when: float, action: str, job: str, ticket: int) -> None:
        """Remember to do something then."""
        heapq.heappush(self.queue, (when, self.number, action, job, ticket))
        self.number += 1
