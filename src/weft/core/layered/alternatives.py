"""Other plans of equal merit: the same jobs start and give way, spread as wide, on other servers.

An interleaver chooses among them (CASSINI, section 4.2, step 1: candidates with the same fairness and other worker
placements). Claims are served again, in one of two ways. Either place gets other random numbers, and what it then
answers is as good by its own rules. Or some servers, drawn at random, are hidden each time place is asked: half of the
servers with room, or so many that just enough remain. Other servers are then found without knowing how place decides;
such an alternative counts only if every job is spread over as many servers and racks as before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from weft.core.layered.pool import Ask, Outcome
from weft.core.layered.serve import serve
from weft.core.occupancy import Draft
from weft.model.cluster import Cluster
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, JobView, Spread
from weft.policies.order.base import Ranking
from weft.policies.place.base import Answer, Place

_PATIENCE = 16  # servings in a row that bring nothing new before the search is given up


def alternatives(
    view: ClusterView, ranking: Ranking, place: Place, state: State, first: Outcome, n: int
) -> list[Outcome]:
    """Up to n outcomes that differ from the first and from each other in the servers used."""
    cluster = view.cluster
    known = {_servers(cluster, first.placed)}
    found: list[Outcome] = []
    in_vain = 0
    number = 0
    while len(found) < n and in_vain < _PATIENCE:
        number += 1
        hiding = number % 4 != 1  # three times of four: otherwise only random places would answer differently
        outcome = serve(view, ranking, place, state, _with_a_twist(view, place, number, hiding))
        servers = _servers(cluster, outcome.placed)
        same_jobs = (outcome.placed.keys(), outcome.leaving) == (first.placed.keys(), first.leaving)
        as_good = not hiding or _spreads(cluster, outcome) == _spreads(cluster, first)
        if servers not in known and same_jobs and as_good:
            known.add(servers)
            found.append(outcome)
            in_vain = 0
        else:
            in_vain += 1
    return found


def _with_a_twist(view: ClusterView, place: Place, number: int, hiding: bool) -> Ask:
    """Ask place with other random numbers and perhaps with servers hidden; if it then declines, show it all of them."""
    varied = cast(ClusterView, _Varied(view, number))

    def ask(job: JobView, gpus: int, draft: Draft, state: State) -> Answer:
        if hiding:
            room = view.cluster.gpus_per_server if place.shares_gpus else draft.offer.free_per_server
            servers = varied.rng(f"alternatives:{job.id}").permutation(np.flatnonzero(room))
            enough = int(np.searchsorted(np.cumsum(room[servers]), gpus)) + 1
            shown = enough if number % 4 == 0 else max(enough, len(servers) // 2)
            hidden = draft.copy()
            hidden.set_usable(servers[shown:].tolist(), False)
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


def _spreads(cluster: Cluster, outcome: Outcome) -> dict[str, Spread]:
    return {job: Spread.of(cluster, gpus) for job, gpus in outcome.placed.items()}


def _servers(cluster: Cluster, placed: Mapping[str, Placement]) -> frozenset[tuple[str, tuple[int, ...]]]:
    """Which servers each job uses: two plans that differ only in the GPUs of a server are one to the network."""
    return frozenset((job, tuple(sorted(int(cluster.server_of_gpu[g]) for g in gpus))) for job, gpus in placed.items())
