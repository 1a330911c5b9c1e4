"""Event: what a world reports to the core."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.job import Job
from weft.model.reason import Why


@dataclass(frozen=True, slots=True)
class _OfJob:
    """What has happened to one job, by its id."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job arrived."""

    time_s: float
    job: Job


@dataclass(frozen=True, slots=True)
class Started(_OfJob):
    """A start was confirmed: the job runs."""


@dataclass(frozen=True, slots=True)
class Stopped(_OfJob):
    """A stop was confirmed, or the world itself stopped the job; it holds `iterations_done` checkpointed iterations."""

    iterations_done: int
    reason: Why = ""


@dataclass(frozen=True, slots=True)
class Failed(_OfJob):
    """A start could not be carried out; the job waits again."""

    reason: Why


@dataclass(frozen=True, slots=True)
class Finished(_OfJob):
    """The job ran all its iterations."""


@dataclass(frozen=True, slots=True)
class Withdrawn(_OfJob):
    """The user cancelled the job."""


@dataclass(frozen=True, slots=True)
class Barred(_OfJob):
    """A waiting job cannot be started now, and no policy can change that. No policy sees it until it is Cleared."""

    reason: Why


@dataclass(frozen=True, slots=True)
class Cleared(_OfJob):
    """A job that was Barred is worth another try."""


@dataclass(frozen=True, slots=True)
class Learned(_OfJob):
    """A job is not what its submission said. `iterations`: it is now assumed to be this long, since it has outrun the
    length it claimed, or its user's earlier jobs did (0: as before). Of a running job also: `silent`: it reports
    nothing, so it cannot be gated and no other job is shifted around it. `iteration_s`: the measured time of its
    iterations on these GPUs, where its profile is wrong (0: as before)."""

    iterations: int = 0
    silent: bool = False
    iteration_s: float = 0.0
    reason: Why = ""


@dataclass(frozen=True, slots=True)
class Prioritised(_OfJob):
    """The priority of a job, waiting or not, has changed."""

    priority: int
    reason: Why = ""


@dataclass(frozen=True, slots=True)
class NodeDown:
    """A server's GPUs are gone; its jobs are reported as Stopped beside this."""

    time_s: float
    server: int
    reason: Why = ""


@dataclass(frozen=True, slots=True)
class NodeUp:
    """A server's GPUs are back."""

    time_s: float
    server: int


Event = (
    Submitted | Started | Stopped | Failed | Finished | Withdrawn | Barred | Cleared | Learned | Prioritised
    | NodeDown | NodeUp
)  # fmt: skip
