"""tight: the fewest machines inside one rack, or waiting for them as long as that is expected to pay."""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt

from weft.collectives.algorithms import COLLECTIVES
from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.plan import Placement, State
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Offer, Spread
from weft.place.base import Answer, Place
from weft.place.best_fit import tightest
from weft.place.pattern import HD, Dealing
from weft.place.shares import Share, idle_first

Ints = npt.NDArray[np.int64]


class Tight(Place):
    """A job takes the fewest machines that could hold it, in the fewest racks, the tightest that fit; ranks are dealt
    out by who talks to whom (`tight:ring` etc. where profiles do not name their collective).

    Where only places further apart are free it waits for as long as being closer is expected to save: iterations left
    x (seconds of an iteration there - seconds on the closest place), both alone on the network. Whoever waits as long
    as there is to gain loses at most as much again. Then it takes the place where its iterations are shortest.

    Nobody starves: when a job has waited for longer than it would run, the machines that are nearest to being free for
    it are kept, and nobody else is put on them until it starts. One job at a time has machines kept, the one
    that is longest overdue.
    """

    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    def __init__(self, collective: str = HD) -> None:
        self.name = "tight" if collective == HD else f"tight:{collective}"
        self._dealing = Dealing(collective)

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`tight` or `tight:COLLECTIVE`."""
        if arg is not None and arg not in COLLECTIVES:
            raise StackError(f"tight:{arg}: there is no such collective; known are {', '.join(COLLECTIVES)}")
        return cls() if arg is None else cls(arg)

    def initial_state(self) -> State:
        """No machines are kept for anybody."""
        return {"kept": None, "changed_s": -1.0}

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The closest place, a looser one when waiting does not pay, or none yet."""
        free = self._seen(job, offer, state)
        if int(free.sum()) < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are on offer", state)
        closest = _closest(view.cluster, gpus)
        shares, spread = self._best(view, job, gpus, free, closest)
        waits = job.status is JobStatus.WAITING
        if not waits and len(job.gpus) == gpus and bool(offer.free[list(job.gpus)].all()):
            own = Spread.of(view.cluster, job.gpus)
            if (own.racks, own.servers) <= (spread.racks, spread.servers):
                return Answer(job.gpus, f"keeps its GPUs {_words(own)}", state)
        if spread != closest and waits:
            until_s = job.waiting_since_s + self._gain_s(view, job, gpus, spread, closest)
            if view.now < until_s * (1 - 1e-12):
                words = f"declines {gpus} GPUs {_words(spread)}: waits for {gpus} {_words(closest)} while that may pay"
                return Answer(None, words, state, until_s)
        why = "closest place" if spread == closest else "closer would not pay"
        return Answer(self._gpus(view, job, gpus, offer, shares), f"{why}: {_words(spread)}", state)

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Keep machines for the job that is longest overdue, until it starts or is gone.

        Whom they are kept for changes once at a moment, so that cycles of one moment come to an end where a preemptive
        order clears machines for one job after another.
        """
        kept = state["kept"]
        if kept is not None and kept["job"] in view.waiting and kept["job"] not in started:
            return state
        if view.now <= state["changed_s"]:
            return state if kept is None else {"kept": None, "changed_s": view.now}
        waiting = [job for job in view.waiting.values() if job.id not in started]
        late_s, name = max(((self._late_s(view, job), job.id) for job in waiting), default=(0.0, ""))
        if late_s > 0.0:
            servers = _nearest(view, view.waiting[name].job.gpus)
            return {"kept": {"job": name, "servers": servers}, "changed_s": view.now}
        return state if kept is None else {"kept": None, "changed_s": view.now}

    def _late_s(self, view: ClusterView, job: JobView) -> float:
        """Seconds by which a job has waited for longer than it would run on the closest place."""
        waited_s = view.now - job.waiting_since_s
        if waited_s < view.iterations_left(job.id) * job.job.profile.compute_s:
            return 0.0
        gpus = job.job.gpus
        return waited_s - view.iterations_left(job.id) * self._iteration_s(
            view, job, gpus, _closest(view.cluster, gpus)
        )

    def _iteration_s(self, view: ClusterView, job: JobView, gpus: int, spread: Spread) -> float:
        return view.estimate(job.job, gpus, spread).iteration_s

    def _gain_s(self, view: ClusterView, job: JobView, gpus: int, spread: Spread, closest: Spread) -> float:
        """What the closest place saves over one of this spread."""
        longer = self._iteration_s(view, job, gpus, spread) - self._iteration_s(view, job, gpus, closest)
        return max(0.0, view.iterations_left(job.id) * longer)

    def _seen(self, job: JobView, offer: Offer, state: State) -> Ints:
        """Free GPUs by server, without the machines that are kept for another job."""
        kept = state["kept"]
        if kept is None or kept["job"] == job.id:
            return offer.free_per_server
        free = offer.free_per_server.copy()
        free[kept["servers"]] = 0
        return free

    def _best(
        self, view: ClusterView, job: JobView, gpus: int, free: Ints, closest: Spread
    ) -> tuple[list[Share], Spread]:
        """Of the fewest machines of one rack and the fewest anywhere, where iterations are shortest."""
        racks = view.cluster.rack_of_server
        anywhere = tightest(free, racks, gpus)
        spread = _spread(anywhere, racks)
        if spread == closest or spread.racks == 1:
            return anywhere, spread
        inside = _in_one_rack(free, racks, gpus)
        if inside is None:
            return anywhere, spread
        near = _spread(inside, racks)
        first = self._iteration_s(view, job, gpus, near) <= self._iteration_s(view, job, gpus, spread)
        return (inside, near) if near == closest or first else (anywhere, spread)

    def _gpus(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, shares: list[Share]) -> Placement:
        chosen = idle_first(view, offer, shares)
        return self._dealing.order(view.cluster, job.job.profiles[gpus], chosen) if len(shares) > 1 else chosen


_KNOWN: dict[int, tuple[Cluster, dict[int, Spread]]] = {}  # by identity: there are few clusters, and many questions


def _closest(cluster: Cluster, gpus: int) -> Spread:
    """The closest place for so many GPUs on an empty cluster."""
    known = _KNOWN.get(id(cluster))
    if known is None or known[0] is not cluster:
        if len(_KNOWN) > 64:
            _KNOWN.clear()
        known = _KNOWN[id(cluster)] = (cluster, {})
    if gpus not in known[1]:
        sizes, racks = cluster.gpus_per_server, cluster.rack_of_server
        inside = _in_one_rack(sizes, racks, gpus)
        known[1][gpus] = _spread(tightest(sizes, racks, gpus) if inside is None else inside, racks)
    return known[1][gpus]


def _in_one_rack(free: Ints, racks: Ints, gpus: int) -> list[Share] | None:
    """The fewest machines of one rack, of several racks the one with the least to spare; None if no rack has room."""
    room = np.bincount(racks, weights=free)
    best: tuple[int, float, int] | None = None
    for rack in np.flatnonzero(room >= gpus).tolist():
        inside = np.sort(free[racks == rack])[::-1]
        key = (int(np.searchsorted(np.cumsum(inside), gpus)) + 1, float(room[rack]), rack)
        best = key if best is None or key < best else best
    if best is None:
        return None
    return tightest(np.where(racks == best[2], free, 0), racks, gpus)


def _nearest(view: ClusterView, gpus: int) -> list[int]:
    """Machines to keep for a job: those with the most free GPUs that would be a closest place, were they empty."""
    sizes, racks = view.cluster.gpus_per_server, view.cluster.rack_of_server
    free = view.offer.free_per_server
    by_rack: list[tuple[int, list[int]]] = []
    for rack in np.flatnonzero(np.bincount(racks, weights=sizes) >= gpus).tolist():
        chosen = _roomiest(np.flatnonzero(racks == rack), sizes, free, gpus)
        by_rack.append((int(free[chosen].sum()), chosen))
    if by_rack:
        return max(by_rack)[1]
    return _roomiest(np.arange(len(sizes)), sizes, free, gpus)


def _roomiest(members: Ints, sizes: Ints, free: Ints, gpus: int) -> list[int]:
    order = members[np.lexsort((members, -free[members], -sizes[members]))]
    count = int(np.searchsorted(np.cumsum(sizes[order]), gpus)) + 1
    return [int(server) for server in order[:count]]


def _spread(shares: list[Share], racks: Ints) -> Spread:
    return Spread(len(shares), len({int(racks[server]) for server, _ in shares}))


def _words(spread: Spread) -> str:
    if spread.servers == 1:
        return "on one machine"
    where = "in one rack" if spread.racks == 1 else f"over {spread.racks} racks"
    return f"on {spread.servers} machines {where}"
