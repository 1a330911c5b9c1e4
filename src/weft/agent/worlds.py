"""PacedWorld: a local world whose jobs have agents, so that it can pace, and shift jobs that nobody may touch.

A gate acts where it is most precise: in the communication hook of a job started by `weft run`, else where a script
calls `weft.progress`, else from outside, by an agent that holds the job's sockets until its slot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weft.agent.control import Control
from weft.agent.sockets import may_trace
from weft.agent.wire import has_grpc
from weft.errors import InputError
from weft.live.attempt import Attempt, Progress
from weft.live.clock import Clock
from weft.live.engine import Site
from weft.live.local import LocalWorld, Task
from weft.live.local.engine import DryWorld, LocalEngine
from weft.model.cluster import Cluster
from weft.model.events import Event
from weft.model.plan import Decision, Gate, Start
from weft.pace.base import Pace


class PacedWorld(LocalWorld):
    """See the module. Agents are there if the pace needs them, or as soon as a gate must act from outside."""

    capabilities = replace(LocalWorld.capabilities, pacing=True)

    def __init__(
        self, cluster: Cluster, folder: Path, clock: Clock | None = None, *, open: bool = False,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:  # fmt: skip
        super().__init__(cluster, folder, clock, open=open)
        self.tells_s = 5.0  # a job that has reported nothing for so long is held from outside
        self.control: Control | None = None
        self._pace: Pace | None = None
        self._outside: dict[str, Gate | None] = {}  # gates that agents carry out
        self._say = say

    def hosts(self) -> Mapping[str, str]:
        """Hosts and their network namespaces: here one, for all servers that are pretended."""
        return {"local": ""}

    def make_control(self, pace: Pace) -> Control:
        """Agents for this world."""
        return Control(self.cluster, pace, self.folder, self.hosts(), alias="local")

    def set_pace(self, pace: Pace) -> None:
        """Start the agents, if the pace is more than the network's own sharing."""
        self._pace = pace
        rated = pace.rates() is not None and not pace.natural
        if rated or pace.admission(1e-9, 0.0).kind != "all":  # real links share without loss
            if not may_trace():
                raise InputError(
                    f"pace {pace.name}: an agent may not look into other processes here; run weft serve as root, or "
                    "set kernel.yama.ptrace_scope to 0"
                )
            self._have_agents()

    def _have_agents(self) -> Control:
        if self.control is None:
            assert self._pace is not None
            self.control = self.make_control(self._pace)
            self._say("agents pace TCP sockets; shared memory, RDMA and NVLink cannot be paced")
            for job, task in self.tasks.items():
                if task.attempt is not None:
                    self.control.add(job, task.gpus)
        return self.control

    def progress(self, task: Task, attempt: Attempt) -> Progress:
        """Of a job that reports nothing, what its agents have seen: phases, and the length of its iterations."""
        told = super().progress(task, attempt)
        if told.reports or self.control is None:
            return told
        return Progress(-1, -1, *self.control.own_s(task.job.id))  # a phase may be less than an iteration

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """As in a local world; agents hear of it too."""
        for decision in decisions:
            if isinstance(decision, Start):
                self._outside.pop(decision.job, None)
                if self.control is not None:
                    self.control.add(decision.job, decision.gpus, turn=decision.turn[0])
        return super().apply(decisions)

    def events(self, now: float) -> list[Event]:
        """As in a local world; jobs that report nothing are shifted from outside."""
        events = super().events(now)
        if self.control is not None:
            self.control.mend()
            for job in self.control.conductor.members.keys() - self.tasks.keys():
                self.control.remove(job)
        for job, task in self.tasks.items():
            if task.attempt is None or not task.running or (task.gate is None and job not in self._outside):
                continue
            if self.control is None and not (has_grpc() and may_trace()):
                continue  # a gate still acts where the job asks for it
            silent = now - task.started_s > self.tells_s and task.attempt.progress().reports == 0
            wanted = task.gate if silent else None
            if wanted != self._outside.get(job):
                self._outside[job] = wanted
                self._have_agents().set_gate(job, self._seconds(wanted))
        return events

    def _seconds(self, gate: Gate | None) -> dict[str, float] | None:
        """A gate by the machine's clock."""
        if gate is None:
            return None
        epoch = float(self.clock.monotonic(gate.epoch_s))
        return {"epoch": epoch, "period": float(gate.period_s), "tolerance": float(gate.tolerance)}

    def close(self) -> None:
        """Agents end with the server, and let go of everything; jobs run on."""
        if self.control is not None:
            self.control.close()
        super().close()


class PacedLocalEngine(LocalEngine):
    """Local processes with agents."""

    def open(self, site: Site) -> LocalWorld:
        """Processes, or words."""
        if site.dry_run:
            world = DryWorld(site.cluster, site.folder, site.clock, site.say)
            world.capabilities = PacedWorld.capabilities
            return world
        return PacedWorld(site.cluster, site.folder, site.clock, open=True, say=site.say)
