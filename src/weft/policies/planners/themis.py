"""themis: finish-time fairness by auctions of leased GPUs (Mahajan et al., NSDI 2020)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache

from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Spread
from weft.policies.planners.auction import Bid, auction
from weft.policies.planners.base import Planner
from weft.policies.planners.target import (
    all_jobs,
    as_decided,
    different_ways,
    held,
    nearest,
    remember,
    restart_share,
    sizes_that_fit,
    stay_s,
    target_of,
)

_WAYS = 4  # different sets of GPUs of one size that a bidder bids for


def believed_s(view: ClusterView, job: Job, workers: int, kind: int | None = None) -> float:
    """Iteration time as Themis reckons with it: work shared equally, times a slowdown that knows locality only.

    serial time / workers x S (section 4 of its paper). The serial time is that of the samples which the job asked to
    have in an iteration; S depends on whether workers are on one server (kind 0), in one rack (1) or in several (2; by
    default as close as this cluster allows), not on how many they are. S is taken from what is known of the job at one
    size of each kind: the size it asked for, or else the nearest.
    """
    sizes = sizes_that_fit(view, job)
    kind = _kind(Spread.closest(view.cluster, workers)) if kind is None or workers == 1 else kind
    near_enough = (size for size in sizes if _kind(Spread.closest(view.cluster, size)) <= kind and size > (kind > 0))
    alike = list(near_enough) or [workers]
    known = min(alike, key=lambda size: (abs(size - job.gpus), size))
    near = Spread.closest(view.cluster, known)
    there = view.estimate(job, known, Spread(max(near.servers, 1 + (kind > 0)), max(near.racks, 1 + (kind > 1))))
    asked = min(sizes or (workers,), key=lambda size: (abs(size - job.gpus), size))
    serial_s = view.estimate(job, asked, Spread.closest(view.cluster, asked)).compute_s * asked
    slowdown = there.iteration_s / there.compute_s if there.compute_s > 0 else 1.0
    return (serial_s / workers if serial_s > 0 else there.iteration_s) * slowdown


def _kind(spread: Spread) -> int:
    return (spread.racks > 1) + (spread.servers > 1)


def _alone_s(view: ClusterView, job: Job, share: float) -> float:
    """Time of a whole job alone on a share of the cluster. A job that does not fit has the whole share in turns."""
    sizes = sizes_that_fit(view, job)
    inside = [size for size in sizes if size <= share]
    if inside:
        return job.iterations * min(believed_s(view, job, size) for size in inside)
    return job.iterations * believed_s(view, job, sizes[0]) * sizes[0] / share


def apps_of(view: ClusterView) -> dict[str, list[JobView]]:
    """Jobs by application, but for those on their way to their GPUs and those that fit nowhere."""
    found: dict[str, list[JobView]] = {}
    for job in all_jobs(view).values():
        if job.status is not JobStatus.STARTING and sizes_that_fit(view, job.job):
            found.setdefault(f"app {job.job.app}" if job.job.app else job.id, []).append(job)
    return found


@dataclass(eq=False)
class Themis(Planner):
    """`themis`, `themis:F`, `themis:F,LEASE`: each GPU is leased for LEASE seconds (600) and then auctioned again.

    rho of an application (a job, or the jobs with the same `app`) is its time in the shared cluster over its time alone
    on a 1/N share of it. Free GPUs, and those whose own lease has ended, are offered to the part 1 - F (F = 0.8) of the
    applications that have the worst rho. They bid 1/rho for sets of GPUs that they can use beside those they keep: of
    every size the best set, and others. The partial-allocation auction decides, GPU by GPU; what is left goes to the
    other applications, the worst rho first, and then to jobs that finish earlier with more. A job that grows keeps its
    workers; one that wins back fewer than have ended shrinks. Auctions are held when jobs come or go and when leases
    end. Candidates are plans over all jobs with the same sizes and no job further apart.
    """

    name = "themis"
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})
    resizes = True

    fairness: float = setting(0.8, within="[0, 1)")
    lease_s: float = setting(600.0, within="[1, inf)")

    def __post_init__(self) -> None:
        """Nobody loses GPUs before a lease ends."""
        super().__post_init__()
        self.shortest_stay_s = self.lease_s

    def initial_state(self) -> State:
        """Nobody is anywhere."""
        return {"version": 1, "target": {}, "jobs": [], "leases": {}}

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """An auction if there is something to auction, else what was decided last."""
        target = target_of(view, state)
        leases = {job: ends for job, ends in state["leases"].items() if job in target}
        over = any(min(ends) <= view.now for job, ends in leases.items() if job not in held(view))
        same = sorted(all_jobs(view)) == state["jobs"] and len(target) == len(state["target"])
        if same and not over:
            return [as_decided(view, target, state, "leased", self._wake(view, leases))]
        return self._auction(view, state, target, leases, n)

    def rho(
        self,
        view: ClusterView,
        app: Sequence[JobView],
        sizes: Mapping[str, int],
        kinds: Mapping[str, int] | None = None,
    ) -> float:
        """Finish-time fairness of an application whose jobs have these sizes from now on, its last job counting.

        `kinds` say how far apart each job's workers are; if not given, they are as close as the cluster allows.
        """
        kinds = kinds or {job.id: _kind(Spread.closest(view.cluster, sizes[job.id])) for job in app}
        shared = max(self.left_s(view, job, sizes[job.id], kinds[job.id]) for job in app)
        there = len({job.job.app or job.id for job in all_jobs(view).values()})
        share = max(1.0, view.cluster.n_gpus / there) / len(app)
        alone = max(_alone_s(view, job.job, share) for job in app)
        return max(view.now - min(job.job.submit_s for job in app) + shared, 1e-9) / max(alone, 1e-9)

    def left_s(self, view: ClusterView, job: JobView, workers: int, kind: int) -> float:
        """Time until a job ends. Without GPUs it first waits for one lease; if it runs, a new size costs a restart."""
        left = view.iterations_left(job.id)
        if not workers:
            fastest = min(believed_s(view, job.job, size) for size in sizes_that_fit(view, job.job))
            return self.lease_s + left * fastest
        restart = view.restart_s if job.status is JobStatus.RUNNING and workers != len(job.gpus) else 0.0
        return restart + left * believed_s(view, job.job, workers, kind)

    def _auction(
        self, view: ClusterView, before: State, target: dict[str, Placement], leases: dict[str, list[float]], n: int
    ) -> list[Candidate]:
        coming = held(view)
        live = {
            job: tuple(gpu for gpu, end in zip(gpus, leases[job], strict=True) if end > view.now)
            for job, gpus in target.items()
            if job in leases and job not in coming
        }
        taken = {gpu for gpus in (*live.values(), *coming.values()) for gpu in gpus}
        pool = {gpu for gpu in range(view.cluster.n_gpus) if view.offer.usable[gpu] and gpu not in taken}
        table = _Table(self, view, live, {job: gpus for job, gpus in target.items() if job not in coming}, pool)
        table.share_out()
        ends = {gpu: end for job, gpus in target.items() if job in leases
                for gpu, end in zip(gpus, leases[job], strict=True) if end > view.now}  # fmt: skip
        lease = view.now + self.lease_s
        first = {**coming, **table.placed}
        renewed = {job: [ends.get(gpu, lease) for gpu in gpus] for job, gpus in first.items()}
        lasts_s = self._lasting(view, before)
        found = []
        for way in different_ways(view, first, n, Themis.name, _kind):
            state = remember(view, before, way, leases={job: renewed[job] for job in sorted(way)})
            reasons = {job: table.words(job, len(gpus)) for job, gpus in way.items()}
            reasons |= {job.id: "its leases ended, auction lost" for job in table.jobs if job.id not in way}
            declined = tuple(
                Declined(job, "auction lost: no GPUs left for it") for job in view.waiting if job not in way
            )
            share = restart_share(view, way, lasts_s)
            found.append(Candidate(Plan(way), state, reasons, declined, self._wake(view, renewed), share))
        return found

    def _lasting(self, view: ClusterView, before: State) -> Callable[[JobView], float]:
        """How long a running job can expect to stay where it is put: as jobs have stayed so far, or until it ends."""
        usual_s = stay_s(view, before, self.lease_s)

        @cache
        def left_s(job: str) -> float:
            running = view.job(job)
            gpus = running.gpus
            return self.left_s(view, running, len(gpus), _kind(Spread.of(view.cluster, gpus)))

        return lambda job: min(usual_s, left_s(job.id))

    def _wake(self, view: ClusterView, leases: Mapping[str, Sequence[float]]) -> float | None:
        """The next end of a lease, while there is anybody to have the GPUs."""
        later = [end for ends in leases.values() for end in ends if end > view.now]
        return min(later) if later else None


class _Table:
    """One auction: who keeps what, what is offered, and what everybody has in the end (`placed`)."""

    def __init__(
        self,
        themis: Themis,
        view: ClusterView,
        live: Mapping[str, Placement],
        own: Mapping[str, Placement],
        pool: set[int],
    ) -> None:
        self.themis, self.view, self.own, self.pool = themis, view, own, pool
        self.apps = apps_of(view)
        self.jobs = [job for app in self.apps.values() for job in app]
        self.live = {job.id: live.get(job.id, ()) for job in self.jobs}
        self.usable = {job.id: sizes_that_fit(view, job.job) for job in self.jobs}
        self.placed: dict[str, Placement] = {}
        self.split: dict[tuple[str, int], dict[str, int]] = {}  # sizes of an application's jobs with n more GPUs
        self.values: dict[tuple[object, ...], float] = {}  # 1 / rho by application, GPUs and how close together

    def words(self, job: str, size: int) -> str:
        """Why a job has what it has."""
        kept = len(self.live.get(job, ()))
        return f"auction won: {size} GPUs leased" if not kept else f"{size} GPUs: {min(kept, size)} on a running lease"

    def share_out(self) -> None:
        """Hand out GPUs by auction among the worst off; then hand out what is left, the worst off first, to no job more
        than it asked for."""
        now = {job.id: len(self.own.get(job.id, ())) for job in self.jobs}
        rho = {name: self.themis.rho(self.view, app, now) for name, app in self.apps.items()}
        order = sorted(self.apps, key=lambda name: (-rho[name], self.apps[name][0].job.submit_s, name))
        worst = order[: max(1, math.ceil((1.0 - self.themis.fairness) * len(order) - 1e-9))] if order else []
        bids = {name: self._bids(name) for name in worst}
        for name, (bid, part) in auction(bids, len(self.pool), self._bid).items():
            if bid.gpus:
                sizes = sorted({len(other.gpus) for other in bids[name]} - {0})
                n = max((n for n in sizes if n <= part * len(bid.gpus) + 1e-9), default=sizes[0])  # some is kept
                self._give(self._split(name, n), bid.gpus)
        twice = [job for _ in range(2) for name in order for job in self.apps[name]]  # the first round may free some
        for job in (job for job in twice if job.id not in self.placed):
            kept = len(self.live[job.id])
            most = max(kept, min(kept + len(self.pool), job.job.gpus))
            self._give({job.id: max((n for n in self.usable[job.id] if n <= most), default=0)})
        if all(job.id in self.placed for job in self.jobs):
            self._grow()

    def _bids(self, name: str) -> list[Bid]:
        """1 / rho for sets of offered GPUs beside what is kept: the best set of each size, and others apart from it."""
        found: list[Bid] = []
        app = self.apps[name]
        most = sum(max(0, self.usable[job.id][-1] - len(self.live[job.id])) for job in app)
        for n in range(min(most, len(self.pool)) + 1):
            sizes = self._split(name, n)
            if sum(max(0, sizes[job.id] - len(self.live[job.id])) for job in app) != n:
                continue
            taken = frozenset[int]()
            for _ in range(_WAYS if n else 1):
                found.append(self._bid(name, n, taken))
                taken |= found[-1].gpus
                if len(self.pool) - len(taken) < n:
                    break
        return found

    def _bid(self, name: str, n: int, taken: frozenset[int]) -> Bid:
        """1 / rho for the best set of that many offered GPUs, none of them among those taken."""
        app, sizes = self.apps[name], self._split(name, n)
        placed = self._placing(sizes, self.pool - taken)
        gpus = frozenset(gpu for where in placed.values() for gpu in where) & self.pool
        kinds = {job.id: _kind(Spread.of(self.view.cluster, placed.get(job.id, (0,)))) for job in app}
        key = (name, n, *kinds.values())
        if key not in self.values:
            self.values[key] = 1.0 / self.themis.rho(self.view, app, sizes, kinds)
        return Bid(gpus, self.values[key])

    def _split(self, name: str, extra: int) -> dict[str, int]:
        """Sizes of an application's jobs when it has that many more GPUs, each of which goes to the job that would end
        last."""
        if (name, extra) in self.split:
            return self.split[name, extra]
        app, key = self.apps[name], (name, extra)
        sizes = {job.id: max((n for n in self.usable[job.id] if n <= len(self.live[job.id])), default=0) for job in app}
        while True:
            steps: list[tuple[float, int, str, int, int]] = []
            for job in app:
                kept = max(sizes[job.id], len(self.live[job.id]))
                larger = [n for n in self.usable[job.id] if sizes[job.id] < n <= kept + extra]
                if larger:
                    kind = _kind(Spread.closest(self.view.cluster, sizes[job.id]))
                    left = self.themis.left_s(self.view, job, sizes[job.id], kind)
                    steps.append((left, -len(steps), job.id, larger[0], max(0, larger[0] - kept)))
            if not steps:
                self.split[key] = sizes
                return sizes
            _, _, job_id, size, cost = max(steps)
            sizes[job_id] = size
            extra -= cost

    def _placing(self, sizes: Mapping[str, int], free: set[int]) -> dict[str, Placement]:
        """GPUs of jobs at these sizes, one job after another: `free` loses what they take.

        A job has those it keeps and the nearest that are free, or the closest of those it keeps.
        """
        found = {}
        for job, size in sizes.items():
            live, own, cluster = self.live[job], self.own.get(job, ()), self.view.cluster
            if not size:
                continue
            if size <= len(live):
                found[job] = nearest(cluster, set(live), (), live, size)
            else:
                found[job] = tuple(sorted((*live, *nearest(cluster, free, live, own, size - len(live)))))
            free |= set(live)
            free -= set(found[job])
        return found

    def _give(self, sizes: Mapping[str, int], among: Set[int] | None = None) -> None:
        """Place jobs on GPUs of the pool, or on these of it."""
        free = self.pool if among is None else set(among)
        self.placed |= (placed := self._placing(sizes, free))
        self.pool |= {gpu for job in placed for gpu in self.live[job]}
        self.pool -= {gpu for where in placed.values() for gpu in where}

    def _grow(self) -> None:
        """What is left goes to jobs that finish earlier with more, the worst rho first; they keep their workers."""
        view, rho = self.view, self.themis.rho
        now = {job.id: len(self.placed[job.id]) for job in self.jobs}
        order = [(rho(view, app, now), app[0].job.submit_s, name) for name, app in self.apps.items()]
        for _, _, name in sorted(order, key=lambda entry: (-entry[0], *entry[1:])):
            for job in self.apps[name]:
                has = now[job.id]
                more = [n for n in self.usable[job.id] if has < n <= has + len(self.pool)]
                best = min(more, key=lambda n: (rho(view, [job], {job.id: n}), n), default=has)
                if rho(view, [job], {job.id: best}) < rho(view, [job], {job.id: has}) * (1 - 1e-9):
                    own = self.placed[job.id]
                    self.placed[job.id] = tuple(sorted((*own, *nearest(view.cluster, self.pool, own, (), best - has))))
                    self.pool.difference_update(self.placed[job.id])
