"""Recorder: a world whose every word is written down and looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from weft.core.world import Around, World
from weft.model.events import Event, Failed, Finished, Started, Submitted
from weft.model.job import Job
from weft.model.plan import Decision, Start, Stop
from weft.testing.watch import require

__all__ = ["Recorder"]

E = TypeVar("E", bound=Event)


class Recorder(Around):
    """A world whose every word is written down and looked at."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.log: list[Event] = []
        self.decisions: list[Decision] = []

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Passed on, and both sides written down."""
        self.decisions += [d for d in decisions if isinstance(d, Start | Stop)]
        return self._heard(self._world.apply(decisions))

    def next_events(self, until_s: float | None) -> list[Event]:
        """Passed on; time must not run backwards, nor past the bound without a word."""
        before = self._world.now()
        events = self._heard(self._world.next_events(until_s))
        now = self._world.now()
        require(now >= before, f"time went from {before} s back to {now} s")
        if until_s is not None:
            require(bool(events) or now >= until_s, f"asked for events until {until_s} s, it came back at {now} s")
        return events

    def _heard(self, events: list[Event]) -> list[Event]:
        now = self._world.now()
        for event in events:
            require(event.time_s <= now, f"{event} is reported at {now} s, before it happened")
            last = self.log[-1].time_s if self.log else event.time_s
            require(event.time_s >= last, f"{event} is reported after an event of {last} s")
            self.log.append(event)
        return events

    def seen(self, kind: type[E]) -> list[E]:
        """Events of one kind."""
        return [event for event in self.log if isinstance(event, kind)]

    def all_finished(self, jobs: Sequence[Job]) -> None:
        """Each job was submitted once, every start answered, every finish reported once and after a start."""
        submitted = Counter(event.job.id for event in self.seen(Submitted))
        require(submitted == Counter(job.id for job in jobs), f"submitted were {dict(submitted)}; each job is, once")
        finished = Counter(event.job for event in self.seen(Finished))
        require(finished == Counter(job.id for job in jobs), f"finished are {dict(finished)}; each job should, once")
        asked = Counter(d.job for d in self.decisions if isinstance(d, Start))
        answered = Counter(event.job for event in self.log if isinstance(event, Started | Failed))
        require(asked == answered, f"starts asked for {dict(asked)}, answered {dict(answered)}")
        for job in jobs:
            mine = [type(e) for e in self.log if not isinstance(e, Submitted) and getattr(e, "job", None) == job.id]
            require(mine[-1] is Finished and Started in mine, f"{job.id} went {[kind.__name__ for kind in mine]}")
