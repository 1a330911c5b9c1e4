"""Event: what a world reports to the core."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.job import Job


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job arrived."""

    time_s: float
    job: Job


@dataclass(frozen=True, slots=True)
class Started:
    """A start was confirmed: the job runs."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stop was confirmed, or the world itself stopped the job; it holds `iterations_done` checkpointed iterations."""

    time_s: float
    job: str
    iterations_done: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """A start could not be carried out; the job waits again."""

    time_s: float
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The job ran all its iterations."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The user cancelled the job."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Barred:
    """A waiting job cannot be started now, and no policy can change that. No policy sees it until it is Cleared."""

    time_s: float
    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class Cleared:
    """A job that was Barred is worth another try."""

    time_s: float
    job: str


@dataclass(frozen=True, slots=True)
class Learned:
    """A running job is not what its submission said. `iterations`: it has outrun the length it claimed and is now
    assumed to be this long (0: as before). `silent`: it reports nothing, so it cannot be gated and no other job is
    shifted around it. `iteration_s`: the measured time of its iterations on these GPUs, where its profile is wrong (0:
    as before)."""

    time_s: float
    job: str
    iterations: int = 0
    silent: bool = False
    iteration_s: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Prioritised:
    """The priority of a job, waiting or not, has changed."""

    time_s: float
    job: str
    priority: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeDown:
    """A server's GPUs are gone; its jobs are reported as Stopped beside this."""

    time_s: float
    server: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NodeUp:
    """A server's GPUs are back."""

    time_s: float
    server: int


Event = (
    Submitted | Started | Stopped | Failed | Finished | Withdrawn | Barred | Cleared | Learned | Prioritised
    | NodeDown | NodeUp
)  # fmt: skip
