"""Answers about what comes: when jobs start and what they wait for, what a change would do to whom, which moves free a
rack. All of them simulate forward from one state (weft.advise.forward)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any

import numpy as np
from scipy import stats

from weft.advise.forward import LONGEST_S, ON_GPUS, Present, Sample, samples
from weft.core.layered import Layered
from weft.core.stack import Stack
from weft.errors import InputError, StackError
from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.network.topologies import Machine
from weft.network.topologies.clos import Node, racks_of_nodes
from weft.policies.order.limited import Limited, Limits
from weft.results.compare import mean_and_interval

COUNTED = 40  # samples from which quantiles are counted; of fewer they are computed as if waits were log-normal
_SHARE = 0.8  # of starts that are to lie between low and high
MOST_BLOCKERS = 4
MOST_MOVES = 8


@dataclass(frozen=True)
class Range:
    """Seconds until something happens: the 10 %, 50 % and 90 % points of what was seen. Infinite: not in 60 days."""

    low: float
    middle: float
    high: float
    samples: int

    @staticmethod
    def of(waits: Sequence[float]) -> Range:
        """Counted where there are enough samples. Of fewer, what a further one would be: Student's t on logarithms."""
        n = len(waits)
        if n >= COUNTED or not all(map(math.isfinite, waits)):
            low, middle, high = np.quantile(waits, (0.1, 0.5, 0.9), method="closest_observation").tolist()
            return Range(low, middle, high, n)
        logs = np.log1p(np.array(waits))
        centre, spread = float(logs.mean()), float(logs.std(ddof=1)) if n > 1 else 0.0
        off = spread * math.sqrt(1 + 1 / n) * float(stats.t.ppf((1 + _SHARE) / 2, max(n - 1, 1)))
        low, middle, high = (max(0.0, math.expm1(min(700.0, at))) for at in (centre - off, centre, centre + off))
        return Range(low, middle, high if high < LONGEST_S else math.inf, n)


@dataclass(frozen=True)
class Blocker:
    """A running job for whose end another one waits."""

    job: str
    gpus: int
    until: Range


@dataclass(frozen=True)
class Forecast:
    """When a job starts, and what it waits for."""

    job: str
    gpus: int
    user: str
    starts_in: Range
    free: int
    blockers: tuple[Blocker, ...]
    ahead: int  # jobs that wait now and start before it, at the median

    def to_dict(self, wall_s: float = 0.0) -> dict[str, Any]:
        """What --json prints; seconds from now that are infinite are null."""
        r = self.starts_in
        return {
            "job": self.job, "gpus": self.gpus, "starts_in_s": {"p10": r.low, "p50": r.middle, "p90": r.high},
            "at": wall_s, "samples": r.samples, "free_gpus": self.free, "jobs_ahead": self.ahead,
            "waits_for": [
                {"job": one.job, "gpus": one.gpus, "ends_in_s": {"p10": one.until.low, "p50": one.until.middle,
                                                                "p90": one.until.high}}
                for one in self.blockers
            ],
        }  # fmt: skip


def forecasts(present: Present, stack: Stack, jobs: Sequence[str], **how: Any) -> list[Forecast]:
    """When these jobs start."""
    found = samples(present, stack, jobs, **how)
    owners, n_free = present.owners, len(present.free())
    return [_forecast(present, job, found, owners, n_free) for job in jobs]


def _forecast(present: Present, job: str, found: Sequence[Sample], owners: Mapping[int, str], free: int) -> Forecast:
    now, view = present.now_s, present.job(job)
    waits = [one.starts.get(job, math.inf) - now for one in found]
    taken: Counter[str] = Counter()
    for one in found:
        before = {owners[gpu] for gpu in one.places.get(job, ()) if gpu in owners}
        taken.update(name for name in before if one.ends.get(name, math.inf) <= one.starts[job])
    held = Counter(owners.values())
    often = [name for name, n in taken.most_common(MOST_BLOCKERS) if 2 * n >= len(found)] or [
        name for name, _ in taken.most_common(1)
    ]
    blockers = [
        Blocker(name, held[name], Range.of([s.ends[name] - now for s in found if name in s.ends])) for name in often
    ]
    earlier = [sum(at < one.starts[job] for at in one.starts.values()) for one in found if job in one.starts]
    return Forecast(
        job, view.job.gpus, view.job.user, Range.of(waits), free, tuple(sorted(blockers, key=lambda b: b.until.middle)),
        round(median(earlier)) if earlier else 0,
    )  # fmt: skip


# What a change does


@dataclass(frozen=True)
class Effect:
    """What a change does: seconds by which jobs start later (negative: earlier), on average over samples."""

    by_job: Mapping[str, float]
    by_user: Mapping[str, dict[str, Any]]  # mean over the user's jobs, with its interval
    all: dict[str, Any]
    never: tuple[str, ...]  # jobs that no sample starts any more


