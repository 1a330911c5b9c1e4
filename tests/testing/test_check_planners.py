from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from weft.core.layered import Layered
from weft.model import Candidate, Gate, Plan, State
from weft.model.view import ClusterView
from weft.policies.interleave.base import Interleave, NoInterleave, Pick
from weft.policies.order.fifo import Fifo
from weft.policies.pace.base import Admission, Pace
from weft.policies.place.fitting import FirstFit
from weft.policies.planners.base import Planner
from weft.testing import check_interleave, check_pace, check_planner


class Joint(Planner):
    """A right planner to break."""

    name = "joint"

    def __init__(self) -> None:
        self.inner = Layered(Fifo(backfill=True), FirstFit())

    def initial_state(self) -> State:
        return self.inner.initial_state()

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return [self.change(view, c) for c in self.inner.propose(view, state, n)]

    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        return candidate


class ProposesNothing(Joint):
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return []


class ProposesTooMany(Joint):
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return super().propose(view, state, n + 3)


class ProposesTheSameTwice(Joint):
    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        return super().propose(view, state, 1) * n


class PlansTheImpossible(Joint):
    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        everyone = {job: tuple(range(v.job.gpus)) for job, v in view.waiting.items()}
        return replace(candidate, plan=Plan({**view.placements, **everyone}))


class StopsWithoutReason(Joint):
    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        kept = {job: gpus for job, gpus in candidate.plan.placements.items() if job != "job3"}
        return replace(candidate, plan=Plan(kept)) if view.now > 5 else candidate


class ResizesQuietly(Joint):
    def change(self, view: ClusterView, candidate: Candidate) -> Candidate:
        smaller = {
            job: gpus[: view.job(job).job.sizes[0]] if job in view.waiting else gpus
            for job, gpus in candidate.plan.placements.items()
        }
        return replace(candidate, plan=Plan(smaller))


PLANNERS: list[tuple[type[Planner], str]] = [
    (ProposesNothing, "returns 0 candidates"),
    (ProposesTooMany, "asked for"),
    (ProposesTheSameTwice, "the same plan twice"),
    (PlansTheImpossible, "plans the impossible"),
    (StopsWithoutReason, "gives no reason"),
    (ResizesQuietly, "says it never resizes"),
]


def test_right_planner_passes() -> None:
    check_planner(Joint, workloads=range(2))


@pytest.mark.parametrize(("planner", "text"), PLANNERS, ids=[planner.__name__ for planner, _ in PLANNERS])
def test_broken_planner_is_caught(planner: type[Planner], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_planner(planner)


class Shifts(NoInterleave):
    """A right interleave to break: it gates the first task of every job that starts or runs."""

    name = "shifts"
    shifts = True
    gate: ClassVar[Gate] = Gate(0.0, 1.0)
    reason: ClassVar[str] = "shifted"

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        plan = candidates[0].plan
        gates = dict.fromkeys(plan.placements, self.gate)
        return Pick(replace(candidates[0], plan=replace(plan, gates=gates)), state, dict.fromkeys(gates, self.reason))


class ShiftsQuietly(Shifts):
    shifts = False


class ShiftsATaskThatIsNotThere(Shifts):
    gate = Gate(0.0, 1.0, task=99)


class InventsAPlan(NoInterleave):
    name = "invents"

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        few = dict(list(candidates[0].plan.placements.items())[:1])
        return Pick(replace(candidates[0], plan=Plan(few)), state)


class MixesStates(NoInterleave):
    name = "mixes"

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        return Pick(replace(candidates[0], state={"order": {}, "place": {"mine": 1}}), state)


class GatesStrangers(Shifts):
    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        pick = super().pick(view, candidates, state)
        plan = replace(pick.candidate.plan, gates={"stranger": self.gate})
        return replace(pick, candidate=replace(pick.candidate, plan=plan))


class GatesForNoReason(Shifts):
    reason = ""


class WantsNoCandidates(NoInterleave):
    candidates = 0


INTERLEAVES: list[tuple[type[Interleave], str]] = [
    (ShiftsQuietly, "says it never shifts"),
    (ShiftsATaskThatIsNotThere, "there is no task 99"),
    (InventsAPlan, "a plan that nobody proposed"),
    (MixesStates, "another's state"),
    (GatesStrangers, "which the plan does not place"),
    (GatesForNoReason, "gives no reason for"),
    (WantsNoCandidates, "the least is 1"),
]


def test_right_interleave_passes() -> None:
    check_interleave(Shifts, workloads=range(2))


@pytest.mark.parametrize(("interleave", "text"), INTERLEAVES, ids=[policy.__name__ for policy, _ in INTERLEAVES])
def test_broken_interleave_is_caught(interleave: type[Interleave], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_interleave(interleave)


class Rule(Pace):
    """Whatever rule it is told."""

    name = "rule"

    def __init__(self, rule: Admission, holds_back: bool = True) -> None:
        self.rule, self.holds_back = rule, holds_back

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        return self.rule


@pytest.mark.parametrize(
    ("pace", "text"),
    [
        (Rule(Admission("some")), "kind 'some' is none of"),
        (Rule(Admission("at-most", 0)), "k is 0"),
        (Rule(Admission("at-most", 1), holds_back=False), "does not say so"),
        (Rule(Admission("ratio", 2, ())), "are not 1 numbers for k = 2"),
        (Rule(Admission("ratio", 2, (float("nan"),))), "are not 1 numbers"),
    ],
)
def test_broken_pace_is_caught(pace: Pace, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check_pace(lambda: pace)


def test_right_pace_passes() -> None:
    check_pace(lambda: Rule(Admission("ratio", 2, (2.549,))))
    check_pace(lambda: Rule(Admission("at-most", 2)))


class Fickle(Rule):
    calls = 0

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        Fickle.calls += 1
        return Admission("at-most", Fickle.calls)


def test_fickle_pace_is_caught() -> None:
    with pytest.raises(AssertionError, match="answers the same question differently"):
        check_pace(lambda: Fickle(Admission()))
