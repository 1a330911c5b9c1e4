"""srsf: shortest remaining service first, and its two halves: fewest GPUs first, shortest remaining time first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import merge

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobView
from weft.policies.order.base import Claim, Order, Ranking

Key = Callable[[JobView], float]


@dataclass(eq=False)
class ShortestRemainingServiceFirst(Order):
    """Jobs by remaining compute time x GPUs.

    Communication counts as 0, since it is not known before a job is placed (Ada-SRSF, section IV-A, "Job Priority").
    A job that does not fit is passed. As in that paper a job keeps its GPUs once it has them; with `srsf:preemptive`
    a running job gives way to waiting ones with less left to do. That section's other heuristics: `srsf:size` looks at
    the GPUs alone (size-based), `srsf:length` at the remaining compute time alone (length-based).
    """

    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})
    idle_without_jobs = True

    name = "srsf"
    by: str = setting("service", words=("preemptive", "size", "length"))

    def __post_init__(self) -> None:
        """What it looks at."""
        super().__post_init__()
        self.preemptive = self.by == "preemptive"
        self._words, self._per_iteration, self._waiting = _KEYS["service" if self.preemptive else self.by]

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting (and, if preemptive, running) jobs, least remaining service first."""
        waiting = ((self._waiting(job), 1, job) for job in view.waiting_by(self._waiting))
        if not self.preemptive:
            return Ranking(self._claims(waiting), state)
        if not view.waiting:
            return Ranking((), state, preemptive=True)  # nobody to give way to
        running = sorted(
            ((_service_s(job) * view.iterations_left(job.id), 0, job) for job in view.running.values()),
            key=_key,
        )
        return Ranking(self._claims(merge(running, waiting, key=_key)), state, preemptive=True)

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """The same key, which shrinks with every iteration (unless it is a size)."""
        if self.by == "size":
            return (float(job.job.gpus), 0.0)
        return (0.0, self._per_iteration(job))

    def _claims(self, entries: Iterator[tuple[float, int, JobView]]) -> Iterator[Claim]:
        for value, waits, job in entries:
            yield Claim(job.id, job.job.gpus, self._words.format(value) if waits else "")


def _service_s(job: JobView) -> float:
    """GPU seconds of one iteration at the size asked for."""
    return job.job.profile.compute_s * job.job.gpus


def _length_s(job: JobView) -> float:
    """Seconds of computing of one iteration at the size asked for."""
    return job.job.profile.compute_s


def _waiting_service_s(job: JobView) -> float:
    """Remaining GPU seconds of a job that waits: nothing about it changes until it starts."""
    return _service_s(job) * (job.job.iterations - job.saved_iterations)


def _waiting_length_s(job: JobView) -> float:
    return _length_s(job) * (job.job.iterations - job.saved_iterations)


def _size(job: JobView) -> float:
    return float(job.job.gpus)


# parameter: the reason of a claim, the key of one iteration, the key of a waiting job
_KEYS: dict[str, tuple[str, Key, Key]] = {
    "service": ("shortest remaining service first: {:.4g} GPU s", _service_s, _waiting_service_s),
    "length": ("shortest remaining time first: {:.4g} s", _length_s, _waiting_length_s),
    "size": ("fewest GPUs first", _size, _size),
}


def _key(entry: tuple[float, int, JobView]) -> tuple[int, float, int]:
    value, waits, job = entry
    return -job.job.priority, value, waits  # at a tie the running job stays
