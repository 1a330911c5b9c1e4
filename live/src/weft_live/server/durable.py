"""Durable: a world whose decisions are carried out only after the ledger holds them and the state they came from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from weft.core.cycle import Core
from weft.core.world import Around, World
from weft.model.events import Event, Finished, Learned, NodeDown, NodeUp, Started, Submitted, Withdrawn
from weft.model.job import Job
from weft.model.plan import Decision, SetGate
from weft.model.reason import Why
from weft.model.view import JobView, Spread
from weft_live.measured import Claims
from weft_live.server.ledger import End, EventRow, Ledger
from weft_live.server.snapshot import Saver
from weft_live.words import status_of

Outcome = Callable[[str], Why]  # how a job ended


class Durable(Around):
    """Any world, with a ledger between it and the core's decisions.

    Events need no log of their own: if the ledger does not hold an event yet, the world reports it again to the next
    server, because its cause can still be seen (a job submitted, a process ended)."""

    def __init__(self, world: World, ledger: Ledger, outcome: Outcome) -> None:
        super().__init__(world)
        self._ledger = ledger
        self._outcome = outcome
        self.core: Core | None = None  # set when it is there: it is made with this world
        self.on_decided: Callable[[Sequence[Event], Sequence[Decision], float], None] | None = None
        self._events: list[Event] = []  # reported and not yet kept
        self._leaving: dict[str, JobView] = {}  # jobs that these events ended, as the core knew them in the end
        self._since = 0.0
        self._kept_cycle = -1
        self._saver = Saver()
        self.claims = Claims(ledger.meta("claims"))
        self._told = False  # whether the ledger is to keep what claims were worth

    def next_events(self, until_s: float | None) -> list[Event]:
        """What the world reports."""
        events = self._world.next_events(until_s)
        self._since = time.perf_counter()
        return self._heard(events)

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Keep what was decided, then have it carried out."""
        self.keep(decisions)
        return self._heard(self._world.apply(decisions))

    def keep(self, decisions: Sequence[Decision] = ()) -> None:
        """Write the core's state and the events it has taken."""
        if self.core is None or (not self._events and self.core.cycle == self._kept_cycle):
            return
        self._kept_cycle = self.core.cycle
        ended = [self._ended(event) for event in self._events if isinstance(event, Finished | Withdrawn)]
        rows = [self._row(event) for event in self._events]
        touched = {decision.job for decision in decisions if not isinstance(decision, SetGate)}
        touched |= {job for event in self._events if (job := _job_of(event))}
        self._ledger.keep(self._saver.changes(self.core, touched), [row for row in rows if row], ended)
        if self._told:
            self._ledger.set_meta("claims", self.claims.entries)
        self._told = False
        if self.on_decided is not None:
            self.on_decided(self._events, decisions, time.perf_counter() - self._since)
        self._events = []
        self._leaving.clear()

    def _heard(self, events: list[Event]) -> list[Event]:
        events = [each for event in events for each in (event, *self._corrected(event))]
        self._events += events
        if self.core is not None:
            self.core.table.on_end = self._left
        return events

    def _corrected(self, event: Event) -> list[Learned]:
        """How long weft expects a new job to be, where its user's earlier jobs took longer than claimed."""
        if not isinstance(event, Submitted) or self.claims.times(event.job.user) == 1.0:
            return []
        return self.claims.corrected(self._ledger.said(event.job.id), self._alone_s(event.job), event.time_s)

    def _alone_s(self, job: Job) -> float:
        """Seconds of an iteration of it, by what is known of its kind."""
        return self.estimate(job, job.gpus, Spread.closest(self.cluster, job.gpus)).iteration_s

    def _left(self, job: JobView) -> None:
        self._leaving[job.id] = job

    def _ended(self, event: Finished | Withdrawn) -> End:
        view = self._leaving.get(event.job)
        run_s = view.run_s if view else 0.0
        why, finished, said = self._outcome(event.job), isinstance(event, Finished), self._ledger.said(event.job)
        if view and run_s:
            claimed_s = said.iterations * self._alone_s(view.job)
            self._told |= self.claims.ended(said, finished, claimed_s, run_s)
        if finished:
            return End(event.job, "finished", event.time_s, run_s, said.iterations or 1, why)
        return End(event.job, status_of(why), event.time_s, run_s, view.saved_iterations if view else 0, why)

    def _row(self, event: Event) -> EventRow | None:
        job = _job_of(event)
        if job is None:
            return None
        silent = isinstance(event, Submitted | Started)
        why = "" if silent else getattr(event, "reason", "") or self._outcome(job)
        return EventRow(event.time_s, job, type(event).__name__.lower(), why)


def _job_of(event: Event) -> str | None:
    """The job that it is about, if it is about one."""
    if isinstance(event, NodeDown | NodeUp):
        return None
    return event.job.id if isinstance(event, Submitted) else event.job
