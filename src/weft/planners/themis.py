"""themis: finish-time fairness by auctions of leased GPUs (Mahajan et al., NSDI 2020).

The auction is the partial allocation mechanism (section 5; after Cole, Gkatzelis and Goel 2013). Each bidder values
numbers of GPUs. The allocation that maximises the product of valuations is found. Each winner then gives up the part
that pays for what it takes from the others: it keeps the fraction c of its share, where c is the product of the others'
valuations divided by what that product would be without it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np

from weft.errors import StackError
from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Spread
from weft.planners.base import Planner
from weft.planners.target import (
    all_jobs,
    as_decided,
    closest,
    different_ways,
    held,
    moved,
    remember,
    sizes_that_fit,
    target_of,
)

Bids = Mapping[str, Mapping[int, float]]  # bidder -> GPUs -> valuation (more than 0, with an entry for 0 GPUs)


def proportional_fair(bids: Bids, gpus: int) -> dict[str, int]:
    """GPUs of each bidder at which the product of valuations is largest; among equals the fewest GPUs."""
    names = list(bids)
    best = np.zeros(gpus + 1)
    choices: list[np.ndarray] = []
    for name in names:
        values = sorted((n, math.log(v)) for n, v in bids[name].items() if n <= gpus)
        total = np.full(gpus + 1, -np.inf)
        choice = np.zeros(gpus + 1, np.int64)
        for n, value in values:
            reached = np.full(gpus + 1, -np.inf)
            reached[n:] = best[: gpus + 1 - n] + value
            better = reached > total + 1e-12
            total[better], choice[better] = reached[better], n
        best = total
        choices.append(choice)
    found: dict[str, int] = {}
    left = int(np.argmax(best > best.max() - 1e-12))  # the fewest GPUs that reach it
    for name, choice in zip(reversed(names), reversed(choices), strict=True):
        found[name] = int(choice[left])
        left -= found[name]
    return {name: found[name] for name in names}


def payment(bids: Bids, gpus: int, shares: Mapping[str, int], bidder: str) -> float:
    """The part c of its share that a bidder keeps."""
    others = {name: values for name, values in bids.items() if name != bidder}
    if not others:
        return 1.0
    without = proportional_fair(others, gpus)
    with_it = math.fsum(math.log(others[name][shares[name]]) for name in others)
    alone = math.fsum(math.log(others[name][without[name]]) for name in others)
    return math.exp(min(0.0, with_it - alone))


def auction(bids: Bids, gpus: int, sizes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Winning shares after payments, rounded down to a size that the bidder can use (no winner loses everything)."""
    shares = proportional_fair(bids, gpus)
    kept: dict[str, int] = {}
    for name, share in shares.items():
        if share == 0:
            kept[name] = 0
            continue
        part = payment(bids, gpus, shares, name) * share
        kept[name] = max((n for n in sizes[name] if n <= part + 1e-9), default=min(sizes[name]))
    return kept


def believed_s(view: ClusterView, job: Job, workers: int) -> float:
    """Iteration time as Themis reckons with it: work shared equally, times a slowdown that knows locality only.

    serial time / workers x S (section 4 of its paper). The serial time is that of the samples which the job asked to
    have in an iteration; S depends on whether workers are on one server, in one rack or in several, not on how many
    they are, and is taken from what is known of the job at one size of each kind: the one it asked for, or else the
    nearest.
    """
    sizes = sizes_that_fit(view, job)
    kind = _kind(closest(view, workers))
    alike = [size for size in sizes if _kind(closest(view, size)) == kind] or [workers]
    known = min(alike, key=lambda size: (abs(size - job.gpus), size))
    there = view.estimate(job, known, closest(view, known))
    asked = min(sizes or (workers,), key=lambda size: (abs(size - job.gpus), size))
    serial_s = view.estimate(job, asked, closest(view, asked)).compute_s * asked
    slowdown = there.iteration_s / there.compute_s if there.compute_s > 0 else 1.0
    return (serial_s / workers if serial_s > 0 else there.iteration_s) * slowdown


