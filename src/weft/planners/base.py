"""Planner: order and place at once. `order + place` is one planner (core/layered.py); Themis and Pollux are others."""

from __future__ import annotations

from abc import ABC, abstractmethod

from weft.model.plan import Candidate, State
from weft.model.view import ClusterView, Fact, JobView

__all__ = ["Planner"]


class Planner(ABC):
    """Whole-cluster plans, best first. Stateless itself: its memory is the `state` it is given and returns."""

    name: str = ""
    needs: frozenset[Fact] = frozenset()
    shares_gpus: bool = False
    resizes: bool = False

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}

    @abstractmethod
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Up to n whole-cluster candidates, best first; at least one."""

    def turn(self, job: JobView) -> tuple[float, float]:
        """Key (p0, p1) for shared GPUs: smallest p0 + p1 x iterations left first."""
        return (job.job.submit_s, 0.0)
