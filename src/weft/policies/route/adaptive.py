"""adaptive: at an interval, flows move to the path whose links carry less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model.plan import Parts, State
from weft.model.policy import setting
from weft.model.reason import because
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.load import Floats, Loads, offered

_MARGIN = 1e-9  # by which another path must be better: less is rounding


@dataclass
class Adaptive(Route):
    """`adaptive`, or `adaptive:every=50ms` to look every 50 ms (default: 100 ms). What counts is what each link carried
    since the last look, over its capacity. A flow moves if its own share of that would meet less on another path; those
    that moved before it in the same look count where they went. Jobs start on ECMP's paths."""

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
        at = float(state.get("at", view.now))
        if view.now - at < self.every_s * (1.0 - 1e-9):
            if state:
                return Routing(routes, state, wake_s=at + self.every_s)
            seen = {"at": view.now, "carried": view.carried.tolist()}
            return Routing(routes, seen, wake_s=view.now + self.every_s)
        moved = self._moved(view, (view.carried - np.array(state["carried"])) / (view.now - at))
        seen = {"at": view.now, "carried": view.carried.tolist()}
        why = {job: because("weft.less-loaded") for job in moved}
        return Routing(routes | moved, seen, why, view.now + self.every_s)

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
