"""FlowHost: pace/flow on real sockets. It feeds a HostScheduler, the same object with which tests play a data centre,
with what TCP says about the host's own flows and with the answers of switches.

Hosts do not wait for each other. A late answer counts as lost, and a flow then keeps to what was last planned for it:
for three quarters of a second or two slots, whichever is longer, but not beyond the slots that were planned. A flow
with no such plan has no limit until there is an answer again: nobody is held back because an answer is late.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft_live.agent.fabric import Fabric
from weft_live.agent.wire import LostError, Message
from weft_live.flow.host import Answer, HostScheduler, OwnFlow, Peers
from weft_live.flow.switch_table import SwitchTable

PAYLOAD = 1448 / 1514  # what is left of a link for data: a rate that is set counts no headers
_PATIENCE = 0.3  # fraction of a slot that a host waits for the answers of switches
_NOBODY = Peers({}, {})
_KEPT_S, _KEPT = 0.75, 3  # how long a plan counts without another answer: seconds, and the least slots


@dataclass(frozen=True)
class PlannedFlow:
    """One flow of a job as its hosts know it: the same list everywhere."""

    id: int
    sender: str
    path: tuple[int, ...]
    part: float  # its fraction of what its sender sends for the job
    chunk: float  # fraction of its own bytes that it may send before anything has come in
    feeders: tuple[int, ...]
    followers: tuple[int, ...]

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> PlannedFlow:
        """From a message."""
        return cls(
            int(said["id"]), str(said["sender"]), tuple(said["path"]), float(said["part"]), float(said["chunk"]),
            tuple(said["feeders"]), tuple(said["followers"]),
        )  # fmt: skip


@dataclass
class _Sending:
    """A phase under way: the flows of this host in it."""

    mine: tuple[PlannedFlow, ...]
    volume: float
    before: float = 0.0  # bytes sent when the slot began
    until: int = -1  # the slot from which on its plan counts no more, unless switches answer again


class FlowHost:
    """The scheduler of one host, its NIC's table, and its line to the switches."""

    def __init__(
        self, host: str, capacity: Mapping[int, float], switches: Fabric | None, slot_s: float, slots: int = 10
    ) -> None:
        self.host, self.slot_s, self.slots = host, slot_s, slots
        self.capacity = {link: rate * PAYLOAD for link, rate in capacity.items()}
        self.scheduler = HostScheduler(slot_s, slots)
        self.nics: dict[int, SwitchTable] = {}
        self.switches = switches
        self.jobs: dict[str, tuple[PlannedFlow, ...]] = {}
        self._sending: dict[str, _Sending] = {}
        self._over: list[tuple[int, tuple[int, ...]]] = []
        self._slot = -1
        self.lost = self.asked = 0  # messages
        self.waited_s: list[float] = []  # for answers, since somebody last took note of it
        self.decided_s: list[float] = []  # for the decisions of a slot, answers left out
        self._kept = min(max(math.ceil(_KEPT_S / slot_s), _KEPT), slots)

    def begin(self, job: str, volume: float) -> None:
        """The job has that many bytes to send from here."""
        mine = tuple(flow for flow in self.jobs[job] if flow.sender == self.host)
        for flow in mine:
            size = volume * flow.part
            line = min((self.capacity[k] for k in flow.path if k in self.capacity), default=float("inf"))
            self.scheduler.begin(
                OwnFlow(flow.id, size, size * flow.chunk, flow.path, line, flow.feeders, flow.followers)
            )
            self.nics.setdefault(flow.path[0], SwitchTable([flow.path[0]], self.slots))
        self._sending[job] = _Sending(mine, volume)

    def end(self, job: str) -> None:
        """It has sent them, or is gone."""
        sending = self._sending.pop(job, None)
        for flow in sending.mine if sending else ():
            self.scheduler.end(flow.id)
            self.nics[flow.path[0]].withdraw(flow.id, flow.path[0])
            self._over.append((flow.id, flow.path))

    def sending(self, job: str) -> bool:
        """Whether a phase of the job is under way."""
        return job in self._sending

    def passed(self, now: float) -> bool:
        """Whether another slot has begun."""
        return int(now // self.slot_s) != self._slot

    def decide(
        self, now: float, sent: Mapping[str, float], begun: Collection[str] = (), resting: Collection[str] = ()
    ) -> dict[str, float]:
        """The rates of jobs that send, for what is left of this slot; `sent` are the bytes of their phases so far.

        At the start of a slot that is all of them, within a slot those that have just begun. Jobs that are `resting`
        have nothing to send until other hosts have sent to this one: they leave their links to others.
        """
        jobs = self._sending if self.passed(now) else {job: self._sending[job] for job in begun}
        slot = int(now // self.slot_s)
        part = max(1.0 - (now / self.slot_s - slot), 0.05)
        if slot != self._slot:
            self._pass(slot, sent)
        began = time.perf_counter()
        message = self._message(slot, sent, jobs, resting)
        answer = self._ask(message)
        waited = self.waited_s[-1] if message["ask"] and self.waited_s else 0.0
        rates: dict[str, float] = {}
        posts: list[tuple[int, tuple[int, ...], list[float]]] = []
        for job, sending in jobs.items():
            told = answer["told"].get(job, {}) if answer else {}
            peers = Peers(
                {int(f): said[1] for f, said in told.items() if said[0] >= slot - 1},
                {int(f): said[2] for f, said in told.items() if said[0] >= slot - 1},
            )
            lost = answer is None and self.switches is not None
            if job in resting:
                sending.until = -1
            elif not lost:
                sending.until = slot + self._kept
            for flow in sending.mine:
                if slot >= sending.until or not self._known(flow):
                    schedule, rate = self.scheduler.rest(flow.id, slot), math.inf
                else:
                    links = None if lost else self._links(job, flow, answer)
                    known = _NOBODY if self._overtaken(flow, sending, sent.get(job, 0.0), peers) else peers
                    schedule = self.scheduler.decide(flow.id, slot, links, known, part)
                    rate = schedule.rates[0]
                    if lost and not any(schedule.rates):  # its plan has ended, but bytes wait
                        rate = math.inf
                self.nics[flow.path[0]].post(flow.id, flow.path[0], slot, schedule.rates)
                posts.append((flow.id, flow.path, [round(rate, 1) for rate in schedule.rates]))
                rates[job] = rates.get(job, 0.0) + rate
        if posts and self.switches is not None:
            posted = {"slot": slot, "posts": posts, "told": self._told(slot, sent, jobs, resting)}
            self.switches.tell(posted)
            self.decided_s.append(time.perf_counter() - began - waited)
        return rates

    def _overtaken(self, flow: PlannedFlow, sending: _Sending, sent: float, peers: Peers) -> bool:
        """Whether the flow has sent all that its feeders are said to have brought, and still has bytes waiting: then
        these have come, and what was told is old or of another iteration. Hosts lose step where a loss holds one up
        for so long that another takes its silence for the end of a phase. (A host with several flows of a job does not
        know whose bytes wait.)"""
        if len(sending.mine) > 1 or not flow.feeders:
            return False
        brought = peers.reach(flow.feeders, self.slot_s, 1.0)
        return bool(brought) and sent >= self.slot_s * min(brought) + sending.volume * flow.chunk

    def _pass(self, slot: int, sent: Mapping[str, float]) -> None:
        """Slots have passed: what was reached in them, and plans move up."""
        steps = slot - self._slot if self._slot >= 0 else 1
        for _ in range(min(steps, self.slots)):
            self.scheduler.advance()
        for table in self.nics.values():
            table.advance(slot)
        for job, sending in self._sending.items():
            done = sent.get(job, 0.0)
            rate = max(done - sending.before, 0.0) / (self.slot_s * max(steps, 1))
            sending.before = done
            for flow in sending.mine:
                self.scheduler.carried(flow.id, done * flow.part, rate * flow.part)
        self._slot = slot

    def _told(
        self, slot: int, sent: Mapping[str, float], jobs: Mapping[str, _Sending], resting: Collection[str]
    ) -> dict[str, dict[str, list[float]]]:
        """What the other hosts of these jobs should know. They are told nothing of a flow that sends without a plan:
        it holds nobody back."""
        return {
            job: {
                str(f.id): [sent.get(job, 0.0) * f.part, self.scheduler.planned(f.id)]
                for f in sending.mine
                if job in resting or (slot < sending.until and self._known(f))
            }
            for job, sending in jobs.items()
        }

    def _message(
        self, slot: int, sent: Mapping[str, float], jobs: Mapping[str, _Sending], resting: Collection[str]
    ) -> Message:
        ask: list[tuple[int, list[int]]] = []
        for job, sending in jobs.items():
            for flow in () if job in resting else filter(self._known, sending.mine):
                mates = [other.id for other in self.jobs[job] if other.id != flow.id]
                ask += [(link, mates) for link in flow.path[1:]]
        over, self._over = self._over, []
        return {"slot": slot, "ask": ask, "told": self._told(slot, sent, jobs, resting), "over": over}

    def _ask(self, message: Message) -> Message | None:
        """The answer of the switches, or None if it was lost."""
        if self.switches is None:
            return None
        if not message["ask"]:
            if message["over"]:
                self.switches.tell(message)
            return None
        self.asked += 1
        began = time.perf_counter()
        try:
            return self.switches.ask(message, max(_PATIENCE * self.slot_s, 0.004))
        except LostError:
            pass
        finally:
            self.waited_s.append(time.perf_counter() - began)
        self.lost += 1
        self._over += message["over"]
        return None

    def _known(self, flow: PlannedFlow) -> bool:
        """Whether there are tables for its whole path; if not, it is not paced."""
        return self.switches is None or self.switches.keeps(flow.path[1:])

    def _links(self, job: str, flow: PlannedFlow, answer: Message | None) -> dict[int, Answer]:
        """What is known of the links of a path: the NIC's from here, the others' from switches."""
        nic, loads = flow.path[0], answer["load"] if answer else {}
        mates = [other for other in self.jobs[job] if other.id != flow.id]
        links = {}
        for link in flow.path:
            near = [other.id for other in mates if link in other.path]
            if link == nic:
                table = self.nics[nic]
                load: Sequence[float] = table.load(nic)
                theirs: Sequence[float] = table.load(nic, near)
            elif str(link) in loads:
                load, theirs = loads[str(link)]
            else:
                continue
            links[link] = Answer(load, self.capacity.get(link, float("inf")), len(near), theirs)
        return links
