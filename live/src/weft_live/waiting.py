"""LiveWorld: what all worlds of real jobs share: a clock, a folder, and one place where they wait for news."""

from __future__ import annotations

import heapq
import selectors
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from weft.core.world import World
from weft.model.cluster import Cluster
from weft.model.events import Event, Submitted
from weft.model.job import Job
from weft.model.plan import Decision, Gate, Hold, SetGate, Start, Stop
from weft.model.reason import Why, because, speak
from weft.model.view import Estimate, JobView, Spread
from weft.network.estimates import Estimates
from weft.policies.pace.base import Pace
from weft_live.attempt import Attempt, Progress
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.ending import BOUNDS, Faults
from weft_live.measured import Speeds


def would(decision: Decision, where: str = "") -> str:
    """What a dry run says of a decision; `where` a job would start."""
    verb = {Start: "start", Stop: "stop", SetGate: "gate", Hold: "hold"}[type(decision)]
    return f"would {verb} {decision.job}{f' on {where}' if where else ''}: {speak(decision.reason)}"


class Closing(Exception):  # noqa: N818 - no error
    """The loop is to end; raised between cycles, where nothing is half done."""


class _Task(Protocol):
    """What a world keeps of a job that has not ended."""

    job: Job


Task = TypeVar("Task", bound=_Task)


class LiveWorld(World, Generic[Task]):
    """A world in real time. With `open` it waits for more jobs when it has nothing to do."""

    def __init__(self, cluster: Cluster, folder: Path, clock: Clock, *, open: bool) -> None:
        self.cluster = cluster
        self.folder = folder
        self.clock = clock
        self.open = open
        self.closing = False
        self.speeds = Speeds(cluster)
        self.tasks: dict[str, Task] = {}  # by the job's name, from its arrival to its end
        self._arrivals: list[tuple[float, int, Task]] = []
        self._number = count()
        self.down: dict[int, Why] = {}  # servers that cannot be used, and why
        self.bounds = BOUNDS
        self.outcomes: dict[str, Why] = {}  # how the last attempt of a job ended
        self.alive: Callable[[], None] = lambda: None  # called whenever there has been something to look at
        self.woke_cpu_s = time.thread_time()  # processor time of this thread when it last woke: what follows is work
        self._looked = time.monotonic()  # when the world was last seen as it is
        self._selector = selectors.DefaultSelector()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def now(self) -> float:
        """Seconds since this world began."""
        return self.clock.now()

    @property
    def estimates(self) -> Estimates:
        """How fast jobs run alone on this network, before anything is measured."""
        return self.speeds.alone

    def estimate(self, job: Job, workers: int, spread: Spread) -> Estimate:
        """Measured where such a job has run, else that of a job alone on the network, as in the simulator."""
        return self.speeds.estimate(job, workers, spread)

    def set_pace(self, pace: Pace) -> None:
        """Nothing to set: the network shares itself, and a stack that wants more is refused."""

    def observed(self, job_id: str, told: Progress) -> Progress:
        """What is known of a job that has reported this; a world that sees its jobs from outside may know more."""
        return told

    def attempt(self, job_id: str, number: int) -> Attempt:
        """The attempt of that number, by its folder."""
        return Attempt(self.folder / "jobs" / job_id / str(number))

    def begin_with(self, down: Iterable[int]) -> None:
        """Servers that the core believes to be lost; a world that watches its servers says when one is back."""
        self.down = dict.fromkeys(down, because("live.node-was-down"))

    def _will_arrive(self, task: Task) -> None:
        """A job that is to be reported at its time of submission."""
        heapq.heappush(self._arrivals, (task.job.submit_s, next(self._number), task))

    def _coming(self) -> list[Task]:
        """Jobs that have not arrived."""
        return [task for _, _, task in self._arrivals]

    def _known(self, job_id: str) -> Task | None:
        """A job that has not ended, arrived or not."""
        return self.tasks.get(job_id) or next((task for task in self._coming() if task.job.id == job_id), None)

    def _next_arrival_s(self) -> float | None:
        return self._arrivals[0][0] if self._arrivals else None

    def _arrived(self, now: float) -> list[Event]:
        events: list[Event] = []
        while self._arrivals and self._arrivals[0][0] <= now:
            task = heapq.heappop(self._arrivals)[2]
            self.tasks[task.job.id] = task
            events.append(Submitted(now, task.job))
        return events

    def look_age_s(self) -> float:
        """Seconds since the world was last seen as it is."""
        return time.monotonic() - self._looked

    @abstractmethod
    def submit(self, job: Job, description: Description) -> None:
        """A job that has been accepted, to be reported at its time."""

    @abstractmethod
    def cancel(self, job_id: str) -> bool:
        """End a job for good; False if there is no such job any more."""

    @abstractmethod
    def take_over(
        self, view: JobView, description: Description, starts: int, faults: Faults, cancelled: bool, gate: Gate | None
    ) -> None:
        """A job as the last server left it."""

    @abstractmethod
    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Carry out what was decided."""

    @abstractmethod
    def iterations_done(self, job_id: str) -> int:
        """Iterations that a job has done."""

    @abstractmethod
    def events(self, now: float) -> list[Event]:
        """What has happened since the last call."""

    @abstractmethod
    def busy(self) -> bool:
        """Whether something can still happen without a decision."""

    @abstractmethod
    def next_time(self) -> float | None:
        """When to look again even if nobody calls."""

    def next_events(self, until_s: float | None) -> list[Event]:
        """Wait for something to happen; raises Closing when that was asked for."""
        while True:
            events = self.events(self.now())
            self.alive()
            if events:
                return events
            if self.closing:
                raise Closing
            if until_s is not None and self.now() >= until_s:
                return []
            if until_s is None and not self.open and not self.busy():
                return []
            times = [time_s for time_s in (until_s, self.next_time()) if time_s is not None]
            ready = self._selector.select(max(0.0, min(times) - self.now()) if times else None)
            self.woke_cpu_s = time.thread_time()
            for key, _ in ready:
                key.data()

    def watch(self, source: socket.socket, ready: Callable[[], None]) -> None:
        """Call `ready` when there is something to read, while the world waits."""
        self._selector.register(source, selectors.EVENT_READ, ready)

    def forget(self, source: socket.socket) -> None:
        """Watch it no longer."""
        self._selector.unregister(source)

    def close(self) -> None:
        """Let go of sockets; jobs run on."""
        self._selector.close()
