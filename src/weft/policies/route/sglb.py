"""sglb: a flow is hashed over the less loaded half of its paths (SGLB, as MonkeyTree's baseline has it)."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from weft.model.plan import Routes, State
from weft.model.routes import Flow, RouteView
from weft.policies.route.base import Route, Routing, whole
from weft.policies.route.choices import Floats, choices, no_load


def eligible(scores: Floats) -> list[int]:
    """The half of the paths with the lowest scores, at least one; of equals the first."""
    best = np.argsort(scores, kind="stable")[: max(1, len(scores) // 2)]
    return sorted(best.tolist())


class Sglb(Route):
    """A path's score is the number of flows on its links, those that all paths of a flow share aside; the half with the
    lowest scores is eligible, and a hash of the flow picks one. When jobs have come or gone, flows whose path is no
    longer eligible, not counting themselves, are hashed anew.

    Ours: flows that are routed count whether or not they send at the moment, which no route policy knows. So scores
    change with jobs only, and nothing is looked at every 10 ms. Left out: what switches know of failures.
    """

    name = "sglb"
    moves = True

    def route(self, view: RouteView, state: State) -> Routing:
        """Paths of flows that start, then of those whose path is crowded."""
        flows, routes = no_load(view.cluster), dict[str, list[int]]()
        for name, job in view.jobs.items():
            routes[name] = [parts[0][0] for parts in view.routes.get(name, ())]
            for flow, at in zip(job.flows, routes[name], strict=False):
                flows[choices(view, flow)[at]] += 1.0
        for name in [name for name in view.jobs if not routes[name]]:
            for flow in view.jobs[name].flows:
                paths = choices(view, flow)
                routes[name].append(_picked(flow, eligible(flows[paths].sum(axis=1))))
                flows[paths[routes[name][-1]]] += 1.0
        for name in view.routes:
            for i, flow in enumerate(view.jobs[name].flows):
                paths, at = choices(view, flow), routes[name][i]
                flows[paths[at]] -= 1.0
                able = eligible(flows[paths].sum(axis=1))
                routes[name][i] = at if at in able else _picked(flow, able)
                flows[paths[routes[name][i]]] += 1.0
        found: dict[str, Routes] = {name: tuple(map(whole, mine)) for name, mine in routes.items()}
        return Routing(found, state, dict.fromkeys(found, "hashed over the less loaded half of the paths"))


def _picked(flow: Flow, able: list[int]) -> int:
    digest = blake2b(f"{flow.src}/{flow.dst}/{flow.key}".encode(), digest_size=8).digest()
    return able[int.from_bytes(digest, "big") % len(able)]
