"""Interleave: when does each job's communication start?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from weft.errors import StackError
from weft.model.plan import Candidate, Placement, State
from weft.model.view import ClusterView, Fact

__all__ = ["Interleave", "Pick"]


@dataclass(frozen=True)
class Pick:
    """The candidate that was chosen, with its gates filled in, and the interleaver's next state.

    Gates are said in full each time: a running job that has one and is not mentioned loses it.
    """

    candidate: Candidate
    state: State
    reasons: dict[str, str] = field(default_factory=dict)  # per gated job


class Interleave(ABC):
    """One answer to "when does communication start". `candidates` is how many plans it wants to choose from."""

    name: str = ""
    needs: frozenset[Fact] = frozenset()
    candidates: int = 1
    shifts: bool = False  # sets gates: the world must be able to carry them out

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """The policy from what follows the colon of its name (`cassini:quantum=1ms`); by default it takes nothing."""
        if arg is not None:
            raise StackError(f"{cls.name}:{arg}: {cls.name} takes no parameter; write {cls.name}")
        return cls()

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}

    def prepare(self) -> None:  # noqa: B027
        """Compile what needs compiling; called before a run, so that its time is its own."""

    def vary(self, view: ClusterView, candidates: Sequence[Candidate]) -> Sequence[tuple[int, dict[str, Placement]]]:
        """Plans of its own beside the planner's: the number of a candidate, and where its jobs should be instead.

        Only jobs that start in this cycle may be elsewhere than in the candidate.
        """
        return ()

    @abstractmethod
    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """Choose one candidate and set its gates."""