def effect(before: Present, stack: Stack, after: Present, other: Stack, n: int) -> Effect:
    """The same samples with and without a change."""
    asked = [job for job in before.waiting if job in set(after.waiting)]
    old, new = (samples(p, s, asked, n) for p, s in ((before, stack), (after, other)))
    end = before.now_s + LONGEST_S
    later = {
        job: [b.starts.get(job, end) - a.starts.get(job, end) for a, b in zip(old, new, strict=True)] for job in asked
    }
    users: dict[str, list[str]] = {}
    for job in asked:
        users.setdefault(before.job(job).job.user, []).append(job)
    return Effect(
        {job: mean(values) for job, values in later.items()},
        {user: _mean_later(later, jobs) for user, jobs in users.items()},
        _mean_later(later, asked),
        tuple(job for job in asked if not any(job in one.starts for one in new) and any(job in o.starts for o in old)),
    )


def _mean_later(later: Mapping[str, Sequence[float]], jobs: Sequence[str]) -> dict[str, Any]:
    if not jobs:
        return {"mean": 0.0, "ci95": (None, None), "jobs": 0}
    return {
        **mean_and_interval([mean(one) for one in zip(*(later[job] for job in jobs), strict=True)]),
        "jobs": len(jobs),
    }


def drained(present: Present, name: str) -> Present:
    """Nothing starts any more on a rack or a server; what runs there goes on."""
    cluster = present.cluster
    racks = {f"rack{rack}": rack for rack in range(cluster.n_racks)} | rack_names(cluster)
    gone = {s.id for s in cluster.servers if s.name == name or (name in racks and s.rack == racks[name])}
    if not gone:
        raise InputError(f"--drain {name}: there is no such rack or server; racks are {', '.join(rack_names(cluster))}")
    return replace(present, down=present.down | gone)


def rack_names(cluster: Cluster) -> dict[str, int]:
    """Racks by the first of their servers and the last."""
    servers: dict[int, list[str]] = {}
    for server in cluster.servers:
        servers.setdefault(server.rack, []).append(server.name)
    return {names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}": rack for rack, names in servers.items()}


def with_nodes(present: Present, nodes: int) -> Present:
    """The same cluster with so many servers more, each as large as the largest, in a rack of their own."""
    old = present.cluster
    sizes = [(server.name, len(server.gpus), server.rack) for server in old.servers]
    new = [(f"new{i}", old.largest_server, old.n_racks) for i in range(1, nodes + 1)]
    cluster = cluster_of([*sizes, *new])
    at = {server.name: server.gpus for server in cluster.servers}
    moved = {gpu: at[s.name][i] for s in old.servers for i, gpu in enumerate(s.gpus)}
    jobs = tuple(replace(job, gpus=tuple(moved[gpu] for gpu in job.gpus)) for job in present.jobs)
    ids = {server.name: server.id for server in cluster.servers}
    down = frozenset(ids[old.servers[server].name] for server in present.down)
    return replace(present, cluster=cluster, jobs=jobs, down=down, memory=None)


def cluster_of(servers: Sequence[tuple[str, int, int]]) -> Cluster:
    """A cluster of which only servers, their GPUs and racks are known; links do not matter to when jobs start."""
    rows: dict[int, list[Node]] = {}
    machine = Machine(gpus_per_server=max(n for _, n, _ in servers), nic_gbps=100.0)
    for name, n, rack in servers:
        rows.setdefault(rack, []).append(Node(name, machine.with_gpus(n)))
    return racks_of_nodes("site", list(rows.values()), [f"leaf{rack}" for rack in rows], machine, spines=1, seed=0)


def limited(stack: Stack, text: str) -> Stack:
    """The stack under a limit `USER=GPUS`."""
    user, equals, number = text.partition("=")
    if not (user and equals and number.isdecimal()):
        raise InputError(f"--limit {text}: write USER=GPUS, such as alice=16")
    planner = stack.planner
    if not isinstance(planner, Layered):
        raise StackError(
            f"--limit {text}: {planner.name} decides order and place at once and knows no limits; name another --stack"
        )
    limits = Limits(users={user: int(number)})
    return replace(stack, planner=Layered(Limited(planner.order, limits), planner.place))


# Moving jobs


@dataclass(frozen=True)
class Move:
    """A running job, and where it would go on."""

    job: str
    gpus: int
    to: Placement
    cost_gpu_s: float


@dataclass(frozen=True)
class Defrag:
    """Which jobs to move, and what comes of it."""

    moves: tuple[Move, ...]
    racks_free: tuple[int, int]  # whole racks without a job, before and after
    largest: tuple[int, int]  # GPUs free in one rack, at most
    starts: tuple[str, ...]  # jobs that start at once then, and would not now (in at least half of the samples)
    cost_gpu_s: float
    wins_gpu_s: dict[str, Any]  # GPU seconds that waiting jobs start earlier, less the cost; with its interval
    fixed: tuple[str, ...]  # running jobs that do not resume where they were, so that nobody should move them


