"""LocalEngine: processes on this machine, on GPUs that are pretended; in a dry run nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.model.cluster import Cluster
from weft.model.events import Event, Started, Stopped
from weft.model.plan import Decision, Gate, Start, Stop
from weft.network.topologies import Machine, leaf_spine
from weft_live.clock import Clock
from weft_live.engine import Site
from weft_live.local import LocalTask, LocalWorld
from weft_live.waiting import would


class LocalEngine:
    """Jobs come by `weft submit`, from the owner of the folder."""

    name = "local"
    submits = ""
    profile_folders = None

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> LocalEngine:
        """It has no options."""
        return cls()

    def cluster(self, seed: int, say: Callable[[str], None]) -> Cluster:
        """Two racks of two servers with four GPUs each."""
        return leaf_spine(2, 2, Machine(gpus_per_server=4))

    def refuse(self, cluster: Cluster, folder: Path) -> None:
        """Anything can be pretended."""

    def layers(
        self, layers: tuple[str | None, ...], default: str, say: Callable[[str], None]
    ) -> tuple[str | None, ...]:
        """As they are."""
        return layers

    def jobs_folder(self, folder: Path) -> Path:
        """In the folder of the run."""
        return folder / "jobs"

    def open(self, site: Site) -> LocalWorld:
        """A world that starts processes or, in a dry run, only says what it would do."""
        if site.dry_run:
            return DryWorld(site.cluster, site.folder, site.clock, site.say)
        return LocalWorld(site.cluster, site.folder, site.clock, open=True)


class DryWorld(LocalWorld):
    """Every start and stop succeeds at once, in words only; jobs never end."""

    def __init__(self, cluster: Cluster, folder: Path, clock: Clock, say: Callable[[str], None]) -> None:
        super().__init__(cluster, folder, clock, open=True)
        self._say = say

    def adopt(self, task: LocalTask, gate: Gate | None) -> None:
        """A job as it was left; whatever runs of it is not touched."""
        task.attempt = None
        self.tasks[task.job.id] = task

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Say what would be done."""
        events: list[Event] = []
        now = self.now()
        for decision in decisions:
            job_id, where = decision.job, ""
            if isinstance(decision, Start):
                self.tasks[job_id].gpus, where = decision.gpus, f"GPUs {' '.join(map(str, decision.gpus))}"
                events.append(Started(now, job_id))
            elif isinstance(decision, Stop):
                events.append(Stopped(now, job_id, self.tasks[job_id].saved, decision.reason))
            self._say(would(decision, where))
        return events
