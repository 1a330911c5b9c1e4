"""Place: on which GPUs?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from weft.model.plan import Placement, State
from weft.model.view import ClusterView, Fact, JobView, Offer

__all__ = ["Answer", "Place"]


@dataclass(frozen=True)
class Answer:
    """GPUs for a job (rank r on gpus[r]), or None with when to ask again; in both cases why, and the next state."""

    gpus: Placement | None
    reason: str
    state: State
    ask_again_s: float | None = None


class Place(ABC):
    """One answer to "on which GPUs". Stateless itself: its memory is the `state` it is given and returns."""

    name: str = ""
    needs: frozenset[Fact] = frozenset()
    shares_gpus: bool = False  # may put several jobs on one GPU

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}

    @abstractmethod
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Answer one offer (the GPUs as they are, or as they would be) for one job of `gpus` workers."""

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Called once per cycle after the plan is settled, with the jobs that start; returns the next state."""
        return state