def defrag(present: Present, stack: Stack, n: int) -> Defrag:
    """Empty the rack that takes the least moving, then the next, as long as its jobs fit elsewhere."""
    movable = {job.id for job in present.jobs if job.status in ON_GPUS and job.job.resumes}
    fixed = tuple(job.id for job in present.jobs if job.status in ON_GPUS and job.id not in movable)
    best: tuple[Move, ...] = ()
    while (more := _next_rack(_moved(present, best), movable - {m.job for m in best})) and len(best) + len(
        more
    ) <= MOST_MOVES:
        best = (*best, *more)
    after = _moved(present, best)
    counts = [(_racks_free(p), _largest(p)) for p in (present, after)]
    asked = present.waiting
    old, new = samples(present, stack, asked, n), samples(after, stack, asked, n)
    end, cost = present.now_s + LONGEST_S, sum(move.cost_gpu_s for move in best)
    size = {job: present.job(job).job.gpus for job in asked}
    wins = [
        sum(size[job] * (a.starts.get(job, end) - b.starts.get(job, end)) for job in asked) - cost
        for a, b in zip(old, new, strict=True)
    ]
    now = present.now_s
    at_once = [{job for job in asked if 2 * sum(s.starts.get(job, end) <= now for s in of) >= n} for of in (old, new)]
    return Defrag(
        best, (counts[0][0], counts[1][0]), (counts[0][1], counts[1][1]), tuple(sorted(at_once[1] - at_once[0])), cost,
        mean_and_interval(wins), fixed,
    )  # fmt: skip


def _next_rack(present: Present, movable: set[str]) -> tuple[Move, ...]:
    """The moves that empty one more rack with the fewest GPUs moved; none if there is no such rack."""
    cluster, views = present.cluster, {job.id: job for job in present.jobs}
    inside: dict[int, set[str]] = {}
    for gpu, job in present.owners.items():
        inside.setdefault(int(cluster.rack_of_server[cluster.server_of_gpu[gpu]]), set()).add(job)
    options = []
    for rack, jobs in inside.items():
        if not jobs <= movable or any(s.id in present.down for s in cluster.servers if s.rack == rack):
            continue
        if moves := _elsewhere(present, rack, sorted(jobs, key=lambda name: (-len(views[name].gpus), name))):
            options.append((sum(move.gpus for move in moves), rack, moves))
    return min(options)[2] if options else ()


def _elsewhere(present: Present, rack: int, jobs: Sequence[str]) -> tuple[Move, ...]:
    """Moves of all these jobs to servers of other racks that are in use; none if they do not fit. A job goes to as many
    GPUs of each server as it has now on its servers."""
    cluster, views = present.cluster, {job.id: job for job in present.jobs}
    used = {int(cluster.rack_of_server[cluster.server_of_gpu[gpu]]) for gpu in present.owners} - {rack}
    room: dict[int, list[int]] = {}
    for gpu in present.free():
        server = int(cluster.server_of_gpu[gpu])
        if int(cluster.rack_of_server[server]) in used:
            room.setdefault(server, []).append(gpu)
    moves = []
    for name in jobs:
        view, to = views[name], list[int]()
        for n in sorted(Counter(cluster.server_of_gpu[list(view.gpus)].tolist()).values(), reverse=True):
            fitting = [server for server, gpus in room.items() if len(gpus) >= n]
            if not fitting:
                return ()
            server = min(fitting, key=lambda s: (len(room[s]), s))
            to += room[server][:n]
            room[server] = room[server][n:]
        lost_s = present.restart_s + _unsaved_s(present, name)
        moves.append(Move(name, len(to), tuple(to), lost_s * len(to)))
    return tuple(moves)


def _unsaved_s(present: Present, name: str) -> float:
    """Seconds since its last checkpoint, on average half of what lies between two."""
    job = present.job(name).job
    return 0.5 * job.checkpoint_every * job.profile.compute_s if job.known else 0.0


def _moved(present: Present, moves: Sequence[Move]) -> Present:
    """As if jobs had just been moved: each loses its restart and what it had not saved."""
    to = {move.job: move for move in moves}
    jobs = []
    for job in present.jobs:
        if (move := to.get(job.id)) is not None:
            since_s = present.now_s if job.started_s is None else job.started_s
            job = replace(job, gpus=move.to, started_s=since_s + move.cost_gpu_s / move.gpus)
        jobs.append(job)
    return replace(present, jobs=tuple(jobs))


def _racks_free(present: Present) -> int:
    cluster = present.cluster
    used = {int(cluster.rack_of_server[cluster.server_of_gpu[gpu]]) for gpu in present.owners}
    return cluster.n_racks - len(used | {s.rack for s in cluster.servers if s.id in present.down})


def _largest(present: Present) -> int:
    cluster = present.cluster
    by_rack = Counter(int(cluster.rack_of_server[cluster.server_of_gpu[gpu]]) for gpu in present.free())
    return max(by_rack.values(), default=0)
