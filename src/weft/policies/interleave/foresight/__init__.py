"""foresight: a delay before each iteration, planned ahead for all jobs that share links (Foresight, IFIP 2025).

The schedule (slots.py) covers a number of iterations of the longest job; when it is over, or when jobs have come, gone
or moved, another one is made. An iteration that has to wait is held at its first transfer by a gate that opens once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.model.cluster import Cluster
from weft.model.flows import Arcs, Traffic
from weft.model.plan import Candidate, Gate, State
from weft.model.policy import setting
from weft.model.reason import Why
from weft.model.view import ClusterView, Fact
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.interleave.cassini.layout import traffic_of
from weft.policies.interleave.foresight.slots import Link, Room, Slot, Way, schedule

AHEAD = 8  # iterations of the longest job that are planned
LEAST = 1e-6  # part of a period: a shorter delay is no delay


@dataclass(eq=False)
class Foresight(Interleave):
    """`foresight`, or `foresight:ahead=N` to plan N iterations of the longest job at a time (8).

    Kept: least attained service, windows at their peak, room on the links up and down of each rack together (whatever
    the route) and on NICs, windows made longer where links are too slow for a job alone. Ours: plans are made anew at
    arrivals, ends and moves and when they are used up; jobs that cannot fill a link together are left alone. Left out:
    caps on rates and subflows, because an interleave sets no rates; another colouring for each range of time
    (`--route edge-colouring` colours all flows together, anew when jobs come or go), and so the repetition where such a
    colouring fails. An iteration that is late by more than half of its computing meets the gate of the next one and
    waits for that: this is what drift costs.
    """

    name = "foresight"
    needs = frozenset({Fact.PROFILE})
    shifts = True
    ahead: int = setting(AHEAD, "ahead", within="[1, 1000]", whole=True)

    def initial_state(self) -> State:
        """No plan. `slots` are [ready, sends, over] of each iteration by job."""
        return {"version": 1, "jobs": [], "slots": {}, "periods": {}, "gates": {}, "until_s": 0.0}

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """The planner's first choice, with the gates that are due."""
        candidate = candidates[0]
        jobs = [[job, list(gpus)] for job, gpus in sorted(candidate.plan.placements.items())]
        if jobs != state["jobs"] or (state["slots"] and view.now >= state["until_s"]):
            state = self._planned(view, candidate, state, jobs)
        gates, wake_s = _due(view.now, state)
        until_s = [state["until_s"]] if state["slots"] else []
        times = [t for t in (candidate.wake_s, wake_s, *until_s) if t is not None and t > view.now]
        reasons: dict[str, Why] = dict.fromkeys(gates, "held until its links have room, as planned ahead")
        plan = replace(candidate.plan, gates={job: Gate(at, 0.0, task) for job, (at, task) in gates.items()})
        state = {**state, "gates": {job: [at, task] for job, (at, task) in gates.items()}}
        return Pick(replace(candidate, plan=plan, wake_s=min(times, default=None)), state, reasons)

    def _planned(self, view: ClusterView, candidate: Candidate, state: State, jobs: list[Any]) -> State:
        """A new schedule, which begins where the old one has brought each job."""
        traffic = traffic_of(view, [candidate.plan.placements])[0]
        ways, capacity = contending(view.cluster, traffic)
        before = {job for job, gpus in state["jobs"] if [job, gpus] in jobs}
        room, ready = Room(capacity), dict[str, float]()
        slots: dict[str, list[list[float]]] = {job: [] for job in ways}
        for job, way in ways.items():
            if job not in before:
                ready[job] = view.now if job in view.waiting else view.now + way.period_s
                continue
            old = state["slots"].get(job, [])
            begun = [slot for slot in old if slot[0] <= view.now]
            later = [slot[0] for slot in old if slot[0] > view.now]
            ready[job] = max(view.now, min(later, default=begun[-1][3] if begun else view.now + way.period_s))
            if begun and begun[-1][2] > view.now:  # it still sends, or will
                _, sends, over, _ = begun[-1]
                room.take(Slot(sends - way.offset_s, 0.0, replace(way, window_s=over - sends)))
                slots[job] = begun[-1:]
        horizon_s = self.ahead * max((way.period_s for way in ways.values()), default=0.0)
        found = schedule({job: [way] for job, way in ways.items()}, room, ready, horizon_s)
        for job, mine in found.items():
            slots[job] += [[slot.ready_s, slot.sends_s, slot.over_s, slot.ends_s] for slot in mine]
        lasts = [mine[-1][0] for mine in slots.values() if mine]
        offsets = {job: [way.offset_s, traffic[job].task] for job, way in ways.items()}
        gates = {job: gate for job, gate in state["gates"].items() if job in before}
        return {
            "version": 1, "jobs": jobs, "slots": slots, "periods": offsets, "gates": gates,
            "until_s": max(min(lasts, default=view.now), view.now + 1e-3),
        }  # fmt: skip


