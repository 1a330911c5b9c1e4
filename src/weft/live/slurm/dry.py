"""DrySlurmWorld: looks at a real Slurm, says what would be done, and does nothing."""

from __future__ import annotations

from collections.abc import Sequence

from weft.live.slurm.reconcile import Look, Phase, Task, look
from weft.live.slurm.records import Record
from weft.live.slurm.world import SlurmWorld
from weft.model.events import Event, Started, Stopped
from weft.model.plan import Decision, Hold, SetGate, Start, Stop

__all__ = ["DrySlurmWorld"]


class DrySlurmWorld(SlurmWorld):
    """Every start and stop succeeds at once, in words only; jobs end when they do in Slurm."""

    def judge(self, task: Task, record: Record | None, now: float) -> Look:
        """What the real job does matters only when it is over."""
        seen = look(task, record, now) if record is None or record.ended else Look()
        return Look(seen.what, seen.words)

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Say what would be done."""
        events: list[Event] = []
        now = self.now()
        for decision in decisions:
            task = self.tasks[decision.job]
            match decision:
                case Start():
                    task.gpus, task.phase, task.started_s = decision.gpus, Phase.RUNNING, now
                    nodes = ", ".join(f"{name}: {n}" for name, n in self.on_nodes(decision.gpus).items())
                    self.say(f"would start {decision.job} on {nodes}: {decision.reason}")
                    events.append(Started(now, decision.job))
                case Stop():
                    task.phase, task.started_s = Phase.WAITING, None
                    self.say(f"would stop {decision.job}: {decision.reason}")
                    events.append(Stopped(now, decision.job, task.saved, decision.reason))
                case SetGate():
                    self.say(f"would gate {decision.job}: {decision.reason}")
                case Hold():
                    self.say(f"would hold {decision.job}: {decision.reason}")
        return events
