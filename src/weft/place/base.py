"""Place: on which GPUs?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

from weft.errors import StackError
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, Fact, JobView, Offer

__all__ = ["Answer", "Place"]


@dataclass(frozen=True)
class Answer:
    """GPUs for a job (rank r on gpus[r]), or None with when to ask again; in both cases why, and the next state.

    A refusal is written down when its reason changes: leave out of it numbers that change by themselves.
    """

    gpus: Placement | None
    reason: str
    state: State
    ask_again_s: float | None = None


class Place(ABC):
    """One answer to "on which GPUs". Stateless itself: its memory is the `state` it is given and returns."""

    name: str = ""
    needs: frozenset[Fact] = frozenset()
    shares_gpus: bool = False  # may put several jobs on one GPU
    names_gpus: bool = False  # which GPU of a server it is matters (sharing implies it)
    uneven: bool = True  # may put more workers of a job on one of its servers than on another

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """The policy from what follows the colon of its name (`lwf:1`); by default it takes nothing."""
        if arg is not None:
            raise StackError(f"{cls.name}:{arg}: {cls.name} takes no parameter; write {cls.name}")
        return cls()

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}

    @abstractmethod
    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Answer one offer (the GPUs as they are, or as they would be) for one job of `gpus` workers.

        Look for room in `offer`, not in `view`: earlier answers of the same cycle are in it, and so are GPUs that
        others would leave. The arrays of an offer are valid during the call only.
        """

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Called once per cycle after the plan is settled, with the jobs that start; returns the next state."""
        return state
