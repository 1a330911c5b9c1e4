"""adaptive: at an interval, flows move to the path whose links carry less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.model.plan import Parts, Routes, State
from weft.model.policy import setting
from weft.model.reason import because
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.load import Floats, Loads, of_flows, offered

_MARGIN = 1e-9  # by which another path must be better: less is rounding


@dataclass
class Adaptive(Route):
    """`adaptive`, or `adaptive:every=50ms` to look every 50 ms (default: 100 ms). What counts is what each link carried
    since the last look, over its capacity. A flow moves if its own share of that would meet less on another path; those
    that moved before it in the same look count where they went. Jobs start on ECMP's paths. It does not look while no
    two flows share a link that one of them could leave."""

    name = "adaptive"
    every_s: float = setting(0.1, "every", within="(0, inf)", unit="ms")
    moves = True

    def route(self, view: RouteView, state: State) -> Routing:
        """Where flows go now."""
        routes: dict[str, tuple[Parts, ...]] = {
            job.id: tuple(whole(view.hashed(flow)) for flow in job.flows)
            for job in view.jobs.values()
            if job.id not in view.routes
        }
        moved: dict[str, tuple[Parts, ...]] = {}
        if not state or not state["meet"]:
            state = self._resumed(view, state)
        elif view.now - state["at"] >= self.every_s * (1.0 - 1e-9):
            moved = self._moved(view, (view.carried - np.array(state["carried"])) / (view.now - state["since"]))
            state = {**_seen(view, view.now), "meet": state["meet"]}
        if view.news or moved:
            state = {**state, "meet": _meet(view, {**view.routes, **routes, **moved})}
        why = {job: because("weft.less-loaded") for job in moved}
        return Routing(routes | moved, state, why, state["at"] + self.every_s if state["meet"] else None)

    def _resumed(self, view: RouteView, state: State) -> State:
        """What it remembers after it has not looked for a while; the times at which it looks stay what they were."""
        at = float(state.get("at", view.now))
        return {**_seen(view, at + int((view.now - at) / self.every_s + 1e-9) * self.every_s), "meet": True}

    def _moved(self, view: RouteView, carried: Floats) -> dict[str, tuple[Parts, ...]]:
        """New routes of the jobs of which a flow moves. What a link carried is divided among its flows by what they
        offer; a flow had what the link on its path gave it that gave it least."""
        wanted = Loads(view, offered)
        there = [job for job in view.jobs.values() if job.id in view.routes]
        wanted.add(there)
        part = np.divide(carried, wanted.load, out=np.zeros(len(carried)), where=wanted.load > 0.0)
        loads = Loads(view, offered, view.capacity)
        loads.load = carried
        found: dict[str, tuple[Parts, ...]] = {}
        for job in there:
            now, mine = view.routes[job.id], []
            for flow, parts in zip(job.flows, now, strict=True):
                at = parts[0][0]
                had = offered(job, flow) * min((float(part[link]) for link in view.path(flow, at)), default=0.0)
                loads.shift(flow, parts, -had)
                best = loads.least(flow)
                if loads.worst(flow, best) < loads.worst(flow, at) - _MARGIN:
                    parts = whole(best)
                loads.shift(flow, parts, had)
                mine.append(parts)
            if tuple(mine) != now:
                found[job.id] = tuple(mine)
        return found


def _seen(view: RouteView, at: float) -> dict[str, Any]:
    """What links have carried until now, and since when the interval lasts."""
    return {"at": at, "since": view.now, "carried": view.carried.tolist()}


def _meet(view: RouteView, routes: Mapping[str, Routes]) -> bool:
    """Whether two flows share a link that one of them could leave. If none do, no path is better than another."""
    loads = Loads(view, of_flows)
    for job in view.jobs.values():
        for flow, parts in zip(job.flows, routes[job.id], strict=True):
            loads.put(job, flow, parts)
    return any(
        loads.worst(flow, number) > 1.0
        for job in view.jobs.values()
        for flow, parts in zip(job.flows, routes[job.id], strict=True)
        for number, _ in parts
    )
