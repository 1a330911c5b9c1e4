"""Policies that a world is tried with. They keep memory in their own attributes, which real policies may not do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.core.layered import Layered
from weft.core.layered.even import Even
from weft.core.world import World
from weft.model.plan import Candidate, Gate, Placement, Plan, State
from weft.model.view import ClusterView, JobStatus
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.order.fifo import Fifo
from weft.policies.pace.base import Admission, Pace
from weft.policies.place.best_fit import BestFit
from weft.policies.planners.base import Planner


def plain_planner(world: World) -> Planner:
    """First come, first served, close together; even where the world wants it so."""
    place = BestFit()
    return Layered(Fifo(backfill=True), place if world.capabilities.uneven else Even(place))


class _Wrapped(Planner):
    """Another planner, with a difference."""

    name = "check"

    def __init__(self, inner: Planner) -> None:
        self.inner = inner
        self.uneven = inner.uneven

    def initial_state(self) -> State:
        return self.inner.initial_state()


class Waking(_Wrapped):
    """Asks for a cycle every so often, as long as there are jobs."""

    def __init__(self, inner: Planner, every_s: float) -> None:
        super().__init__(inner)
        self.every_s = every_s

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """The inner one's candidate, and a wake-up."""
        candidate = self.inner.propose(view, state, n)[0]
        busy = view.running or view.waiting
        return [replace(candidate, wake_s=view.now + self.every_s if busy else None)]


class StopOnce(_Wrapped):
    """Stops one job, once, at its first cycle after some time."""

    def __init__(self, inner: Planner, job: str, at_s: float) -> None:
        super().__init__(inner)
        self.job, self.at_s, self.done = job, at_s, False

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """The inner one's candidate, without the job at that time."""
        candidate = self.inner.propose(view, state, n)[0]
        if self.done:
            return [candidate]
        running = self.job in view.running and view.job(self.job).status is JobStatus.RUNNING
        if view.now < self.at_s or not running:
            return [replace(candidate, wake_s=self.at_s)]
        self.done = True
        placements = {job: gpus for job, gpus in candidate.plan.placements.items() if job != self.job}
        return [replace(candidate, plan=Plan(placements), reasons={**candidate.reasons, self.job: "to see it stop"})]


class WrongOnce(_Wrapped):
    """Plans something impossible at its first cycle with waiting jobs."""

    def __init__(self, inner: Planner, wrong: dict[str, Placement]) -> None:
        super().__init__(inner)
        self.wrong, self.done = wrong, False

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """Nonsense, then the inner one's candidates."""
        if self.done or not view.waiting:
            return self.inner.propose(view, state, n)
        self.done = True
        return [Candidate(Plan(self.wrong), state)]


def impossible() -> list[tuple[dict[str, Placement], str]]:
    """Plans for two jobs, a and b, of two GPUs each, that no world can carry out; and the checker's words."""
    return [
        ({"nobody": (0, 1)}, "there is no such job"),
        ({"a": (0,)}, "it has 1 workers"),
        ({"a": (0, 0)}, "GPU 0 is named twice"),
        ({"a": (0, 1_000_000)}, "there is no GPU 1000000"),
        ({"a": (0, 1), "b": (1, 2)}, "GPU 1 is given twice"),
    ]


class Fixed(Planner):
    """Given placements for given jobs, whenever they are there."""

    name = "check"

    def __init__(self, placements: dict[str, Placement], shares_gpus: bool = False, resizes: bool = False) -> None:
        self.placements, self.shares_gpus, self.resizes = placements, shares_gpus, resizes

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """The same as always."""
        here = {job: gpus for job, gpus in self.placements.items() if job in view.waiting or job in view.running}
        return [Candidate(Plan(here), state, dict.fromkeys(here, "as planned"))]


class Shift(Interleave):
    """Gates the first task of a job as it starts, and frees it at the next cycle."""

    name = "check"
    shifts = True

    def __init__(self, period_s: float) -> None:
        self.period_s = period_s

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """A gate for each job that starts."""
        plan = candidates[0].plan
        gates = {job: Gate(view.now, self.period_s) for job in plan.placements if job in view.waiting}
        return Pick(
            replace(candidates[0], plan=replace(plan, gates=gates)), state, dict.fromkeys(gates, "to see it wait")
        )


class OneAtATime(Pace):
    """One transfer per server."""

    name = "check"
    holds_back = True

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """One job at most."""
        return Admission("at-most", 1)
