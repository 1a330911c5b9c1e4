"""Order: who goes next, who gives way?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from weft.model.plan import State
from weft.model.view import ClusterView, Fact, JobView

__all__ = ["Claim", "Order", "Ranking"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that should run on `gpus` workers, and why it stands where it stands."""

    job: str
    gpus: int
    reason: str = ""


@dataclass(frozen=True)
class Ranking:
    """Claims, best first.

    A preemptive order lists running jobs too: claims are served in order, and a running job that is not reached gives
    way. A non-preemptive order lists waiting jobs only. `strict` means nobody may pass a claim that does not fit.
    `wake_s` asks for another cycle then (a lease end, a queue threshold).
    """

    claims: tuple[Claim, ...]
    state: State
    preemptive: bool = False
    strict: bool = False
    wake_s: float | None = None


class Order(ABC):
    """One answer to "who goes next". Stateless itself: its memory is the `state` it is given and returns."""

    name: str = ""
    needs: frozenset[Fact] = frozenset()

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}

    @abstractmethod
    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Claims at this moment, best first."""

    def turn(self, job: JobView) -> tuple[float, float]:
        """Key (p0, p1) with which a job's tasks queue for a shared GPU: smallest p0 + p1 x iterations left first.

        The default is first come, first served by submission time.
        """
        return (job.job.submit_s, 0.0)