def _kind(spread: Spread) -> int:
    return (spread.racks > 1) + (spread.servers > 1)


class Themis(Planner):
    """`themis`, `themis:F`, `themis:F,LEASE`: GPUs are leased for LEASE seconds (600) and then auctioned again.

    rho of a job is its time in the shared cluster over its time alone on a 1/N share of it. Free GPUs, and those whose
    lease has ended, are offered to the part 1 - F (F = 0.8) of the jobs without a lease that have the worst rho; they
    bid 1/rho for every size they can run at; the partial-allocation auction decides; what is left goes to the other
    jobs, the worst rho first, and then to jobs that can use more, leased ones included. Auctions are held when jobs
    come or go and when leases end. Candidates differ in placement only: sizes and spreads, hence rho, are the same.
    """

    name = "themis"
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})
    resizes = True

    def __init__(self, fairness: float = 0.8, lease_s: float = 600.0) -> None:
        self.fairness = fairness
        self.lease_s = lease_s
        if (fairness, lease_s) != (0.8, 600.0):
            self.name = f"themis:{fairness:g},{lease_s:g}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`themis`, `themis:0.8` or `themis:0.8,600`."""
        if arg is None:
            return cls()
        try:
            fairness, lease_s = (*map(float, arg.split(",")), 600.0)[:2]
        except ValueError:
            fairness, lease_s = math.nan, math.nan
        if not (0 <= fairness < 1 and 0 < lease_s < math.inf):
            raise StackError(f"themis:{arg}: write themis:F or themis:F,LEASE_S with 0 <= F < 1 and a lease in seconds")
        return cls(fairness, lease_s)

    def initial_state(self) -> State:
        """Nobody is anywhere."""
        return {"version": 1, "target": {}, "jobs": [], "leases": {}}

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """An auction if there is something to auction, else what was decided last."""
        target = target_of(view, state)
        leases = {job: end for job, end in state["leases"].items() if job in target}
        over = {job for job, end in leases.items() if end <= view.now and job not in held(view)}
        same = sorted(all_jobs(view)) == state["jobs"] and len(target) == len(state["target"])
        if same and not over:
            return [as_decided(view, target, state, "leased", self._wake(view, leases))]
        return self._auction(view, target, leases, over, n)

    def relocated(self, candidate: Candidate, placements: Mapping[str, Placement]) -> Candidate:
        """The target moves too."""
        return moved(candidate, placements)

    def rho(self, view: ClusterView, job: JobView, workers: int) -> float:
        """Finish-time fairness with this many workers from now on; with none, the job first waits for one lease."""
        sizes = sizes_that_fit(view, job.job)
        shared = view.now - job.job.submit_s
        if workers:
            shared += view.iterations_left(job.id) * believed_s(view, job.job, workers)
        else:
            fastest = min(believed_s(view, job.job, size) for size in sizes)
            shared += self.lease_s + view.iterations_left(job.id) * fastest
        share = max(1.0, view.cluster.n_gpus / max(1, len(all_jobs(view))))
        inside = [size for size in sizes if size <= share]
        if inside:
            alone = min(believed_s(view, job.job, size) for size in inside)
        else:  # it does not fit into its share: as if the share took turns
            alone = believed_s(view, job.job, sizes[0]) * sizes[0] / share
        return max(shared, 1e-9) / max(alone * job.job.iterations, 1e-9)

    def _auction(
        self, view: ClusterView, target: dict[str, Placement], leases: dict[str, float], over: set[str], n: int
    ) -> list[Candidate]:
        jobs = all_jobs(view)
        fixed = {**{job: gpus for job, gpus in target.items() if job in leases and job not in over}, **held(view)}
        taken = {gpu for gpus in fixed.values() for gpu in gpus}
        pool = [gpu for gpu in range(view.cluster.n_gpus) if view.offer.usable[gpu] and gpu not in taken]
        bidders = [job for job in jobs.values() if job.id not in fixed and sizes_that_fit(view, job.job)]
        fairness = {job.id: self.rho(view, job, len(target.get(job.id, ()))) for job in bidders}
        bidders.sort(key=lambda job: (-fairness[job.id], job.job.submit_s, job.id))
        sizes = self._sizes(view, bidders, len(pool))
        left = len(pool) - sum(sizes.values())
        if left and len(sizes) == len(bidders):  # nobody waits: those with a lease may grow
            for job in self._grow(view, [jobs[j] for j in fixed if j not in held(view)], left, sizes):
                pool += fixed.pop(job.id)
                bidders.append(job)
        kept = {job.id: job.gpus for job in bidders if job.status is JobStatus.RUNNING}
        renewed = {job: end for job, end in leases.items() if job in fixed}
        renewed |= dict.fromkeys(sizes, view.now + self.lease_s)
        renewed |= {job: leases.get(job, view.now + self.lease_s) for job in held(view)}
        found = []
        for way in different_ways(view, sizes, pool, kept, n, self.name):
            after = {**fixed, **way}
            state = remember(view, after, leases={job: renewed[job] for job in sorted(after)})
            reasons = {job: f"auction won: {len(gpus)} GPUs leased" for job, gpus in way.items()}
            reasons |= {job.id: "lease ended, auction lost" for job in bidders if job.id not in way}
            declined = tuple(
                Declined(job, "auction lost: no GPUs left for it") for job in view.waiting if job not in way
            )
            found.append(Candidate(Plan(after), state, reasons, declined, self._wake(view, state["leases"])))
        return found

    def _sizes(self, view: ClusterView, bidders: Sequence[JobView], gpus: int) -> dict[str, int]:
        """GPUs of each bidder: by auction among the worst off, then what is left, the worst off first."""
        usable = {job.id: sizes_that_fit(view, job.job) for job in bidders}
        worst = bidders[: max(1, math.ceil((1.0 - self.fairness) * len(bidders) - 1e-9))]
        bids = {
            job.id: {size: 1.0 / self.rho(view, job, size) for size in (0, *usable[job.id]) if size <= gpus}
            for job in worst
        }
        won = {job: size for job, size in auction(bids, gpus, usable).items() if size} if bids else {}
        left = gpus - sum(won.values())
        for job in bidders:
            fits = [size for size in usable[job.id] if size <= min(left, job.job.gpus)]
            if job.id not in won and fits:
                won[job.id] = max(fits, key=lambda size: (-self.rho(view, job, size), -size))
                left -= won[job.id]
        if len(won) == len(bidders):
            self._grow(view, bidders, left, won)
        return won

    def _grow(self, view: ClusterView, jobs: Sequence[JobView], left: int, sizes: dict[str, int]) -> list[JobView]:
        """Hand out what is left to jobs that finish earlier with more, the worst rho first; `sizes` is amended."""
        grown = []
        now = {job.id: sizes.get(job.id, len(job.gpus)) for job in jobs}
        for job in sorted(jobs, key=lambda job: (-self.rho(view, job, now[job.id]), job.job.submit_s, job.id)):
            more = [n for n in sizes_that_fit(view, job.job) if now[job.id] < n <= now[job.id] + left]
            best = min(more, key=lambda n: (self.rho(view, job, n), n), default=None)
            if best is not None and self.rho(view, job, best) < self.rho(view, job, now[job.id]) * (1 - 1e-9):
                left -= best - now[job.id]
                sizes[job.id] = best
                grown.append(job)
        return grown

    def _wake(self, view: ClusterView, leases: dict[str, float]) -> float | None:
        """The next end of a lease, while there is anybody to have the GPUs."""
        later = [end for end in leases.values() if end > view.now]
        return min(later) if later else None
