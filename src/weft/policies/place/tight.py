"""tight: a job gets the fewest machines inside one rack, or waits for them as long as that is expected to pay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Offer, Spread, measured_s
from weft.network.collectives.algorithms import COLLECTIVES
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, Share, closest_free, idle_first, tightest
from weft.policies.place.pattern import HD, Dealing

PATIENCE = 10.0  # times a job's own length alone: large jobs wait longer under any order that prefers small ones
UNKNOWN_S = 3600.0  # a job of unknown length may wait so long at least, and is protected for so long at least


@dataclass(eq=False)
class Tight(Place):
    """A job takes the fewest machines that could hold it, in the fewest racks, the tightest that fit; ranks are dealt
    out by who talks to whom (`tight:ring` etc. where profiles do not name their collective).

    Where only places further apart are free, it waits for as long as being closer together is expected to save. The
    saving is its own (shorter iterations, and fewer turns with jobs that send over the same links, at these machines or
    between racks) and that of those other jobs, whose turns it would take. A job that waits for as long as it could
    gain loses at most as much again. After that it takes the place where its iterations are shortest.

    No job starves. When a job has waited, in all, for `PATIENCE` times as long as it takes alone, the machines that are
    nearest to being free are kept for it and no other job is put on them. Once it has started, no other job is put on
    its GPUs until it ends, not even where a preemptive order would have it give way. One job at a time is protected in
    this way: the longest overdue of those that the machines that are up could hold. If a job's length is not known, the
    time that it has run stands for it, and `UNKNOWN_S` at least: it may wait for `PATIENCE` times its run time or an
    hour, and is protected until it has run for as long again, or for an hour.
    """

    reserves = True
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    name = "tight"
    collective: str = setting(HD, words=tuple(COLLECTIVES))

    def __post_init__(self) -> None:
        """Nothing has been dealt, and no running jobs were looked at."""
        super().__post_init__()
        self._dealing = Dealing(self.collective)
        self._spanning = _Spanning()

    def initial_state(self) -> State:
        """No machines are kept for anybody."""
        return {"kept": None, "changed_s": -1.0}

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The closest place, a looser one when waiting does not pay, or none yet."""
        offer = self.withheld(view, job, offer, state)
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are on offer", state)
        closest = _closest(view.cluster, gpus)
        shares, spread = self._best(view, job, gpus, offer.free_per_server, closest)
        waits = job.status is JobStatus.WAITING
        if not waits and len(job.gpus) == gpus and bool(offer.free[list(job.gpus)].all()):
            own = Spread.of(view.cluster, job.gpus)
            if own == closest or spread != closest or not _pays(view, job, own, spread):
                return Answer(job.gpus, f"keeps its GPUs {_words(own)}", state)
        if spread != closest and waits:
            until_s = job.waiting_since_s + self._gain_s(view, job, gpus, offer, shares, spread, closest)
            if view.now < until_s * (1 - 1e-12):
                words = f"declines {gpus} GPUs {_words(spread)}: waits for {gpus} {_words(closest)} while that may pay"
                return Answer(None, words, state, until_s)
        why = "closest place" if spread == closest else "closer would not pay"
        return Answer(self._gpus(view, job, gpus, offer, shares), f"{why}: {_words(spread)}", state)

    def withheld(self, view: ClusterView, job: JobView, offer: Offer, state: State) -> Offer:
        """Without what is kept for another job: its machines until it starts, then its GPUs."""
        kept, cluster = state["kept"], view.cluster
        if kept is None or kept["job"] == job.id:
            return offer
        runs = view.running.get(kept["job"])
        if runs is None and kept["job"] not in view.waiting:
            return offer  # it is gone
        names = runs.gpus if runs is not None else _gpus_of(cluster, kept["servers"])
        return offer.without(np.fromiter(names, dtype=np.int64), cluster.server_of_gpu)

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Keep machines for the job that is longest overdue, until it is gone.

        The job that they are kept for changes at most once at any moment. Otherwise a preemptive order that clears
        machines for one job after another would never get to the end of that moment.
        """
        kept = _still(view, started, state["kept"])
        if kept is not None:
            return state if kept is state["kept"] else {**state, "kept": kept}
        if view.now > state["changed_s"]:
            late = ((self._late_s(view, job), job.id) for job in view.waiting.values() if job.id not in started)
            for _, name in sorted((job for job in late if job[0] > 0.0), reverse=True):
                servers = _nearest(view, view.waiting[name].job)
                if servers:
                    return {"kept": {"job": name, "servers": servers}, "changed_s": view.now}
        return state if state["kept"] is None else {"kept": None, "changed_s": view.now}

    def _late_s(self, view: ClusterView, job: JobView) -> float:
        """Seconds by which a job's waiting, in all, exceeds what it may wait."""
        waited_s, iterations = view.now - job.job.submit_s - job.run_s, PATIENCE * job.job.iterations
        if not job.job.known:
            return waited_s - max(UNKNOWN_S, PATIENCE * job.run_s)
        if waited_s < iterations * job.job.profile.compute_s:
            return 0.0
        closest = _closest(view.cluster.of_type(job.job.gpu).shaped(job.job.per_server), job.job.gpus)
        return waited_s - iterations * view.estimate(job.job, job.job.gpus, closest).iteration_s

    def _gain_s(
        self, view: ClusterView, job: JobView, gpus: int, offer: Offer, shares: list[Share], spread: Spread,
        closest: Spread,
    ) -> float:  # fmt: skip
        """Seconds that the closest place saves compared with these machines: for the job, and for the jobs it would
        share links with.

        A job that sends for a share of its time takes turns with the others for that share of theirs.
        """
        there, near = view.estimate(job.job, gpus, spread), view.estimate(job.job, gpus, closest)
        left = _left(view, job)
        own_s, others_s = there.iteration_s - near.iteration_s, 0.0
        for other in self._senders(view, offer, shares) if spread.servers > 1 and there.comm_s > 0 else ():
            beside = view.estimate(other.job, len(other.gpus), Spread.of(view.cluster, other.gpus))
            own_s += there.comm_s * beside.comm_s / beside.iteration_s
            together_s = min(left * there.iteration_s, _left(view, other) * beside.iteration_s)
            others_s += together_s / beside.iteration_s * beside.comm_s * there.comm_s / there.iteration_s
        return max(0.0, left * own_s + others_s)

    def _senders(self, view: ClusterView, offer: Offer, shares: list[Share]) -> list[JobView]:
        """Running jobs that would stay and that share links with a job on these machines."""
        if self._spanning.offer is not view.offer:
            self._spanning = _Spanning.of(view)
        return self._spanning.met(view, offer, shares)

    def _best(
        self, view: ClusterView, job: JobView, gpus: int, free: Ints, closest: Spread
    ) -> tuple[list[Share], Spread]:
        """The fewest machines of one rack or the fewest anywhere, whichever makes iterations shorter."""
        anywhere, inside = _looked_up(view.cluster, free, gpus, closest)
        if inside is None or inside[1] == closest:
            return inside or anywhere
        inside_s, anywhere_s = (view.estimate(job.job, gpus, at).iteration_s for _, at in (inside, anywhere))
        return inside if inside_s <= anywhere_s else anywhere

    def _gpus(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, shares: list[Share]) -> Placement:
        chosen = idle_first(view, offer, shares)
        return self._dealing.order(view.cluster, job.job.profiles[gpus], chosen) if len(shares) > 1 else chosen


