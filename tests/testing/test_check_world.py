from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from weft.core.capabilities import Capabilities
from weft.model import Decision, Event, Finished, Job, SetGate, Start, Started, Stop, Stopped, Submitted
from weft.model.view import Estimate, Spread
from weft.testing import EVERYTHING, ToyWorld, check_world, toy_cluster


def check(world: type[ToyWorld], capabilities: Capabilities = EVERYTHING) -> None:
    def make(jobs: Sequence[Job], **asked: Any) -> ToyWorld:
        return world(toy_cluster(), jobs, capabilities=capabilities, **asked)

    check_world(make)


@pytest.mark.parametrize("can", [EVERYTHING, Capabilities(), Capabilities(gpu_indices=False, uneven=False)])
def test_toy_world_conforms(can: Capabilities) -> None:
    check(ToyWorld, can)


def test_small_clusters_will_do() -> None:
    check_world(lambda jobs, **asked: ToyWorld(toy_cluster(1, 4, 1), jobs, **asked))


def telling(name: str, tell: Callable[[list[Event]], list[Event]], of: str = "next_events") -> type[ToyWorld]:
    """A world that tells something else of what happens, or of what is asked of it (`apply`)."""
    return type(name, (ToyWorld,), {of: lambda self, asked: tell(getattr(ToyWorld, of)(self, asked))})


def only(kind: type, events: Iterable[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


class IgnoresStops(ToyWorld):
    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        return super().apply([d for d in decisions if not isinstance(d, Stop)])


class ForgetsFinishes(ToyWorld):
    def next_events(self, until_s: float | None) -> list[Event]:
        events = super().next_events(until_s)
        left = [event for event in events if not (isinstance(event, Finished) and event.job == "job3")]
        return left or (super().next_events(until_s) if events else [])


class RunsBackwards(ToyWorld):
    def now(self) -> float:
        return -super().now()


class SubmitsTwice(ToyWorld):
    def __init__(self, cluster: Any, jobs: Sequence[Job], **more: Any) -> None:
        super().__init__(cluster, [*jobs, *jobs[:1]], **more)


class LosesAJob(ToyWorld):
    def __init__(self, cluster: Any, jobs: Sequence[Job], **more: Any) -> None:
        super().__init__(cluster, jobs[1:] or jobs, **more)


class ComesBackEarly(ToyWorld):
    def next_events(self, until_s: float | None) -> list[Event]:
        return super().next_events(until_s and until_s * 0.9)


class ForgetsProgress(ToyWorld):
    def iterations_done(self, job_id: str) -> int:
        return 30 - super().iterations_done(job_id)


class StopsBeforeTheEnd(ToyWorld):
    def _stop(self, assignment: Any, reason: str) -> Event:
        return replace(super()._stop(assignment, reason), iterations_done=60)  # type: ignore[type-var]


class StopsByItself(ToyWorld):
    def next_events(self, until_s: float | None) -> list[Event]:
        events = super().next_events(until_s)
        if self.now() > 0.2 and "b" in self._assigned and not any(isinstance(e, Stopped) for e in self.log):
            self.log.append(self._stop(self._assigned["b"], "no reason"))
            events.append(self.log[-1])
        return events


class CannotGate(ToyWorld):
    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        gated = [d for d in decisions if isinstance(d, Start) and d.gate is not None]
        assert not gated, "what is a gate?"
        assert not any(isinstance(d, SetGate) for d in decisions)
        return super().apply(decisions)


class CannotShare(ToyWorld):
    def next_events(self, until_s: float | None) -> list[Event]:
        for job_id, assignment in list(self._assigned.items()):
            for other_id, other in list(self._assigned.items()):
                if job_id < other_id and set(assignment.gpus) & set(other.gpus):
                    self._forget(other_id)
        return super().next_events(until_s)


class EstimatesNothing(ToyWorld):
    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        return replace(super().estimate(job, workers, spread), iteration_s=0.0)


class DependsOnNothing(ToyWorld):
    made = 0

    def __init__(self, cluster: Any, jobs: Sequence[Job], **more: Any) -> None:
        DependsOnNothing.made += 1
        more["latency_s"] = 0.001 * DependsOnNothing.made
        super().__init__(cluster, jobs, **more)


class FailsUnasked(ToyWorld):
    def __init__(self, cluster: Any, jobs: Sequence[Job], **more: Any) -> None:
        super().__init__(cluster, jobs, **{**more, "failure_rate": 0.3})


BROKEN: list[tuple[type[ToyWorld], str]] = [
    (telling("FinishesTwice", lambda events: events + only(Finished, events)), "each job should, once"),
    (ForgetsFinishes, "each job should, once"),
    (telling("NeverConfirms", lambda events: [e for e in events if not isinstance(e, Started)], "apply"), "answered"),
    (telling("ConfirmsTwice", lambda events: events + only(Started, events), "apply"),
     "reported the impossible: Started .* is running"),
    (RunsBackwards, "time went from|before it happened"),
    (telling("ReportsBeforehand", lambda events: [replace(e, time_s=e.time_s + 1.0) for e in events]),
     "before it happened"),
    (telling("ReportsOutOfOrder",
             lambda events: [replace(e, time_s=0.0) if isinstance(e, Finished) else e for e in events]),
     "is reported after an event of"),
    (SubmitsTwice, "ids must differ"),
    (LosesAJob, "each job is, once"),
    (ComesBackEarly, "it came back at"),
    (ForgetsProgress, "it must rise"),
    (IgnoresStops, "one stop was asked for|each job should, once"),
    (StopsBeforeTheEnd, "has 60 of 60|each job should"),
    (StopsByItself, "one stop was asked for"),
    (CannotGate, "what is a gate"),
    (CannotShare, "each job should, once"),
    (EstimatesNothing, "estimate of a is"),
    (DependsOnNothing, "two different runs"),
    (FailsUnasked, "though no failures were asked for"),
]  # fmt: skip


@pytest.mark.parametrize(("world", "text"), BROKEN, ids=[world.__name__ for world, _ in BROKEN])
def test_broken_world_is_caught(world: type[ToyWorld], text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        check(world)


def test_submitted_is_an_event_of_every_world() -> None:
    world = ToyWorld(toy_cluster(), [])
    assert world.next_events(None) == []
    assert world.next_events(5.0) == []
    assert world.now() == 5.0
    assert not [event for event in world.log if isinstance(event, Submitted)]
