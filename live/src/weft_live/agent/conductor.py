"""Conductor: works out what a server tells its agents from what they report: which jobs may send now, and how fast.

The rules are those of the simulator: a gate names openings, an admission rule (AdaDUAL, at-most) says who may start, a
rate rule (priority, ccml, ...) sets caps, weights and levels. Here they are asked about real jobs, whose phases the
agents see from outside. The conductor has no clock and no network: a server feeds it, and so does a test.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.model.cluster import Cluster
from weft.model.flows import FlowRows, TransferView
from weft.network.collectives.lowering import OpenFlow, open_collective
from weft.policies.pace.base import Admission, Pace
from weft.policies.pace.flow import Flow, FlowSpec
from weft_live.agent.host import FLOOR_BYTES_PER_S, REPORT_S
from weft_live.agent.ruling import Ruling, Sent
from weft_live.reports import SEEN, Keeper

# On a host: bytes per second that the job has between its phases, 0: it is not held; bytes per second now, None: no
# limit; and what the host had seen of its phases. An agent holds a job by itself when a phase ends, so the same words
# must reach it again when the next begins.
Order = tuple[float, float | None, int]
Owner = tuple[int, str]  # whose processes are a job's: the user's number, and Slurm's number of the job or ""
# A job that is held keeps this part of the slowest link, at most so many bytes per second. One that is held more
# tightly starts later when it is let go (docs/measured/testbed has the figures).
_HELD, HELD_BYTES_PER_S = 0.02, 5_000_000
_SOONEST_S = 0.02  # least seconds between reports
_FLOWS = 1000  # numbers for the flows of one job


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
    rdma: bool = False

    @property
    def stamp(self) -> int:
        """Another one whenever a phase begins or ends."""
        return 2 * self.phases + self.talking


@dataclass
class _Member:
    """A job under its care."""

    name: str
    uid: int
    flows: tuple[OpenFlow, ...]
    senders: tuple[str, ...]  # host of each flow
    owner: Owner
    workers: int
    turn: float = 0.0
    keeper: Keeper = field(default_factory=lambda: Keeper(None))  # applies its gate as long as it fits
    slip_s: float = 0.0  # its gate opens so much later, because somebody was late
    hosts: dict[str, _Host] = field(default_factory=dict)
    count: int = 0  # phases that were seen
    at: float | None = None  # when its present phase may begin by its gate; None: it does not communicate
    admitted: bool = False

    @property
    def talking(self) -> bool:
        return any(host.talking for host in self.hosts.values())

    @property
    def links(self) -> set[int]:
        return {link for flow in self.flows for link in flow.path}

    def wait(self, until: float) -> None:
        """Let the job's present phase begin at that time; the time until then counts as waiting for its gate."""
        self.at = until
        self.keeper.last[0] = (self.count, until)

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
        self.held_at = float(max(FLOOR_BYTES_PER_S, min(_HELD * slowest, HELD_BYTES_PER_S)))
        self.admission: Admission = pace.admission(1.0 / slowest, 0.0)
        self.flowing: FlowSpec | None = None  # hosts plan their rates by themselves
        if isinstance(pace, Flow) and not pace.spec.fill:
            self.flowing = pace.spec
        rule = None if self.flowing or pace.natural else pace.rates()
        self.ruling = Ruling(rule, self.capacity, seed) if rule is not None else None

    @property
    def known(self) -> set[str]:
        """Hosts whose agents it has orders for."""
        return {self.alias} if self.alias else {server.name for server in self.cluster.servers}

    def hosts_of(self, name: str) -> set[str]:
        """Hosts that send for a job."""
        return set(self.members[name].senders)

    # Jobs come and go

    def add(
        self, name: str, gpus: Sequence[int], gate: Mapping[str, float] | None = None, turn: float = 0.0,
        collective: str = "ring", owner: Owner | None = None,
    ) -> None:  # fmt: skip
        """A job starts on these GPUs, as the user `owner` (by default this process's own). A job of that name that is
        still here has been started anew."""
        self.remove(name)
        flows = open_collective(collective, gpus, self.cluster)
        links = self.cluster.topology.links
        self.members[name] = _Member(
            name, self._uids, flows, tuple(self.alias or links[flow.path[0]].src for flow in flows),
            owner or (os.geteuid(), ""), len(gpus), turn, Keeper(dict(gate) if gate else None),
        )  # fmt: skip
        self._uids += 1
        self._anew(self.members[name])
        if self.ruling is not None:
            self.ruling.add(name, self.members[name].uid, _rows(self.members[name]), self.members[name].senders)

    def remove(self, name: str) -> None:
        """A job has ended."""
        if self.members.pop(name, None) is not None and self.ruling is not None:
            self.ruling.remove(name)

    def set_gate(self, name: str, gate: Mapping[str, float] | None) -> None:
        """Another gate for a job, from its next phase on."""
        if name in self.members:
            self.members[name].keeper.set(dict(gate) if gate else None)
            self._anew(self.members[name])

    def set_turns(self, turns: Mapping[str, float]) -> None:
        """By job, the key of which the least is admitted first, from its next phase on."""
        for name in turns.keys() & self.members.keys():
            self.members[name].turn = turns[name]

    def owners(self) -> dict[str, Owner]:
        """The user of each job: an agent takes no process of another user for a part of it."""
        return {name: member.owner for name, member in self.members.items()}

    def planned(self, slot_s: float, slots: int, switches: Mapping[str, Sequence[int]] | None) -> dict[str, Any]:
        """What agents need to plan rates by themselves: every job's flows, the links, and who keeps their tables."""
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
            known = member.hosts.pop(host, None) is not None
            if not member.talking:
                self._over(member)
            return known
        there = member.hosts.setdefault(host, _Host())
        was, stamp = member.talking, there.stamp
        for key in ("talking", "sent", "left", "volume", "period_s", "phase_s", "phases", "total", "rdma"):
            setattr(there, key, report[key])
        if member.talking and not was:
            member.count += 1
            member.at = member.keeper.at(member.count, 0, now, now - member.slip_s)
            if member.at > now:
                self._slip(member, now)
        elif was and not member.talking:
            self._over(member)
        return there.stamp != stamp

    def _near(self, member: _Member) -> list[_Member]:
        """The job and those that share links with it, or with one of these."""
        near, links, rest = [member], member.links, [one for one in self.members.values() if one is not member]
        while meets := [one for one in rest if one.links & links]:
            near += meets
            links = links.union(*(one.links for one in meets))
            rest = [one for one in rest if one not in meets]
        return near

    def _slip(self, member: _Member, now: float) -> None:
        """A job that comes too late for its opening would wait for the next one. Where all jobs that it meets have
        gates here, these open later by as much instead, if that costs all of them together less than the wait. Jobs
        that already wait for an opening wait longer by as much."""
        gate, near = member.keeper.gate, self._near(member)
        if gate is None or member.at is None or len(near) == 1 or not all(map(_recurs, near)):
            return
        wait_s = member.at - now
        late_s = gate["period"] - wait_s
        if late_s * len(near) >= wait_s:
            return
        for one in near:
            one.slip_s += late_s
            if one.at is not None and one.at > now:
                one.wait(now if one is member else one.at + late_s)

    def _anew(self, member: _Member) -> None:
        """Another gate for a job: it opens as much later as those of the jobs that it meets. If one of these has no
        gate here that could follow, all gates go back to the openings that were planned."""
        near = self._near(member)
        slips = {one.slip_s for one in near if one is not member}
        common = slips.pop() if len(slips) == 1 and all(map(_recurs, near)) else 0.0
        for one in near:
            one.slip_s = common

    def _over(self, member: _Member) -> None:
        """A phase of the job has ended."""
        if member.admitted and self.ruling is not None:
            self.ruling.end(member.name)
        member.at, member.admitted = None, False

    def own_s(self, name: str) -> tuple[int, float]:
        """Phases of a job that were seen, and the seconds of an iteration at the median, waiting at its gate left out;
        0 while too few were seen."""
        member = self.members.get(name)
        if member is None:
            return 0, 0.0
        own = sorted(member.keeper.own)
        return member.count, own[len(own) // 2] if len(own) == SEEN else 0.0

    def unpaced(self) -> set[tuple[str, str]]:
        """Jobs and hosts on which they have RDMA devices open."""
        return {
            (name, host) for name, member in self.members.items() for host, said in member.hosts.items() if said.rdma
        }

    def lost(self, host: str) -> None:
        """An agent has gone: its host says nothing any more, and holds nothing."""
        for member in self.members.values():
            member.hosts.pop(host, None)
            if not member.talking:
                self._over(member)

    # Orders

    def held(self, member: _Member) -> bool:
        """Whether a job waits before each of its phases: because of its gate, or because the pace may say no."""
        return member.keeper.gate is not None or self.pace.holds_back or self.ruling is not None

    @property
    def report_s(self) -> float:
        """Seconds between reports of agents: a rule that is asked in every slot wants to know what that has carried."""
        return max(min(REPORT_S, self.ruling.rule.slot_s), _SOONEST_S) if self.ruling is not None else REPORT_S

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
                if self.ruling is not None:
                    self.ruling.begin(member.name, member.uid, _rows(member))
        rates = self.ruling.rates(now, self._sent()) if self.ruling is not None else {}
        wake = min(wake, self.ruling.wake(now)) if self.ruling is not None else wake
        orders: dict[str, dict[str, Order]] = {}
        for member in self.members.values():
            for host, said in member.hosts.items():
                held = self.held_at if self.held(member) else 0.0
                rate = rates.get((member.name, host)) if member.admitted else (held or None)
                rate = max(rate, held) if rate is not None else None
                orders.setdefault(host, {})[member.name] = (held, rate, said.stamp)
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

    def _sent(self) -> Sent:
        """What the hosts have sent, as far as they have said."""
        return {
            (member.name, host): (said.sent, said.total)
            for member in self.members.values()
            for host, said in member.hosts.items()
        }


def _recurs(member: _Member) -> bool:
    """Whether the job has a gate here that opens again and again."""
    return member.keeper.gate is not None and member.keeper.gate["period"] > 0


def _rows(member: _Member) -> FlowRows:
    """The job's flows as a rule sees them; a phase whose volume is not known yet is as large as the first report."""
    sizes = []
    for host in member.senders:
        said = member.hosts.get(host, _Host())
        mine = sum(sender == host for sender in member.senders)
        sizes.append(max(said.volume, said.sent + said.left, 1.0) / mine)
    compute_s = max((max(said.period_s - said.phase_s, 0.0) for said in member.hosts.values()), default=0.0)
    n = len(member.flows)
    following = [tuple(j for j in range(n) if member.flows[j].feed[0] <= i < member.flows[j].feed[1]) for i in range(n)]
    return FlowRows(
        tuple(flow.path for flow in member.flows), tuple(sizes),
        tuple(size * flow.chunk / (flow.share or 1.0) for size, flow in zip(sizes, member.flows, strict=True)),
        tuple(flow.feed for flow in member.flows),
        tuple((min(f), max(f) + 1) if f else (0, 0) for f in following),
        compute_s, member.workers * compute_s,
    )  # fmt: skip
