"""Order: who goes next, who gives way?"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.model.plan import State
from weft.model.policy import Policy, turn_of_0_1
from weft.model.reason import Why
from weft.model.view import ClusterView, JobView

if TYPE_CHECKING:
    from weft.policies.order.limited import Limits

STOP_S = 60.0  # what it costs to take a GPU from a running job, however short its use is: that job must start again


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that should run on `gpus` workers, and why it stands where it stands.

    `anew` asks for a running job to be placed again, its own GPUs being part of the offer (its lease has ended, or
    it should have another size); it keeps what it has when no place is found. Nobody gives way to a claim that is not
    `urgent`: it is offered what is free.
    """

    job: str
    gpus: int
    reason: Why = ""
    anew: bool = False
    urgent: bool = True


@dataclass(frozen=True, slots=True)
class Cap:
    """GPU seconds that the jobs of one user may take from running jobs, and what they have taken already."""

    most_gpu_s: float
    taken_gpu_s: Mapping[str, float]

    def gpus(self, user: str) -> float:
        """How many GPUs may be taken now: each costs a minute at once."""
        return (self.most_gpu_s - self.taken_gpu_s.get(user, 0.0)) / STOP_S


@dataclass(frozen=True)
class Ranking:
    """Claims, best first.

    A preemptive order lists running jobs too: claims are served in order, and a running job that is not reached gives
    way. A non-preemptive order lists waiting jobs only. `strict` means nobody may pass a claim that does not fit.
    `wake_s` asks for another cycle then (a lease end, a queue threshold). `claims` may be a generator: only as much
    of it is taken as can matter, so a queue of thousands costs nothing while no GPU is free.

    `pooled` is the other way to take GPUs from running jobs: those in `released` (their lease is over) put theirs into
    the offer before the first claim is served, and are claimed among the rest. A released job keeps its GPUs if no
    claim before it took them, or moves if it is claimed `anew` and place finds better ones; one that lost them is
    offered what is left, or waits. Running jobs that are not released keep theirs (claimed `anew`, and before any
    waiting job, they may move). The core notes for every waiting job that is not placed why it waits. With `told`,
    every one has such a note already, and only the GPUs of released jobs are new: if the released jobs keep them, the
    core asks place about no other job."""

    claims: Iterable[Claim]
    state: State
    preemptive: bool = False
    strict: bool = False
    wake_s: float | None = None
    pooled: bool = False
    cap: Cap | None = None  # what a user's jobs may take from running ones; set by the planner, not by the order
    limits: Limits | None = None  # what users and queues may hold; set by `order.limited`
    released: frozenset[str] = frozenset()
    told: bool = False


class Order(Policy):
    """One answer to "who goes next". Stateless itself: its memory is the `state` it is given and returns."""

    resizes: bool = False  # may claim another number of GPUs than the job asked for
    idle_without_jobs: bool = False  # while no job waits, it claims nothing and remembers nothing: it need not be asked
    shortest_stay_s: float = math.inf  # how soon a job that others wait behind must give way, however much it has done

    def __init_subclass__(cls) -> None:
        """`idle_without_jobs` is not inherited: each subclass declares it."""
        cls.idle_without_jobs = cls.__dict__.get("idle_without_jobs", False)
        turn_of_0_1(cls)

    @abstractmethod
    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Claims at this moment, best first."""

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """Key (p0, p1) with which a job's tasks queue for a shared GPU: smallest p0 + p1 x iterations left first.

        The default is first come, first served by submission time.
        """
        return (job.job.submit_s, 0.0)