def _pays(view: ClusterView, job: JobView, own: Spread, other: Spread) -> bool:
    """Whether moving to a place like this gains a running job at least twice what the move costs."""
    slow_s, fast_s = (view.estimate(job.job, len(job.gpus), spread).iteration_s for spread in (own, other))
    slow_s = max(slow_s, measured_s(view, job))
    lost_s = view.restart_s + view.iterations_done(job.id) % max(1, job.job.checkpoint_every) * slow_s
    return _left(view, job) * (slow_s - fast_s) > 2.0 * lost_s


def _left(view: ClusterView, job: JobView) -> int:
    """Iterations that a job is expected still to do: as many again as it has done, where its length is not known."""
    return view.iterations_left(job.id) if job.job.known else max(1, view.iterations_done(job.id))


def _still(view: ClusterView, started: tuple[str, ...], kept: dict[str, Any] | None) -> dict[str, Any] | None:
    """What is kept from now on for the job that it was kept for; None if that job is gone, has been protected for long
    enough, or finds no room on the machines that are up. Other machines are kept when one of them fails."""
    name = "" if kept is None else kept["job"]
    job = view.running.get(name) or view.waiting.get(name)
    if kept is None or job is None:
        return None
    if name in view.running:
        enough = not job.job.known and job.run_time_s(view.now) - job.run_s >= max(job.run_s, UNKNOWN_S)
        return None if enough else kept
    if name in started or all(view.offer.usable[gpu] for gpu in _gpus_of(view.cluster, kept["servers"])):
        return kept
    servers = _nearest(view, job.job)
    return {**kept, "servers": servers} if servers else None


