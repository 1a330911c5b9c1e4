"""A world of another package, as its author would write it: jobs are timers. `test_third_party.py` installs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.core.capabilities import Capabilities
from weft.model.cluster import Cluster
from weft.model.events import Event, Finished, Started, Stopped, Withdrawn
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Start, Stop
from weft.model.reason import because
from weft.model.view import Fact, JobView
from weft.network.topologies import Machine, single_switch
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.ending import Faults
from weft_live.engine import Site
from weft_live.waiting import LiveWorld


@dataclass
class Timer:
    """A job: iterations that it had, and since when it has been counting."""

    job: Job
    saved: int = 0
    since_s: float | None = None
    cancelled: bool = False

    def done(self, now: float) -> int:
        """Iterations up to now."""
        ran_s = 0.0 if self.since_s is None else now - self.since_s
        return min(self.saved + int(ran_s / self.job.profile.compute_s), self.job.iterations)


class TimerWorld(LiveWorld[Timer]):
    """Starts and stops take no time."""

    name = "timers"
    capabilities = Capabilities()
    facts = frozenset(Fact)

    def __init__(self, cluster: Cluster, folder: Path, clock: Clock) -> None:
        super().__init__(cluster, folder, clock, open=True)

    def submit(self, job: Job, description: Description) -> None:
        self._will_arrive(Timer(job))

    def cancel(self, job_id: str) -> bool:
        if job_id in self.tasks:
            self.tasks[job_id].cancelled = True
        return job_id in self.tasks

    def take_over(
        self, view: JobView, description: Description, starts: int, faults: Faults, cancelled: bool, gate: Gate | None
    ) -> None:
        self.tasks[view.id] = Timer(view.job, view.saved_iterations, view.started_s, cancelled)

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        events: list[Event] = []
        now = self.now()
        for decision in decisions:
            timer = self.tasks[decision.job]
            if isinstance(decision, Start):
                timer.since_s = now
                events.append(Started(now, decision.job))
            elif isinstance(decision, Stop):
                timer.saved, timer.since_s = timer.done(now), None
                events.append(Stopped(now, decision.job, timer.saved, "its timer was stopped"))
        return events

    def iterations_done(self, job_id: str) -> int:
        return self.tasks[job_id].done(self.now())

    def events(self, now: float) -> list[Event]:
        events = self._arrived(now)
        for job_id, timer in list(self.tasks.items()):
            if timer.cancelled or timer.done(now) >= timer.job.iterations:
                del self.tasks[job_id]
                self.outcomes[job_id] = because("live.cancelled") if timer.cancelled else "its time was up"
                events.append(Withdrawn(now, job_id) if timer.cancelled else Finished(now, job_id))
        return events

    def busy(self) -> bool:
        return bool(self._arrivals or self.tasks)

    def next_time(self) -> float:
        return self.now() + 0.05


class TimerEngine:
    """What `weft serve --world timers` finds."""

    name = "timers"
    submits = ""
    profile_folders = None

    def __init__(self, gpus_per_server: int) -> None:
        self.gpus_per_server = gpus_per_server

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> TimerEngine:
        return cls(int(options["own"].get("gpus", 2)))

    def cluster(self, seed: int, say: Callable[[str], None]) -> Cluster:
        return single_switch(2, Machine(gpus_per_server=self.gpus_per_server))

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Everything goes."""

    def layers(
        self, layers: tuple[str | None, ...], default: str, say: Callable[[str], None]
    ) -> tuple[str | None, ...]:
        return layers

    def jobs_folder(self, folder: Path) -> Path:
        return folder / "jobs"

    def open(self, site: Site) -> TimerWorld:
        return TimerWorld(site.cluster, site.folder, site.clock)
