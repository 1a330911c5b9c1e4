"""Chooser: a planner that asks one question again and again: which of these waiting jobs goes next, if any?

Where the chosen job runs is up to a place, as in any stack.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from math import log1p
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from weft.core.layered.even import Shaped
from weft.core.occupancy import Draft
from weft.core.table import memory_of
from weft.errors import DecisionError
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.reason import Why, because, both, speak
from weft.model.view import ClusterView, Fact, JobView, Spread
from weft.policies.place.base import Place
from weft.policies.planners.base import Planner
from weft.stacks.registry import make

if TYPE_CHECKING:
    from weft.policies.order.limited import Limits

FEATURES = ("there", "gpus", "waited", "left", "service", "network")
_LONG = log1p(1e7)  # seconds that count as 1 on the scale of times: 116 days
_LARGE = log1p(1e10)  # the same for GPU seconds

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Seen:
    """What a decision is based on, as arrays of fixed sizes. All numbers lie between 0 and 1.

    `jobs` has a row for each waiting job that could start now, then for the others, both highest priority first and in
    order of submission: as many as there are rows, and zeros below the last one. Its columns (`FEATURES`): 1 if there
    is a job; its GPUs, as a share of the cluster's; how long it has waited, how long it would still run alone, and that
    times its GPUs, on logarithmic scales; which share of an iteration it would spend on the network.
    """

    jobs: Floats
    servers: Floats  # share of each server's GPUs that nobody is on
    racks: Floats  # the same by rack
    mask: npt.NDArray[np.int8]  # 1 for each row whose job could start now; the last: 1 if it is allowed to choose none
    queue: tuple[JobView, ...] = ()  # the jobs of the rows
    why_not: tuple[Why, ...] = ()  # why each of them cannot start now; empty if it can

    @property
    def arrays(self) -> dict[str, Any]:
        """The arrays by name."""
        return {"jobs": self.jobs, "servers": self.servers, "racks": self.racks, "mask": self.mask}


class Chooser(Planner):
    """Starts jobs one after another, as `choose` says. It stops no job.

    A choice that the mask does not allow counts as none. While nothing runs, none is not allowed, and counts as the
    first job that could start: so every run goes on. A job that the place declines is not offered again at
    that instant.

    Examples:
        >>> class Smallest(weft.learning.Chooser):
        ...     def choose(self, seen):
        ...         return min(range(len(seen.queue)), key=lambda row: seen.jobs[row, 1] + 2 * (not seen.mask[row]))
        >>> weft.simulate("demo", stack=Smallest, seed=1).summary()["finished"]
        100
    """

    keeps_shapes = True
    idle_without_jobs = True
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})
    place: Place | str = "best-fit"  # where the chosen jobs run
    rows: int = 16  # how many waiting jobs are looked at

    def __init__(self) -> None:
        place = make("place", self.place) if isinstance(self.place, str) else self.place
        self.name = type(self).name or type(self).__name__
        self.needs = type(self).needs | place.needs
        self.shares_gpus, self.names_gpus, self.uneven = place.shares_gpus, place.names_gpus, place.uneven
        self._place: Place = Shaped(place)
        self._limits: Limits | None = None

    @abstractmethod
    def choose(self, seen: Seen) -> int | None:
        """A row of `seen.jobs`, or None (or the number of rows) to start no further job now."""

    def limited(self, limits: Limits) -> Planner:
        """Within limits: a job that is over one is masked."""
        made = copy(self)
        made._limits = limits
        return made

    def initial_state(self) -> State:
        """The place's memory, and who was declined at which instant."""
        return {"place": self._place.initial_state(), "at": None, "declined": []}

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """One plan: what runs, and the jobs that were chosen."""
        draft, memory = Draft(view.cluster, view.offer), state["place"]
        before = state["declined"] if state["at"] == view.now else []
        declined = {name: Declined(name, why, ask_s) for name, why, ask_s in before}
        placed: dict[str, Placement] = {}
        reasons: dict[str, Why] = {}
        while (seen := self._look(view, draft, placed, declined)).mask[:-1].any():
            job = self._chosen(seen)
            if job is None:
                break
            answer = self._place.place(view, job, job.job.gpus, draft.offer, memory)
            memory = answer.state
            if answer.gpus is None:
                declined[job.id] = Declined(job.id, speak(answer.reason), answer.ask_again_s)
                continue
            placed[job.id] = answer.gpus
            reasons[job.id] = both("chosen", answer.reason)
            draft.take(answer.gpus, memory_of(job.job, len(answer.gpus)))
        memory = self._place.observe(view, tuple(placed), memory)
        state = {"place": memory, "at": view.now,
                 "declined": [[one.job, one.reason, one.ask_again_s] for one in declined.values()]}  # fmt: skip
        plan = Plan({**view.placements, **placed} if placed else view.placements)
        waits = {
            job.id: Declined(job.id, why or "was not chosen") for job, why in zip(seen.queue, seen.why_not, strict=True)
        }
        return [Candidate(plan, state, reasons, tuple({**waits, **declined}.values()))]

    def _chosen(self, seen: Seen) -> JobView | None:
        """The job that `choose` names, by the rules of the class."""
        row = self.choose(seen)
        if row is not None and not 0 <= row <= self.rows:
            raise DecisionError(f"{self.name} chose row {row}; rows are 0 to {self.rows - 1}, {self.rows} is none")
        if row is not None and row < self.rows and seen.mask[row]:
            return seen.queue[row]
        return None if seen.mask[-1] else seen.queue[int(np.argmax(seen.mask))]

    def _look(
        self, view: ClusterView, draft: Draft, placed: Mapping[str, Placement], declined: Mapping[str, Declined]
    ) -> Seen:
        """The moment, with the jobs that were chosen in this cycle on their GPUs."""
        ready: list[JobView] = []
        others: list[tuple[JobView, Why]] = []
        held = None
        if self._limits is not None:
            held = self._limits.held(view.running.values())
            for name, gpus in placed.items():
                held.take(view.waiting[name].job, len(gpus))
        for job in view.waiting.values():
            if job.id in placed:
                continue
            why: Why = declined[job.id].reason if job.id in declined else self._no_room(draft, job)
            if not why and held is not None:
                why = held.refuses(job.job, job.job.gpus)
            if not why:
                ready.append(job)
                if len(ready) == self.rows:
                    break
            elif len(others) < self.rows:
                others.append((job, why))
        queue = [*((job, "") for job in ready), *others][: self.rows]
        jobs = np.zeros((self.rows, len(FEATURES)), np.float32)
        for row, (job, _) in enumerate(queue):
            jobs[row] = _features(view, job)
        mask = np.zeros(self.rows + 1, np.int8)
        mask[: len(ready)] = 1
        mask[-1] = bool(view.running or placed)
        cluster = view.cluster
        free = draft.offer.free_per_server
        racks = np.bincount(cluster.rack_of_server, free, cluster.n_racks)
        there = np.bincount(cluster.rack_of_server, cluster.gpus_per_server, cluster.n_racks)
        return Seen(
            jobs, (free / cluster.gpus_per_server).astype(np.float32), (racks / there).astype(np.float32), mask,
            tuple(job for job, _ in queue), tuple(why for _, why in queue),
        )  # fmt: skip

    def _no_room(self, draft: Draft, job: JobView) -> Why:
        wanted = job.job.gpus
        if draft.room(memory_of(job.job, wanted), self.shares_gpus) >= wanted:
            return ""
        return because("weft.no-room", gpus=wanted, there="have the memory" if self.shares_gpus else "are free")


def _features(view: ClusterView, job: JobView) -> tuple[float, ...]:
    gpus = job.job.gpus
    alone = view.estimate(job.job, gpus, Spread.closest(view.cluster, gpus))
    left_s = view.iterations_left(job.id) * alone.iteration_s
    times = (view.now - job.waiting_since_s, left_s)
    waited, left = (min(1.0, log1p(max(0.0, seconds)) / _LONG) for seconds in times)
    service = min(1.0, log1p(left_s * gpus) / _LARGE)
    network = min(1.0, alone.comm_s / alone.iteration_s) if alone.iteration_s > 0 else 0.0
    return 1.0, gpus / view.cluster.n_gpus, waited, left, service, network
