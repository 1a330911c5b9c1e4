"""monkeytree: first come, first served, and running jobs move so that few rings cross each ToR (MonkeyTree, 2026).

A ring over ranks that are sorted by ToR leaves each ToR that it visits once. If no more rings cross a ToR than it has
spines, every ring can have a spine of its own (`--route edge-colouring`). So whenever jobs have come or gone, the
fewest blocks move that bring every ToR under that limit (plan.py). A block is a whole server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.policy import setting
from weft.model.profile import Profile, Transfer
from weft.model.reason import Why, because
from weft.model.view import ClusterView, Fact, JobStatus
from weft.policies.planners.base import Planner
from weft.policies.planners.monkeytree.plan import Segment, fragmentation, moved
from weft.policies.planners.target import Room, all_jobs, as_decided, pack, remember, target_of

_SOON_S = 1.0  # jobs that are on their way are looked at again so soon

Blocks = list[int]  # servers of a segment, in the order of its ranks


def spines(cluster: Cluster) -> int:
    """Links from a ToR up, of the ToR that has fewest."""
    servers = {server.name for server in cluster.servers}
    tors = {server.domains[0] for server in cluster.servers if server.domains}
    up = dict.fromkeys(tors, 0)
    for link in cluster.topology.links:
        if link.src in tors and link.dst not in servers:
            up[link.src] += 1
    return min(up.values(), default=0)


def rings(profile: Profile, ranks: range, each: int) -> int:
    """Rings of a segment: groups of its workers that talk over several blocks of `each`, those that talk in pairs
    aside; at least 1."""
    found = set()
    for task in profile.tasks:
        if isinstance(task, Transfer) and task.collective != "point-to-point":
            mine = tuple(rank for rank in profile.ranks(task) if rank in ranks)
            if len({rank // each for rank in mine}) > 1:
                found.add(mine)
    return max(1, len(found))


@dataclass(eq=False)
class MonkeyTree(Planner):
    """`monkeytree`, or `monkeytree:limit=N` for other than as many rings across a ToR as it has links up.

    Kept: first come, first served with blocking; best fit per ToR; segments and their rings; the program and the
    choice of blocks; no start and no new plan while jobs move. Ours: jobs that are no whole number of servers are
    placed closely and never move, a job that has not started yet moves for nothing, and rings are counted from the
    groups of the profile. The search for a plan has an end (plan.py): the best one until then is taken, and without one
    all stay until something changes. A move is a stop at the last checkpoint and a start, which costs what the scenario
    says (`restart_s`): 10 s and the time to send the state in the paper. Left out: limits between pods.
    """

    name = "monkeytree"
    needs = frozenset({Fact.PROFILE})
    limit: int | None = setting(None, "limit", within="[0, 1000000]", whole=True)

    def initial_state(self) -> State:
        """Nobody is anywhere."""
        return {"version": 1, "target": {}, "jobs": []}

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """What was decided last until everybody is there; then starts, and moves where they are needed."""
        target = _agreed(view, target_of(view, state))
        coming = [job for job in view.running.values() if job.status is not JobStatus.RUNNING]
        if any(job not in view.running or view.running[job].gpus != gpus for job, gpus in target.items()):
            state = {**state, "target": {job: list(gpus) for job, gpus in target.items()}}
            return [as_decided(view, target, state, "jobs move", view.now + _SOON_S)]
        blocks = _Blocks(view, target)
        started, declined = blocks.start()
        limit = spines(view.cluster) if self.limit is None else self.limit
        why: dict[str, Why] = dict.fromkeys(started, "best fit for a ToR, first come, first served")
        wake_s, more = None, dict[str, Any]()
        if max(blocks.fragmentation(), default=0) > limit:
            asked = blocks.asked(limit)
            if coming:
                wake_s = view.now + _SOON_S
            elif state.get("no_way") == asked or (moving := blocks.move(limit)) is None:
                more = {"no_way": asked}
                why |= {job: because("weft.no-way", limit=limit) for job in blocks.split() if job not in started}
            else:
                why |= dict.fromkeys(moving, f"moves: more than {limit} rings cross a ToR")
        reasons = {job: why.get(job, "stays") for job in blocks.target}
        return [Candidate(Plan(blocks.target), remember(view, state, blocks.target, **more), reasons, declined, wake_s)]


def _agreed(view: ClusterView, target: dict[str, Placement]) -> dict[str, Placement]:
    """The target without contradictions: where a running job is, or where it is to go if nobody else is to be there."""
    found: dict[str, Placement] = {}
    taken: set[int] = set()
    placed = view.placements
    for where in (target, placed):  # a job that is not in the target stays where it is
        for job, gpus in where.items():
            if job not in found and taken.isdisjoint(gpus):
                found[job] = tuple(gpus)
                taken.update(gpus)
    return found


class _Blocks:
    """Whole servers by ToR: who is on them, and who goes where."""

    def __init__(self, view: ClusterView, target: Mapping[str, Placement]) -> None:
        self.view, self.cluster, self.target = view, view.cluster, dict(target)
        self.each = self.cluster.largest_server
        self.tors = self.cluster.n_racks
        self.tor_of = self.cluster.rack_of_server.tolist()
        taken = {gpu for gpus in (*target.values(), *view.placements.values()) for gpu in gpus}
        self.free_gpus = {gpu for gpu in range(self.cluster.n_gpus) if view.offer.usable[gpu] and gpu not in taken}
        self.free: list[set[int]] = [set() for _ in range(self.tors)]  # whole servers, by ToR
        for server in self.cluster.servers:
            if len(server.gpus) == self.each and self.free_gpus.issuperset(server.gpus):
                self.free[server.rack].add(server.id)
        jobs = all_jobs(view)
        self.segments: dict[tuple[str, int], tuple[int, Blocks]] = {}  # rings and servers of each stage of each job
        for job, gpus in target.items():
            if job in jobs and self.whole(jobs[job].job):
                self.enter(jobs[job].job, gpus)

    def whole(self, job: Job) -> bool:
        """Whether a job takes whole servers."""
        return job.gpus % self.each == 0

    def enter(self, job: Job, gpus: Placement) -> None:
        """Note the segments of a job on these GPUs."""
        servers = self.cluster.server_of_gpu[list(gpus)].tolist()
        if any(len(set(servers[i : i + self.each])) > 1 for i in range(0, len(servers), self.each)):
            return  # placed by somebody else
        profile = job.profiles[len(gpus)]
        n = profile.stages if len(gpus) % (profile.stages * self.each) == 0 else 1
        size = len(gpus) // n
        for stage in range(n):
            ranks = range(stage * size, (stage + 1) * size)
            mine = servers[ranks.start : ranks.stop : self.each]
            self.segments[job.id, stage] = (rings(profile, ranks, self.each), mine)

    def start(self) -> tuple[list[str], tuple[Declined, ...]]:
        """Place waiting jobs until one does not fit; those behind it wait."""
        started: list[str] = []
        for job in self.view.waiting.values():
            if job.id in self.target:
                continue
            gpus = self._place(job.job)
            if gpus is None:
                return started, (Declined(job.id, "no free servers for it; those behind it wait"),)
            self.target[job.id] = gpus
            self.free_gpus.difference_update(gpus)
            started.append(job.id)
            if self.whole(job.job):
                self.enter(job.job, gpus)
        return started, ()

    def _place(self, job: Job) -> Placement | None:
        if not self.whole(job):
            gpus = pack(Room(self.cluster, self.free_gpus), job.gpus)
            for server in self.cluster.server_of_gpu[list(gpus or ())].tolist():
                self.free[self.tor_of[server]].discard(server)
            return gpus
        n = job.gpus // self.each
        if sum(map(len, self.free)) < n:
            return None
        chosen: Blocks = []
        while left := n - len(chosen):
            enough = [t for t in range(self.tors) if len(self.free[t]) >= left]
            tor = min(enough, key=lambda t: (len(self.free[t]), t)) if enough else 0
            tor = tor if enough else max(range(self.tors), key=lambda t: (len(self.free[t]), -t))
            some = sorted(self.free[tor])[:left]
            self.free[tor].difference_update(some)
            chosen += some
        return self._gpus(sorted(chosen))

    def _gpus(self, servers: Blocks) -> Placement:
        return tuple(gpu for server in servers for gpu in self.cluster.servers[server].gpus)

    def by_tor(self) -> list[Segment]:
        """Segments as the program sees them."""
        counts = []
        for n, servers in self.segments.values():
            tors = [self.tor_of[server] for server in servers]
            counts.append(Segment(n, tuple(tors.count(t) for t in range(self.tors))))
        return counts

    def fragmentation(self) -> list[int]:
        """Rings that cross each ToR."""
        return fragmentation(self.by_tor(), self.tors)

    def split(self) -> list[str]:
        """Jobs of which a segment spans several ToRs."""
        return [job for (job, _), segment in zip(self.segments, self.by_tor(), strict=True) if segment.split]

    def asked(self, limit: int) -> list[Any]:
        """What the program is asked, as a state can hold it."""
        segments = [[segment.rings, *segment.blocks] for segment in self.by_tor()]
        return [limit, [len(free) for free in self.free], segments]

    def move(self, limit: int) -> list[str] | None:
        """Bring every ToR under the limit; returns the jobs that move, None if the program finds no way."""
        segments = self.by_tor()
        room = [len(self.free[t]) + sum(s.blocks[t] for s in segments) for t in range(self.tors)]
        wanted = moved(segments, room, limit)
        if wanted is None:
            return None
        arriving: list[tuple[tuple[str, int], int]] = []
        for (key, (_, servers)), blocks in zip(self.segments.items(), wanted, strict=True):
            for tor, n in enumerate(blocks):
                mine = sorted(server for server in servers if self.tor_of[server] == tor)
                for server in mine[n:]:  # those with the highest numbers leave
                    servers.remove(server)
                    self.free[tor].add(server)
                arriving += [(key, tor)] * (n - len(mine))
        for key, tor in arriving:
            first = min(self.free[tor])
            self.free[tor].remove(first)
            self.segments[key][1].append(first)
        movers = sorted({job for (job, _), _ in arriving})
        for job in movers:
            stages = [servers for (name, _), (_, servers) in self.segments.items() if name == job]
            self.target[job] = tuple(gpu for servers in stages for gpu in self._gpus(sorted(servers)))
        return movers