def _gpus_of(cluster: Cluster, servers: list[int]) -> Iterable[int]:
    return chain.from_iterable(cluster.servers[server].gpus for server in servers)


@dataclass(frozen=True)
class _Spanning:
    """Running jobs that hold GPUs of several servers, first to last: where each of them is, as arrays.

    It holds as long as the view's offer is the same object: whoever takes or leaves GPUs makes the table show another.
    """

    offer: Offer | None = None
    jobs: tuple[str, ...] = ()
    first: Ints = field(default_factory=lambda: _ints([]))  # a GPU of each
    at: tuple[Ints, Ints] = field(default_factory=lambda: _pairs([]))  # which job, and a server of it
    across: tuple[Ints, Ints] = field(default_factory=lambda: _pairs([]))  # which job in several racks, and one of them

    @staticmethod
    def of(view: ClusterView) -> _Spanning:
        """Those of a view."""
        jobs, first, at, across = [], [], [], []
        for job in view.running.values():
            if len(job.gpus) < 2:
                continue
            servers, racks = _whereabouts(view.cluster, job.gpus)
            if len(servers) > 1:
                at.append(servers)
                across.append(racks if len(racks) > 1 else frozenset[int]())
                jobs.append(job.id)
                first.append(job.gpus[0])
        return _Spanning(view.offer, tuple(jobs), _ints(first), _pairs(at), _pairs(across))

    def met(self, view: ClusterView, offer: Offer, shares: list[Share]) -> list[JobView]:
        """Those that would stay and that share links with a job on these machines: the machines' own links and, if they
        are in several racks, the links between racks."""
        if not self.jobs:
            return []
        racks, meets = view.cluster.rack_of_server, np.zeros(len(self.jobs), dtype=np.bool_)
        mine = np.zeros(len(racks), dtype=np.bool_)
        mine[[server for server, _ in shares]] = True
        meets[self.at[0][mine[self.at[1]]]] = True
        if len(self.across[0]):
            crossed = np.zeros(view.cluster.n_racks, dtype=np.bool_)
            crossed[racks[mine]] = True
            if np.count_nonzero(crossed) > 1:
                meets[self.across[0][crossed[self.across[1]]]] = True
        meets &= offer.residents[self.first] != 0
        return [view.running[self.jobs[i]] for i in np.flatnonzero(meets).tolist()]


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _pairs(sets: Sequence[Iterable[int]]) -> tuple[Ints, Ints]:
    """The numbers of the sets, and their members."""
    members = [(i, member) for i, each in enumerate(sets) for member in each]
    return _ints(i for i, _ in members), _ints(member for _, member in members)


_MOST = 10_000  # placements that are remembered
_MOST_SEEN = 1_000_000  # numbers of free GPUs that are remembered, one for each server


_Found = tuple[list[Share], Spread]  # machines, and how far apart they are


