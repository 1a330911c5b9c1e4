"""Worlds with agents, local and Slurm: they can pace transfers, and shift jobs whose scripts nobody may change."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.events import Event
from weft.model.plan import Decision
from weft.policies.pace.base import Pace
from weft_live.agent.control import Control
from weft_live.agent.fabric import addresses
from weft_live.agent.plane import Placed, Plane, refuse_simulated, steers
from weft_live.agent.processes import may_trace
from weft_live.agent.wire import has_grpc
from weft_live.attempt import Progress
from weft_live.clock import Clock
from weft_live.engine import Site, refuse_own
from weft_live.local import LocalWorld
from weft_live.local.engine import DryWorld, LocalEngine
from weft_live.slurm.engine import SlurmEngine
from weft_live.slurm.notes import uid_of
from weft_live.slurm.world import SlurmWorld
from weft_live.waiting import LiveWorld


class Steered(LiveWorld[Any]):
    """What worlds with agents do beside their own work: the agents hear of decisions and of where jobs are."""

    plane: Plane

    @abstractmethod
    def placed(self, now: float) -> Mapping[str, Placed]:
        """Where the jobs are that agents are to see."""

    def left(self, job_id: str) -> int:
        """Iterations that a job has to go; of one that reports nothing, as many are done as agents have seen phases."""
        task = self.tasks.get(job_id)
        if task is None:
            return 0
        seen = self.plane.control.own_s(job_id)[0] if self.plane.control is not None else 0
        left: int = task.job.iterations - max(self.iterations_done(job_id), task.saved + seen)
        return max(left, 0)

    def observed(self, job_id: str, told: Progress) -> Progress:
        """What agents have seen counts, too."""
        return self.plane.observed(job_id, told)

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """As the world does it; agents hear of it first."""
        self.plane.decided(decisions)
        return super().apply(decisions)  # type: ignore[safe-super]  # the world that this is mixed into

    def events(self, now: float) -> list[Event]:
        """As the world tells them; agents hear of what has changed."""
        events = super().events(now)  # type: ignore[safe-super]
        self.plane.look(self.placed(now), now)
        return events

    def close(self) -> None:
        """Agents end with the server, or notice and let go of everything; jobs run on."""
        self.plane.close()
        super().close()


class PacedWorld(Steered, LocalWorld):
    """Local processes. Agents are there if the pace needs them, or as soon as a gate must act from outside."""

    capabilities = replace(LocalWorld.capabilities, pacing=True)

    def __init__(
        self, cluster: Cluster, folder: Path, clock: Clock | None = None, *, open: bool = False,
        say: Callable[[str], None] = lambda text: None, switches: str = "",
    ) -> None:  # fmt: skip
        super().__init__(cluster, folder, clock, open=open)
        self.switches = switches
        self.plane = Plane(cluster, self.clock, self.make_control, say, self.left)

    @property
    def control(self) -> Control | None:
        """The agents, if they are there."""
        return self.plane.control

    def hosts(self) -> Mapping[str, str]:
        """Hosts and their network namespaces: here one, for all servers that are pretended."""
        return {"local": ""}

    def make_control(self, pace: Pace) -> Control:
        """Agents for this world."""
        return Control(
            self.cluster, pace, self.folder, self.hosts(), alias="local", switches=self.switches, say=self.plane.say
        )

    def set_pace(self, pace: Pace) -> None:
        """Start the agents, if the pace is more than the network's own sharing."""
        refuse_simulated(pace)
        self.plane.pace = pace
        if steers(pace):
            if not may_trace():
                raise InputError(
                    f"pace {pace.name}: an agent may not look into other processes here; run weft serve as root, or "
                    "set kernel.yama.ptrace_scope to 0"
                )
            self.plane.open()

    def placed(self, now: float) -> Mapping[str, Placed]:
        """Jobs that have an attempt."""
        able = self.control is not None or (has_grpc() and may_trace())  # a gate still acts where the job asks for it
        placed = {}
        for job, task in self.tasks.items():
            if task.attempt is not None:
                ran_s = now - task.started_s if able and task.running else 0.0
                placed[job] = self.plane.placed(task.gpus, task.starts, task.gate, task.attempt, ran_s)
        return placed


class PacedLocalEngine(LocalEngine):
    """Local processes with agents; `switches` is where `weft switch` processes listen."""

    def __init__(self, switches: str = "") -> None:
        self.switches = switches

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> PacedLocalEngine:
        """From the options of `weft serve`."""
        refuse_own(cls.name, options)
        addresses(options.get("switches", ""))
        return cls(options.get("switches", ""))

    def open(self, site: Site) -> LocalWorld:
        """A world that starts processes or, in a dry run, only says what it would do."""
        if site.dry_run:
            world = DryWorld(site.cluster, site.folder, site.clock, site.say)
            world.capabilities = PacedWorld.capabilities
            return world
        return PacedWorld(site.cluster, site.folder, site.clock, open=True, say=site.say, switches=self.switches)


class PacedSlurmWorld(Steered, SlurmWorld):
    """A Slurm whose nodes run `weft agent`; the agents call the server at `listen`."""

    capabilities = replace(SlurmWorld.capabilities, pacing=True)

    def __init__(self, *args: Any, listen: str, switches: str = "", **more: Any) -> None:
        super().__init__(*args, **more)
        self.plane = Plane(self.cluster, self.clock, self._make_control, self.say, self.left)
        self._listen, self._switches = listen, switches

    def _make_control(self, pace: Pace) -> Control:
        return Control(self.cluster, pace, self.folder, {}, listen=self._listen, switches=self._switches, say=self.say)

    def set_pace(self, pace: Pace) -> None:
        """Agents may come, whatever the pace is: a gate may have to act from outside."""
        refuse_simulated(pace)
        self.plane.pace = pace
        self.say(f"agents of nodes are awaited at {self.plane.open().service.address}")

    def placed(self, now: float) -> Mapping[str, Placed]:
        """Jobs that have been released."""
        placed = {}
        for job, task in self.tasks.items():
            if not task.waits:
                ran_s = 0.0 if task.started_s is None else now - task.started_s
                attempt = self.attempt(job, task.starts)
                owner = (uid_of(task.description), task.key if task.key.isdecimal() else "")
                placed[job] = self.plane.placed(task.gpus, task.starts, task.gate, attempt, ran_s, owner)
        return placed


@dataclass(frozen=True)
class PacedSlurmEngine(SlurmEngine):
    """Slurm with agents on its nodes, if `listen` says where they call."""

    listen: str = ""
    switches: str = ""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> PacedSlurmEngine:
        """From the options of `weft serve`."""
        plain = SlurmEngine.from_options(options)
        addresses(options.get("switches", ""))
        return cls(**vars(plain), listen=options.get("agents", ""), switches=options.get("switches", ""))

    def open(self, site: Site) -> SlurmWorld:
        """The world; in a dry run, one that only says what it would do."""
        world = super().open(site)
        if self.listen and site.dry_run:
            world.capabilities = PacedSlurmWorld.capabilities
        return world

    def make(self, site: Site, folder: Path, **more: Any) -> SlurmWorld:
        """With agents, if they are to come."""
        if not self.listen or site.dry_run:
            return super().make(site, folder, **more)
        return PacedSlurmWorld(
            site.cluster, folder, self.slurm, site.clock, listen=self.listen, switches=self.switches, **more
        )
