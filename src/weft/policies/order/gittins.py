"""gittins: Tiresias' discretised 2D-Gittins index, for sites where the lengths of earlier jobs predict those of later
ones.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Sequence
from functools import cache
from heapq import merge
from itertools import accumulate
from typing import Any

from weft.model.plan import State
from weft.model.view import ClusterView, JobView
from weft.policies.order.base import Ranking
from weft.policies.order.las import QueuedLeastAttainedService

HISTORY = 1000  # finished jobs that are remembered


def gittins_index(attained: float, history: Sequence[float], end: float = math.inf) -> float:
    """sup over d of P(S - a <= d | S > a) / E[min(S - a, d) | S > a], S being drawn from a sorted history of services.

    a is the service a job has attained, and a + d stays within `end`, where it is ranked anew. The supremum is at one
    of the services of the history; where none lies between a and `end`, nobody is known to finish there, and it is 0.
    """
    first, last = bisect_right(history, attained), bisect_right(history, end)
    left = len(history) - first
    best = 0.0
    for count, total in enumerate(accumulate(service - attained for service in history[first:last]), start=1):
        spent = total + (left - count) * (history[first + count - 1] - attained)
        best = max(best, count / spent)
    return best


class Gittins(QueuedLeastAttainedService):
    """The queues of 2D-LAS, and inside a queue the highest Gittins index first (Tiresias, section 4.1).

    The distribution is that of the GPU seconds of the jobs that have finished here, the last 1,000 of them; while there
    are none, jobs come in order of submission. Running jobs keep their GPUs inside a queue, as in `las-queues`;
    `gittins:3200/36000` sets the thresholds.

    Its memory holds the services of finished jobs, both sorted and in the order of finishing, and the service that
    every other job had at the last look. A job that is no longer there has finished (a job that was withdrawn counts as
    finished, too).
    """

    name = "gittins"

    def initial_state(self) -> State:
        """Nobody has finished."""
        return {"services": [], "recent": [], "known": {}, "looked_s": 0.0}

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Queue by queue: running jobs, then waiting ones by their index."""
        state = _observed(view, state)
        ranking = super().rank(view, state)
        if not view.waiting:
            return ranking
        services = state["services"]
        ends = (*self.thresholds, math.inf)

        @cache
        def index(attained: float) -> float:
            return gittins_index(attained, services, ends[int(self._queue(attained))])

        def place(entry: tuple[float, int, JobView]) -> tuple[int, float, int, float, float]:
            queue, waits, job = entry
            return -job.job.priority, queue, waits, -index(job.service_gpu_s) if waits else 0.0, job.job.submit_s

        running = [(self._queue(job.attained_gpu_s(view.now)), 0, job) for job in view.running.values()]
        waiting = [(self._of_waiting(job), 1, job) for job in view.waiting.values()]
        claims = self._claims(merge(sorted(running, key=place), sorted(waiting, key=place), key=place))
        return Ranking(claims, state, wake_s=ranking.wake_s, pooled=True, released=ranking.released)


def _observed(view: ClusterView, state: State) -> State:
    """The state after a look at which jobs are there: those that are gone have finished now.

    A job that was waiting at the last look is taken to have started right after it.
    """
    known: dict[str, list[Any]] = state["known"]
    now = {job.id: [job.service_gpu_s, job.started_s, len(job.gpus)] for job in view.running.values()}
    now |= {job.id: [job.service_gpu_s, None, job.job.gpus] for job in view.waiting.values()}
    services, recent = state["services"], state["recent"]
    now |= {name: kept for name, kept in known.items() if name not in now and _barred(view, name)}
    gone = [name for name in known if name not in now]
    if gone:
        services, recent = list(services), list(recent)
        for name in gone:
            earlier, started_s, gpus = known[name]
            service = earlier + (view.now - (state["looked_s"] if started_s is None else started_s)) * gpus
            insort(services, service)
            recent.append(service)
        for service in recent[:-HISTORY]:
            services.remove(service)
        recent = recent[-HISTORY:]
    return {"services": services, "recent": recent, "known": now, "looked_s": view.now}


def _barred(view: ClusterView, name: str) -> bool:
    """Whether a job that the view does not show is there nevertheless."""
    try:
        return bool(view.job(name).barred)
    except KeyError:
        return False
