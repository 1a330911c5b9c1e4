"""DryWorld: the local world with its hands tied. Decisions are said, believed, and not carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from weft.live.clock import Clock
from weft.live.local import LocalWorld, Task
from weft.model.cluster import Cluster
from weft.model.events import Event, Started, Stopped
from weft.model.plan import Decision, Gate, Hold, SetGate, Start, Stop

__all__ = ["DryWorld"]


class DryWorld(LocalWorld):
    """Every start and stop succeeds at once, in words only; jobs never end."""

    def __init__(self, cluster: Cluster, folder: Path, clock: Clock, say: Callable[[str], None]) -> None:
        super().__init__(cluster, folder, clock, open=True)
        self._say = say

    def adopt(self, task: Task, gate: Gate | None) -> None:
        """A job as it was left; whatever runs of it is not touched."""
        task.attempt = None
        self.tasks[task.job.id] = task

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Say what would be done."""
        events: list[Event] = []
        now = self.now()
        for decision in decisions:
            job_id = decision.job
            match decision:
                case Start():
                    self.tasks[job_id].gpus = decision.gpus
                    self._say(f"would start {job_id} on GPUs {' '.join(map(str, decision.gpus))}: {decision.reason}")
                    events.append(Started(now, job_id))
                case Stop():
                    self._say(f"would stop {job_id}: {decision.reason}")
                    events.append(Stopped(now, job_id, self.tasks[job_id].saved, decision.reason))
                case SetGate():
                    self._say(f"would gate {job_id}: {decision.reason}")
                case Hold():
                    self._say(f"would hold {job_id}: {decision.reason}")
        return events
