"""Plane: the agents of a world, and what they are told of its jobs.

A world says again and again which jobs are on which GPUs, and with what gates; the plane tells its agents what has
changed. A gate acts where it is most precise: in the communication hook of a job started by `weft run`, else where a
script calls `weft.progress`, else from outside, by an agent that holds the job's sockets until its gate opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from weft.errors import InputError
from weft.model.cluster import Cluster
from weft.model.plan import Decision, Gate, Placement, Start
from weft.policies.pace.base import Pace
from weft_live.agent.conductor import Owner
from weft_live.agent.control import Control
from weft_live.agent.service import listed
from weft_live.attempt import Attempt, Progress
from weft_live.clock import Clock


@dataclass(frozen=True)
class Placed:
    """A job on its GPUs: which start of it this is, its gate, if that must act from outside, and whose it is, if not
    this process's user's."""

    gpus: Placement
    start: int
    outside: Gate | None = None
    owner: Owner | None = None


_RANK_S = 0.25  # seconds between looks at how far jobs are
_SIMULATED = {
    "host_only": "host-only",
    "delay_s": "delay",
    "message_loss": "loss",
    "leaves": "leaves",
    "pauses": "pauses",
}


def refuse_simulated(pace: Pace) -> None:
    """Raise if a setting of the pace says what a network is like, or what hosts do not know: agents find that out."""
    spec = getattr(pace, "spec", None)
    if spec is not None and pace.name.partition(":")[0] == "flow":
        for field, said in _SIMULATED.items():
            if getattr(spec, field, False):
                raise InputError(
                    f"pace {pace.name}: {said} is for simulations; agents carry out slot, slots, fill and quantised"
                )


def steers(pace: Pace) -> bool:
    """Whether agents must act for this pace. Real links share by themselves."""
    rated = pace.rates() is not None and not pace.natural
    return rated or pace.admission(1e-9, 0.0).kind != "all"


class Plane:
    """See the module. `make` starts the services, and the agents of hosts on this machine; `left` says how many
    iterations a job has to go."""

    def __init__(
        self, cluster: Cluster, clock: Clock, make: Callable[[Pace], Control], say: Callable[[str], None],
        left: Callable[[str], int] = lambda job: 0,
    ) -> None:  # fmt: skip
        self.cluster, self.clock, self.say, self._left = cluster, clock, say, left
        self.pace: Pace | None = None
        self.control: Control | None = None
        self.tells_s = 5.0  # a job that has reported nothing for so long is held from outside
        self.turns: dict[str, tuple[float, float]] = {}  # by job; the least p0 + p1 x iterations left sends first
        self._ranked_s = 0.0
        self._make = make
        self._told: dict[str, Placed] = {}
        self._warned: set[tuple[str, str]] = set()
        self.agents_s = 10.0  # an agent that has been away for so long is missed
        self._unsaid: dict[str, float] = {}  # jobs of which nobody has been told yet who paces them, and since when
        self._absent: dict[str, set[str]] = {}  # hosts without an agent, as was said of a job

    def open(self) -> Control:
        """The agents, started if they are not there yet."""
        if self.control is None:
            assert self.pace is not None
            self.control = self._make(self.pace)
        return self.control

    def decided(self, decisions: Iterable[Decision]) -> None:
        """Note the turns of jobs that are about to start."""
        self.turns |= {start.job: start.turn for start in decisions if isinstance(start, Start)}

    def _turn(self, job: str) -> float:
        first, each = self.turns.get(job, (0.0, 0.0))
        return first + each * self._left(job) if each else first

    def _rank(self, now: float) -> None:
        """Turns move on with every iteration."""
        assert self.control is not None
        if now < self._ranked_s + _RANK_S or not steers(self.control.conductor.pace):
            return
        self._ranked_s = now
        self.control.set_turns({job: self._turn(job) for job in self._told if self.turns.get(job, (0.0, 0.0))[1]})

    def placed(
        self, gpus: Placement, start: int, gate: Gate | None, attempt: Attempt, ran_s: float, owner: Owner | None = None
    ) -> Placed:
        """A job that has run for `ran_s` seconds. If it has reported nothing by then, its gate acts from outside."""
        silent = ran_s > self.tells_s and attempt.progress().reports == 0
        return Placed(gpus, start, gate if silent else None, owner)

    def look(self, placed: Mapping[str, Placed], now: float) -> None:
        """The jobs as they are now."""
        if self.control is None:
            if not any(there.outside for there in placed.values()):
                return
            self.open()
        assert self.control is not None
        self.control.mend()
        for job in self._told.keys() - placed.keys():
            self.control.remove(job)
            del self._told[job]
            for kept in (self.turns, self._unsaid, self._absent):
                kept.pop(job, None)
        for job, there in placed.items():
            before = self._told.get(job)
            if before is None or (before.gpus, before.start) != (there.gpus, there.start):
                self._begin(job, there, now)
                before = Placed(there.gpus, there.start)
            if there.outside != before.outside:
                self.control.set_gate(job, self._seconds(there.outside))
            self._told[job] = there
        self._rank(now)
        self._tell_who_paces(now)
        self._warn()

    def _begin(self, job: str, there: Placed, now: float) -> None:
        """A job starts."""
        assert self.control is not None
        self.control.add(job, there.gpus, turn=self._turn(job), owner=there.owner)
        self._absent.pop(job, None)
        if there.owner is not None and there.owner[0] < 0:
            self.say(f"{job}: weft does not know its user, so agents take no process for its own and pace none")
        elif self._servers(there.gpus) == 1:
            self.say(f"{job}: is on one server, where it sends over NVLink and shared memory, which agents cannot pace")
        else:
            self._unsaid[job] = now

    def _servers(self, gpus: Placement) -> int:
        return len({int(self.cluster.server_of_gpu[gpu]) for gpu in gpus})

    def _tell_who_paces(self, now: float) -> None:
        """Say which part of a job's traffic is paced: when its agents are here, or when one has been away for long."""
        assert self.control is not None
        for job, there in self._told.items():
            if self._servers(there.gpus) == 1 or (there.owner is not None and there.owner[0] < 0):
                continue
            absent = self.control.absent(job)
            if absent == self._absent.get(job):
                self._unsaid.pop(job, None)
                continue
            since = self._unsaid.setdefault(job, now)
            if absent and now - since < self.agents_s:
                continue
            self._absent[job] = absent
            del self._unsaid[job]
            paced = f"its TCP sockets are paced on {self._servers(there.gpus)} servers"
            if absent:
                paced = f"no agent is on {listed(absent)}, so its TCP sockets are not paced there"
            self.say(f"{job}: {paced}; RDMA, NVLink, shared memory cannot be paced")

    def _warn(self) -> None:
        """Traffic of a job that agents have seen and cannot pace."""
        assert self.control is not None
        for job, host in self.control.unpaced() - self._warned:
            self._warned.add((job, host))
            self.say(f"{job}: has RDMA devices open on {host}; what goes over them cannot be paced or shifted")

    def observed(self, job: str, told: Progress) -> Progress:
        """What a job has told; for one that reports nothing, what its agents have seen: phases and iterations."""
        if told.reports or self.control is None:
            return told
        return Progress(-1, -1, *self.control.own_s(job))  # a phase may be less than an iteration

    def _seconds(self, gate: Gate | None) -> dict[str, float] | None:
        """A gate by the machine's clock."""
        if gate is None:
            return None
        epoch = float(self.clock.monotonic(gate.epoch_s))
        return {"epoch": epoch, "period": float(gate.period_s), "tolerance": float(gate.tolerance)}

    def close(self) -> None:
        """Agents of this machine end, and all let go of everything; jobs run on."""
        if self.control is not None:
            self.control.close()
