"""Interleave: when does each job's communication start? Also `none`, under which it starts as soon as it is ready."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.model.plan import Candidate, State
from weft.model.policy import Policy
from weft.model.reason import Why
from weft.model.view import ClusterView


@dataclass(frozen=True)
class Pick:
    """The candidate that was chosen, with its gates filled in, and the interleaver's next state.

    It names all gates each time: a running job whose gate it does not name loses that gate."""

    candidate: Candidate
    state: State
    reasons: dict[str, Why] = field(default_factory=dict)  # per gated job


class Interleave(Policy):
    """One answer to "when does communication start". `candidates` is how many plans it wants to choose from."""

    candidates: int = 1
    shifts: bool = False  # sets gates: the world must be able to carry them out
    idle_without_gates: bool = False  # takes the planner's first choice as it is and remembers nothing

    def __init_subclass__(cls) -> None:
        """`idle_without_gates` is not inherited: each subclass declares it."""
        cls.idle_without_gates = cls.__dict__.get("idle_without_gates", False)

    def prepare(self) -> None:
        """Compile what needs compiling. Called before a run, so that the run's time does not include it."""

    @abstractmethod
    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """Choose one candidate and set its gates."""


class NoInterleave(Interleave):
    """The planner's first choice, without gates."""

    name = "none"
    idle_without_gates = True

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """The best candidate as it is."""
        return Pick(candidates[0], state)
