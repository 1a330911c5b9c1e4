"""srsf: shortest remaining service first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView, Fact, JobView
from weft.order.base import Claim, Order, Ranking

__all__ = ["ShortestRemainingServiceFirst"]


class ShortestRemainingServiceFirst(Order):
    """Jobs by remaining compute time x GPUs.

    Communication counts as 0, since it is not known before a job is placed (Ada-SRSF, section IV-A, "Job Priority").
    A job that does not fit is passed. As in that paper a job keeps its GPUs once it has them; with `srsf:preemptive`
    a running job gives way to waiting ones with less left to do.
    """

    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    def __init__(self, preemptive: bool = False) -> None:
        self.preemptive = preemptive
        self.name = "srsf:preemptive" if preemptive else "srsf"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`srsf` or `srsf:preemptive`."""
        if arg not in (None, "preemptive"):
            raise StackError(f"srsf:{arg}: write srsf or srsf:preemptive")
        return cls(arg == "preemptive")

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting (and, if preemptive, running) jobs, least remaining service first."""
        waiting = ((_waiting_service_s(job), 1, job) for job in view.waiting_by(_waiting_service_s))
        if not self.preemptive:
            return Ranking(_claims(waiting), state)
        if not view.waiting:
            return Ranking((), state, preemptive=True)  # nobody to give way to
        running = sorted(
            ((_per_iteration_s(job) * view.iterations_left(job.id), 0, job) for job in view.running.values()),
            key=_key,
        )
        return Ranking(_claims(merge(running, waiting, key=_key)), state, preemptive=True)

    def turn(self, job: JobView) -> tuple[float, float]:
        """Remaining service, as it shrinks with every iteration."""
        return (0.0, _per_iteration_s(job))


def _per_iteration_s(job: JobView) -> float:
    """GPU seconds of one iteration at the size asked for."""
    return job.job.profile.compute_s * job.job.gpus


def _waiting_service_s(job: JobView) -> float:
    """Remaining GPU seconds of a job that waits: nothing about it changes until it starts."""
    return _per_iteration_s(job) * (job.job.iterations - job.saved_iterations)


def _key(entry: tuple[float, int, JobView]) -> tuple[float, int]:
    return entry[:2]  # at a tie the running job stays


def _claims(entries: Iterator[tuple[float, int, JobView]]) -> Iterator[Claim]:
    for service_s, waits, job in entries:
        yield Claim(job.id, job.job.gpus, f"shortest remaining service first: {service_s:.4g} GPU s" if waits else "")
