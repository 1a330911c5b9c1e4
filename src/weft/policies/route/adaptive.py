"""adaptive: at an interval, flows move to the path whose links carry less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model.plan import Parts, State
from weft.model.policy import setting
from weft.model.reason import because
from weft.model.routes import RouteView
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.load import Loads, offered

_MARGIN = 1e-9  # by which another path must be better: less is rounding


@dataclass
class Adaptive(Route):
    """`adaptive`, or `adaptive:every=50ms` to look every 50 ms (default: 100 ms). What counts is what each link carried since
    the last look, over its capacity. A flow moves if its own share of that would meet less on another path; those that
    moved before it in the same look count where they went. Jobs start on ECMP's paths."""

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
        loads = Loads(view, offered, view.capacity)
        loads.load = (view.carried - np.array(state["carried"])) / (view.now - at)
        moved = self._moved(view, loads)
        seen = {"at": view.now, "carried": view.carried.tolist()}
        why = {job: because("weft.less-loaded") for job in moved}
        return Routing(routes | moved, seen, why, view.now + self.every_s)

    def _moved(self, view: RouteView, loads: Loads) -> dict[str, tuple[Parts, ...]]:
        """New routes of the jobs of which a flow moves."""
        found: dict[str, tuple[Parts, ...]] = {}
        for job in view.jobs.values():
            if job.id not in view.routes:
                continue
            now = view.routes[job.id]
            mine = []
            for flow, parts in zip(job.flows, now, strict=True):
                loads.put(job, flow, parts, -1.0)
                best = loads.least(flow)
                if loads.worst(flow, best) < loads.worst(flow, parts[0][0]) - _MARGIN:
                    parts = whole(best)
                loads.put(job, flow, parts)
                mine.append(parts)
            if tuple(mine) != now:
                found[job.id] = tuple(mine)
        return found