def _due(now: float, state: State) -> tuple[dict[str, tuple[float, int]], float | None]:
    """The gate of each job that has one now, and when the next is to be set.

    The gate of an iteration is set halfway between the end of the window before it and the moment at which it is ready
    to send, so that it meets no other iteration. One that has opened stays until the next, as it holds nothing.
    """
    gates: dict[str, tuple[float, int]] = {}
    wakes: list[float] = []
    for job, slots in state["slots"].items():
        offset_s, task = state["periods"][job]
        if job in state["gates"]:
            gates[job] = (state["gates"][job][0], state["gates"][job][1])
        over_s = None
        for ready, sends, over, ends in slots:
            asked = ready + offset_s
            if sends - asked > LEAST * (ends - ready):
                at = ready if over_s is None else (over_s + asked) / 2.0
                if at <= now < sends:
                    gates[job] = (sends, task)
                elif at > now:
                    wakes.append(at)
                    break
            over_s = over
    return gates, min(wakes, default=None)


def contending(cluster: Cluster, traffic: Mapping[str, Traffic]) -> tuple[dict[str, Way], dict[Link, float]]:
    """Jobs that can fill a link together with others, each as one way on such links, and what these can carry.

    Links up and down of a rack count together, whatever spine they lead to.
    """
    group = _groups(cluster)
    loads = {job: _peaks(found.links, group) for job, found in traffic.items()}
    capacity: dict[Link, float] = {}
    for number, known in enumerate(cluster.topology.capacity.tolist()):
        if number in group:
            capacity[group[number]] = capacity.get(group[number], 0.0) + known
    users: dict[Link, list[str]] = {}
    for job, mine in loads.items():
        for link in mine:
            users.setdefault(link, []).append(job)
    tight = {
        link for link, jobs in users.items()
        if len(jobs) > 1 and sum(loads[job][link] for job in jobs) > capacity[link] * (1 + 1e-9)
    }  # fmt: skip
    ways = {}
    for job, mine in loads.items():
        if some := {link: load for link, load in mine.items() if link in tight}:
            found = traffic[job]
            window = max(start + length for arcs in found.links.values() for start, length, _ in arcs)
            ways[job] = Way(found.iteration_s, found.offset_s, window, some)
    return ways, {link: capacity[link] for link in tight}


def _groups(cluster: Cluster) -> dict[int, Link]:
    """What each link counts for: itself at a NIC, all links up or down of a rack; those further up are left out."""
    racks = {server.domains[0] for server in cluster.servers if server.domains}
    servers = {server.name for server in cluster.servers}
    found: dict[int, Link] = {}
    for link in cluster.topology.links:
        if link.src in servers or link.dst in servers or link.tier == "nic":
            found[link.id] = link.id
        elif link.src in racks:
            found[link.id] = (link.src, "up")
        elif link.dst in racks:
            found[link.id] = (link.dst, "down")
    return found


def _peaks(links: Mapping[int, Arcs], group: Mapping[int, Link]) -> dict[Link, float]:
    """The most that a job sends over each link, or group of links, at any moment of an iteration."""
    together: dict[Link, list[tuple[float, float, float]]] = {}
    for link, arcs in links.items():
        if link in group:
            together.setdefault(group[link], []).extend(arcs)
    return {
        link: max(sum(rate for start, length, rate in arcs if start <= at < start + length) for at, _, _ in arcs)
        for link, arcs in together.items()
    }
