"""What the simulated world writes down about each job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.model.flows import Ask, TransferView
from weft.model.job import Job
from weft.model.plan import Gate, Placement, Routes
from weft.model.profile import Profile
from weft.sim.engine.spec import Usage


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
    """What became of a job, for the results: most fields are sums, one for each number that is reported of it."""

    job: Job
    uid: int
    saved: int = 0  # iterations at the last checkpoint
    row: int = -1  # in the engine, -1 if not attached
    span: Span | None = None
    gate: Gate | None = None
    routes: Routes | None = None  # None: nobody has chosen any
    gpu: str = ""  # the type of GPU that it runs on
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

    @property
    def profile(self) -> Profile:
        """One iteration where it runs now."""
        return self.job.profile_on(len(self.span.gpus), self.gpu) if self.span else self.job.profile

    def progress(self, iterations: int) -> int:
        """Iterations done, as submitted: those of this assignment count more or less where its batch is another one."""
        return min(self.job.iterations, self.saved + int(iterations * self.profile.worth + 1e-9))

    def kept_part(self, usage: Usage, kept: int) -> float:
        """Share of the GPU seconds of an assignment that went into iterations that are kept."""
        whole = self.profile.gpu_s / self.profile.worth
        if usage.gpu_s <= 0 or whole <= 0:
            return 1.0
        return min(1.0, (kept - self.saved) * whole / usage.gpu_s)


def by_id(ask: Ask, ids: Sequence[str]) -> Ask:
    """A rule that knows jobs by their id, for an engine that knows them by number."""

    def named(transfer: TransferView) -> TransferView:
        return replace(transfer, job=ids[int(transfer.job)])

    return lambda waiting, beside: ask(named(waiting), tuple(map(named, beside)))