def _looked_up(cluster: Cluster, free: Ints, gpus: int, closest: Spread) -> tuple[_Found, _Found | None]:
    """The fewest machines anywhere and, where these are in several racks, the fewest of one rack; none if no rack has
    room. Many jobs are asked about the same free GPUs, so answers are remembered."""
    known, key = cluster.known["tightest"], (gpus, free.astype(np.uint32).tobytes())
    found: tuple[_Found, _Found | None] | None = known.get(key)
    if found is None:
        racks = cluster.rack_of_server
        anywhere = tightest(closest_free(cluster, free, gpus), racks, gpus)
        spread = _spread(anywhere, racks)
        one = None if spread == closest or spread.racks == 1 else _in_one_rack(free, racks, gpus)
        found = ((anywhere, spread), None if one is None else (one, _spread(one, racks)))
        if len(known) * len(racks) > _MOST_SEEN:
            known.clear()
        known[key] = found
    return found


def _closest(cluster: Cluster, gpus: int) -> Spread:
    """The closest place for that many GPUs on an empty cluster."""
    known = cluster.known["closest"]
    if gpus not in known:
        sizes, racks = cluster.gpus_per_server, cluster.rack_of_server
        inside = _in_one_rack(sizes, racks, gpus)
        known[gpus] = _spread(tightest(sizes, racks, gpus) if inside is None else inside, racks)
    spread: Spread = known[gpus]
    return spread


def _whereabouts(cluster: Cluster, gpus: Placement) -> tuple[frozenset[int], frozenset[int]]:
    """The servers and the racks of these GPUs."""
    known = cluster.known["whereabouts"]
    if gpus not in known:
        if len(known) > _MOST:
            known.clear()
        servers = frozenset(cluster.server_of_gpu[list(gpus)].tolist())
        known[gpus] = (servers, _racks(cluster, servers))
    servers, racks = known[gpus]
    return servers, racks


def _racks(cluster: Cluster, servers: frozenset[int]) -> frozenset[int]:
    return frozenset(cluster.rack_of_server[list(servers)].tolist())


def _in_one_rack(free: Ints, racks: Ints, gpus: int) -> list[Share] | None:
    """The fewest machines of one rack, in the rack with the least to spare; None if no rack has room."""
    room = np.bincount(racks, weights=free)
    keys: list[tuple[int, float, int]] = []
    for rack in np.flatnonzero(room >= gpus).tolist():
        inside = np.sort(free[racks == rack])[::-1]
        keys.append((int(np.searchsorted(np.cumsum(inside), gpus)) + 1, float(room[rack]), rack))
    return tightest(np.where(racks == min(keys)[2], free, 0), racks, gpus) if keys else None


def _nearest(view: ClusterView, job: Job) -> list[int]:
    """Machines to keep for a job: those with the most free GPUs, among all that are up and would be a closest place if
    they were empty. There are none if those that are up cannot hold it."""
    racks, free, gpus = view.cluster.rack_of_server, view.offer.free_per_server, job.gpus
    usable = view.offer.usable
    if not view.cluster.alike:
        usable, free = _suited(view, job)
    sizes = np.bincount(view.cluster.server_of_gpu[usable], minlength=len(racks))
    if job.per_server:
        sizes = np.where(sizes >= job.per_server, job.per_server, 0)
        free = np.minimum(free, sizes)
    if sizes.sum() < gpus or job.memory_bytes > view.cluster.gpu_memory_bytes:
        return []
    by_rack: list[tuple[int, list[int]]] = []
    for rack in np.flatnonzero(np.bincount(racks, weights=sizes) >= gpus).tolist():
        chosen = _roomiest(np.flatnonzero(racks == rack), sizes, free, gpus)
        by_rack.append((int(free[chosen].sum()), chosen))
    if by_rack:
        return max(by_rack)[1]
    return _roomiest(np.arange(len(sizes)), sizes, free, gpus)


def _suited(view: ClusterView, job: Job) -> tuple[npt.NDArray[np.bool_], Ints]:
    """The GPUs that are up and that a job can run on, and how many of them are free on each server: those of the type
    that it asks for, or of the first type of which there are enough."""
    cluster, usable = view.cluster, view.offer.usable
    for name in (job.gpu,) if job.gpu else cluster.gpu_types:
        suited = usable & cluster.suited(name, job.memory_bytes)
        if suited.sum() >= job.gpus:
            break
    free = np.bincount(cluster.server_of_gpu[suited & view.offer.free], minlength=len(cluster.servers))
    return suited, free


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
