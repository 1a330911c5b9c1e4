"""Other plans of equal merit: the same jobs start and give way, spread as wide, on other servers.

An interleaver chooses among them (CASSINI, section 4.2, step 1: candidates with the same fairness and other worker
placements). Claims are served again; each time place is asked, some servers with room are hidden from it, and random
policies draw from another stream. That permutes who gets which servers without knowing how place decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from weft.core.occupancy import Draft
from weft.core.serve import Ask, Outcome, serve
from weft.model.cluster import Cluster
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, JobView, Spread
from weft.order.base import Ranking
from weft.place.base import Answer, Place

__all__ = ["alternatives"]

_TRIES = 4  # servings per alternative asked for: many end in a plan already known or a worse one


def alternatives(
    view: ClusterView, ranking: Ranking, place: Place, state: State, first: Outcome, n: int
) -> list[Outcome]:
    """Up to n outcomes that differ from the first and from each other in the servers used."""
    merit = _merit(view.cluster, first)
    known = {_servers(view.cluster, first.placed)}
    found: list[Outcome] = []
    for number in range(1, _TRIES * n + 1):
        outcome = serve(view, ranking, place, state, _with_a_twist(view, place, number))
        servers = _servers(view.cluster, outcome.placed)
        if servers not in known and _merit(view.cluster, outcome) == merit:
            known.add(servers)
            found.append(outcome)
            if len(found) == n:
                break
    return found


def _with_a_twist(view: ClusterView, place: Place, number: int) -> Ask:
    """Ask place with other random numbers and half of the servers that have room hidden; if it declines, with all."""
    varied = cast(ClusterView, _Varied(view, number))

    def ask(job: JobView, gpus: int, draft: Draft, state: State) -> Answer:
        rng = varied.rng(f"alternatives:{job.id}")
        servers = np.flatnonzero(draft.offer.free_per_server if not place.shares_gpus else view.cluster.gpus_per_server)
        hidden = draft.copy()
        hidden.set_usable(servers[rng.random(len(servers)) < 0.5].tolist(), False)
        if hidden.room(0.0, place.shares_gpus) >= gpus:
            answer = place.place(varied, job, gpus, hidden.offer, state)
            if answer.gpus is not None:
                return answer
        return place.place(varied, job, gpus, draft.offer, state)

    return ask


class _Varied:
    """A view that is the same but for its random streams."""

    def __init__(self, view: ClusterView, number: int) -> None:
        self._view = view
        self._number = number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def rng(self, policy: str) -> np.random.Generator:
        """Random numbers of this variation."""
        return self._view.rng(f"{policy}#{self._number}")


def _merit(cluster: Cluster, outcome: Outcome) -> tuple[frozenset[str], dict[str, Spread]]:
    spreads = {job: Spread.of(cluster, gpus) for job, gpus in outcome.placed.items()}
    return frozenset(outcome.leaving), spreads


def _servers(cluster: Cluster, placed: Mapping[str, Placement]) -> frozenset[tuple[str, tuple[int, ...]]]:
    """Which servers each job uses: two plans that differ only in the GPUs of a server are one to the network."""
    return frozenset((job, tuple(sorted(int(cluster.server_of_gpu[g]) for g in gpus))) for job, gpus in placed.items())
