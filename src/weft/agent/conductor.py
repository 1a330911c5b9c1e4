"""Conductor: what a server tells its agents, from what they report: who may send now, and how fast.

The rules are those of the simulator: a gate names slots, an admission rule (AdaDUAL, at-most) says who may start, a
rate rule (priority, ccml, ...) caps, weighs and ranks. Here they are asked about real jobs, whose phases the agents
see from outside. No clock, no network: a server feeds it, and so does a test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.agent.fill import fill
from weft.agent.host import FLOOR_BYTES_PER_S
from weft.collectives.lowering import OpenFlow, open_collective
from weft.live.hearing import slot
from weft.model.cluster import Cluster
from weft.model.flows import FlowRows, TransferView, flow_set
from weft.pace.base import Admission, Pace
from weft.pace.flow import Flow, FlowSpec
from weft.pace.rates import Carried, Demand, Moment

Order = tuple[bool, float | None]  # whether the job is held between its phases; bytes per second, None: no limit
_HELD = float(FLOOR_BYTES_PER_S)
_FLOWS = 1000  # numbers for the flows of one job
_FULL = 0.95  # of a link's capacity: then it kept somebody from sending more


@dataclass
class _Host:
    """What the agent of one host last said of a job."""

    talking: bool = False
    sent: float = 0.0
    left: float = 0.0
    volume: float = 0.0
    period_s: float = 0.0
    phase_s: float = 0.0
    phases: int = 0
    total: float = 0.0


@dataclass
class _Member:
    """A job under its care."""

    name: str
    uid: int
    flows: tuple[OpenFlow, ...]
    senders: tuple[str, ...]  # host of each flow
    turn: float = 0.0
    gate: dict[str, float] | None = None
    hosts: dict[str, _Host] = field(default_factory=dict)
    at: float | None = None  # when its present phase may begin by its gate; None: it does not communicate
    admitted: bool = False

    @property
    def talking(self) -> bool:
        return any(host.talking for host in self.hosts.values())

    def view(self) -> TransferView:
        """As an admission rule sees it: bytes left of the phase, and the NICs that it uses."""
        left = max((host.left for host in self.hosts.values()), default=0.0)
        nics = frozenset(link for flow in self.flows for link in (flow.path[0], flow.path[-1]))
        return TransferView(self.name, 0, left, nics, self.turn)


class Conductor:
    """See the module. Rates are those of the network as agents see it: divided by `scale` on a testbed.

    `alias` is the one host whose agent sees all processes, where the servers of the cluster are pretended.
    """

    def __init__(self, cluster: Cluster, pace: Pace, scale: float = 1.0, seed: int = 0, alias: str = "") -> None:
        self.cluster, self.pace, self.alias = cluster, pace, alias
        self.capacity = cluster.topology.capacity / scale
        self.members: dict[str, _Member] = {}
        self._uids = 0
        slowest = float(self.capacity.min()) if len(self.capacity) else 1.0
        self.admission: Admission = pace.admission(1.0 / slowest, 0.0)
        self.flowing: FlowSpec | None = None  # hosts plan their rates by themselves
        if isinstance(pace, Flow) and not pace.spec.fill:
            self.flowing = pace.spec
        self.rule = None if self.flowing or pace.natural else pace.rates()
        if self.rule is not None:
            self.rule.begin(Demand(self.capacity, seed))
        self._slot = -1
        self._before: dict[tuple[str, str], float] = {}  # bytes sent by (job, host) when the slot began

    # Jobs come and go

    def add(
        self, name: str, gpus: Sequence[int], gate: Mapping[str, float] | None = None, turn: float = 0.0,
        collective: str = "ring",
    ) -> None:  # fmt: skip
        """A job starts on these GPUs."""
        flows = open_collective(collective, gpus, self.cluster)
        links = self.cluster.topology.links
        self.members[name] = _Member(
            name, self._uids, flows, tuple(self.alias or links[flow.path[0]].src for flow in flows), turn,
            dict(gate) if gate else None,
        )  # fmt: skip
        self._uids += 1

    def remove(self, name: str) -> None:
        """A job has ended."""
        member = self.members.pop(name, None)
        if member is not None and self.rule is not None:
            left = flow_set(1, 1)
            left.uid[0] = member.uid
            self.rule.gone(np.array([0]), left)

    def set_gate(self, name: str, gate: Mapping[str, float] | None) -> None:
        """Other slots for a job, from its next phase on."""
        if name in self.members:
            self.members[name].gate = dict(gate) if gate else None

    def planned(self, slot_s: float, slots: int, switches: str) -> dict[str, Any]:
        """What agents need to plan rates by themselves: every job's flows, and the links."""
        jobs = {}
        for member in self.members.values():
            rows, first = _rows(member), _FLOWS * member.uid
            jobs[member.name] = [
                {
                    "id": first + i, "sender": member.senders[i], "path": list(flow.path),
                    "part": 1.0 / member.senders.count(member.senders[i]), "chunk": flow.chunk / (flow.share or 1.0),
                    "feeders": [first + j for j in range(*rows.feed[i])],
                    "followers": [first + j for j in range(*rows.next[i])],
                }
                for i, flow in enumerate(member.flows)
            ]  # fmt: skip
        capacity = {str(k): float(rate) for k, rate in enumerate(self.capacity)}
        return {"slot_s": slot_s, "slots": slots, "switches": switches, "capacity": capacity, "jobs": jobs}

    # What agents say

    def hear(self, host: str, report: Mapping[str, Any], now: float) -> bool:
        """A report of one agent about one job; True if orders may have to change."""
        member = self.members.get(report["job"])
        if member is None:
            return False
        if report.get("event") == "gone":
            return member.hosts.pop(host, None) is not None
        there = member.hosts.setdefault(host, _Host())
        was = member.talking
        for key in ("talking", "sent", "left", "volume", "period_s", "phase_s", "phases", "total"):
            setattr(there, key, report[key])
        if member.talking and not was:
            member.at = slot(member.gate, now) if member.gate else now
        elif was and not member.talking:
            member.at, member.admitted = None, False
        return member.talking != was

    def lost(self, host: str) -> None:
        """An agent has gone: its host says nothing any more, and holds nothing."""
        for member in self.members.values():
            member.hosts.pop(host, None)
            if not member.talking:
                member.at, member.admitted = None, False

    # Orders

    def held(self, member: _Member) -> bool:
        """Whether a job waits before each of its phases: because of its gate, or because the pace may say no."""
        return member.gate is not None or self.pace.holds_back or self.rule is not None

    def decide(self, now: float) -> tuple[dict[str, dict[str, Order]], float]:
        """Orders by host and job, and when to ask again."""
        wake = math.inf
        waiting = [m for m in self.members.values() if m.at is not None and not m.admitted]
        for member in sorted(waiting, key=lambda m: (m.turn, m.uid)):
            assert member.at is not None
            if now < member.at - 1e-4:
                wake = min(wake, member.at)
            elif self._admits(member):
                member.admitted = True
        rates = self._rates(now)
        if self.rule is not None and math.isfinite(self.rule.slot_s) and rates:
            wake = min(wake, (math.floor(now / self.rule.slot_s) + 1) * self.rule.slot_s)
        orders: dict[str, dict[str, Order]] = {}
        for member in self.members.values():
            for host in member.hosts:
                held = self.held(member)
                rate = rates.get((member.name, host)) if member.admitted else (_HELD if held else None)
                orders.setdefault(host, {})[member.name] = (held, rate)
        return orders, wake

    def _admits(self, member: _Member) -> bool:
        rule, mine = self.admission, member.view()
        if rule.kind == "all":
            return True
        running = [m.view() for m in self.members.values() if m.admitted]
        beside = tuple(view for view in running if view.ports & mine.ports)
        if rule.kind == "ask":
            return rule.ask is None or rule.ask(mine, beside)
        worst = max((sum(port in view.ports for view in beside) for port in mine.ports), default=0)
        if worst >= rule.k:
            return False
        if rule.kind == "at-most" or not worst:
            return True
        return all(view.bytes_left > rule.ratios[worst - 1] * mine.bytes_left for view in beside)

    def _rates(self, now: float) -> dict[tuple[str, str], float | None]:
        """Bytes per second by job and host; None: no limit. Only of those that may send."""
        sending = [m for m in self.members.values() if m.admitted]
        if self.rule is None or not sending:
            return {}
        members = list(self.members.values())
        flows = flow_set(sum(len(m.flows) for m in members), max(len(f.path) for m in members for f in m.flows))
        first: dict[str, int] = {}
        at = 0
        for number, member in enumerate(members):
            first[member.name] = at
            flows.put(at, number, _rows(member), self.capacity, member.uid)
            self.rule.came(np.arange(at, at + len(member.flows)), flows)  # again: what is known of a job grows
            for i, host in enumerate(member.senders):
                said = member.hosts.get(host, _Host())
                flows.sent[at + i] = min(said.sent, flows.size[at + i])
            at += len(member.flows)
        live = np.concatenate([np.arange(first[m.name], first[m.name] + len(m.flows)) for m in sending])
        flows.active[live] = True
        slot_s = self.rule.slot_s
        number, part, begins = 0, 1.0, True
        if math.isfinite(slot_s):
            number = int(now // slot_s)
            part, begins = max(1.0 - (now / slot_s - number), 0.05), number != self._slot
            if begins:
                self._note(flows, live, members, number)
        limits = self.rule.decide(Moment(number, part, begins), flows, live)
        given = fill(flows.path[live], self.capacity, limits, live)
        rates: dict[tuple[str, str], float | None] = {}
        for member in sending:
            for i, host in enumerate(member.senders):
                rate = given[int(np.searchsorted(live, first[member.name] + i))]
                before = rates.get((member.name, host), 0.0)
                rates[member.name, host] = None if rate is None or before is None else before + rate
        return rates

    def _note(self, flows: Any, live: Any, members: Sequence[_Member], number: int) -> None:
        """Tell the rule what the slot that has passed came to."""
        assert self.rule is not None
        link = np.zeros(len(self.capacity))
        at = 0
        for member in members:
            for i, (flow, host) in enumerate(zip(member.flows, member.senders, strict=True)):
                total = member.hosts.get(host, _Host()).total
                moved = max(total - self._before.get((member.name, host), total), 0.0) / self.rule.slot_s
                self._before[member.name, host] = total
                flows.rate[at + i] = moved
                for k in flow.path:
                    link[k] += moved
            at += len(member.flows)
        if self._slot >= 0:
            self.rule.carried(self._slot, flows, live, Carried(link, link >= _FULL * self.capacity))
        self._slot = number


def _rows(member: _Member) -> FlowRows:
    """The job's flows as a rule sees them; a phase whose volume is not known yet is as large as the first report."""
    sizes = []
    for host in member.senders:
        said = member.hosts.get(host, _Host())
        mine = sum(sender == host for sender in member.senders)
        sizes.append(max(said.volume, said.sent + said.left, 1.0) / mine)
    n = len(member.flows)
    following = [tuple(j for j in range(n) if member.flows[j].feed[0] <= i < member.flows[j].feed[1]) for i in range(n)]
    return FlowRows(
        tuple(flow.path for flow in member.flows), tuple(sizes),
        tuple(size * flow.chunk / (flow.share or 1.0) for size, flow in zip(sizes, member.flows, strict=True)),
        tuple(flow.feed for flow in member.flows),
        tuple((min(f), max(f) + 1) if f else (0, 0) for f in following),
        max((max(said.period_s - said.phase_s, 0.0) for said in member.hosts.values()), default=0.0),
    )  # fmt: skip
