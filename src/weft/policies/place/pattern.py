"""Which workers of a job talk to which, stage by stage, and how to divide them among machines accordingly.

This is C^t_{n,n'} of the Titan paper (section III-A), per byte of message and for any collective. Everything here is
about shares of a job (how many workers on a first machine, on a second, ...), not about machines, so it is worked out
once for each tuple of shares and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import Profile, Transfer
from weft.network.collectives.algorithms import stages

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Fits = Callable[[int, int, float], bool]  # (share, other share, bytes of a stage between them) -> within the limit?

HD = "halving-doubling"
_KEEP = 1024  # profiles whose kind is remembered
_SWAPPED = 128  # larger jobs are left as they are: exchanging takes n^2 a step

# (ranks or None for all, collective, parameter servers, part of the iteration's message) of each transfer
Kind = tuple[int, tuple[tuple[tuple[int, ...] | None, str, int, float], ...]]


@dataclass(frozen=True, eq=False)
class Pattern:
    """What the workers send each other in an iteration, per byte of its messages.

    `stages` has, for each stage, its pairs (source, destination) and the bytes of each; `between` is, worker by worker,
    the bytes that two workers exchange in all stages, an exchange (there and back at once) counted once.
    """

    n: int
    stages: tuple[tuple[Ints, float], ...]
    between: Floats


@dataclass(frozen=True, slots=True)
class Division:
    """Ranks of each share, the bytes that cross between shares, and the most that two shares send in one stage."""

    ranks: tuple[tuple[int, ...], ...]
    across: float
    peak: float


def kind_of(profile: Profile, default: str) -> Kind:
    """Everything that a profile's pattern depends on: all but the size of its messages."""
    sends = [t for t in profile.tasks if isinstance(t, Transfer) and t.bytes > 0]
    whole = sum(t.bytes for t in sends)
    parts: dict[tuple[tuple[int, ...] | None, str, int], float] = {}
    for t in sends:
        key = (t.workers, t.collective or default, t.servers)
        parts[key] = parts.get(key, 0.0) + t.bytes / whole
    return profile.workers, tuple((*key, round(part, 12)) for key, part in parts.items())


@lru_cache(maxsize=1024)
def pattern_of(kind: Kind) -> Pattern:
    """The pattern of a kind; buckets that are sent alike count as one message."""
    n, parts = kind
    found: list[tuple[Ints, float]] = []
    between = np.zeros((n, n))
    for workers, collective, servers, part in parts:
        ranks = np.arange(n) if workers is None else np.asarray(workers)
        for stage in stages(collective, len(ranks), part, servers):
            among = [pair for pair in stage.pairs if max(pair) < len(ranks)]  # the others end at parameter servers
            pairs = ranks[np.asarray(among, dtype=np.int64).reshape(-1, 2)]
            found.append((pairs, stage.bytes))
            for a, b in {(min(p), max(p)) for p in pairs.tolist()}:
                between[a, b] += stage.bytes * stage.steps
                between[b, a] += stage.bytes * stage.steps
    return Pattern(n, tuple(found), between)


def bytes_across(pattern: Pattern, machine_of: Sequence[int]) -> float:
    """Bytes between machines in an iteration per byte of message, each exchange counted once (section II-B)."""
    where = np.asarray(machine_of)
    apart = where[:, None] != where[None, :]
    return float(pattern.between[apart].sum()) / 2.0


@lru_cache(maxsize=16384)
def divide(kind: Kind, shares: tuple[int, ...], swap: bool = False) -> Division:
    """Workers for shares of these sizes: each share grows by the worker that talks most to those it has already.

    With `swap` workers then change places in pairs as long as fewer bytes cross.
    """
    pattern = pattern_of(kind)
    where, left = np.zeros(pattern.n, dtype=np.int64), np.ones(pattern.n, dtype=np.bool_)
    for i, size in enumerate(shares):
        where[list(grow_one(pattern, left, size, i))] = i
    if swap and pattern.n <= _SWAPPED:
        where = swapped(pattern, where)
    ranks = tuple(tuple(np.flatnonzero(where == i).tolist()) for i in range(len(shares)))
    return Division(ranks, bytes_across(pattern, where.tolist()), peak_of(pattern, where))


class Dealing:
    """Puts ranks on GPUs that a place has chosen so that as few bytes as possible cross between servers."""

    def __init__(self, collective: str = HD) -> None:
        self.collective = collective  # where a profile does not say
        self._kinds: dict[int, tuple[Profile, Kind]] = {}  # by identity: most jobs of a trace share their profiles

    def order(self, cluster: Cluster, profile: Profile, gpus: Placement) -> Placement:
        """The same GPUs in the best order of ranks found; unchanged where that saves nothing."""
        where = cluster.server_of_gpu[list(gpus)].tolist()
        on: dict[int, list[int]] = {}
        for gpu, server in zip(gpus, where, strict=True):
            on.setdefault(server, []).append(gpu)
        if len(on) < 2:
            return gpus
        kind = self.kind(profile)
        shares = sorted(on.values(), key=len, reverse=True)  # the largest first, as Titan's machines are
        division = divide(kind, tuple(map(len, shares)))
        if division.across >= bytes_across(pattern_of(kind), where) * (1 - 1e-9):
            return gpus
        dealt = [0] * len(gpus)
        for ids, ranks in zip(shares, division.ranks, strict=True):
            for rank, gpu in zip(ranks, ids, strict=True):
                dealt[rank] = gpu
        return tuple(dealt)

    def kind(self, profile: Profile) -> Kind:
        """The kind of a profile, found once."""
        known = self._kinds.get(id(profile))
        if known is None:
            if len(self._kinds) >= _KEEP:
                self._kinds.clear()
            known = self._kinds[id(profile)] = (profile, kind_of(profile, self.collective))
        return known[1]


def swapped(pattern: Pattern, where: Ints) -> Ints:
    """Pairs of workers of different shares exchanged, the best exchange first, until none saves bytes."""
    where = where.copy()
    n, m = pattern.n, int(where.max()) + 1
    for _ in range(4 * n):
        member = where[:, None] == np.arange(m)[None, :]
        to = pattern.between @ member  # bytes of each worker to each share
        own = to[np.arange(n), where]
        gain = to[:, where] - own[:, None]  # bytes saved by moving a worker to the share of another
        both = gain + gain.T - 2.0 * pattern.between
        both[where[:, None] == where[None, :]] = 0.0
        a, b = divmod(int(np.argmax(both)), n)
        if both[a, b] <= 1e-9:
            break
        where[a], where[b] = where[b], where[a]
    return where


def within(pattern: Pattern, ranks: Sequence[Sequence[int]], fits: Fits) -> bool:
    """Does every pair of shares stay within its limit in every stage (Eq. 5)?"""
    load = Load(pattern)
    return all(load.admit(worker, i, fits) for i, members in enumerate(ranks) for worker in members)


def peak_of(pattern: Pattern, where: Ints) -> float:
    """Most bytes that one machine sends another in one stage, per byte of message."""
    most, m = 0.0, int(where.max()) + 1
    for pairs, size in pattern.stages:
        src, dst = where[pairs[:, 0]], where[pairs[:, 1]]
        apart = src != dst
        if apart.any():
            most = max(most, size * int(np.bincount(src[apart] * m + dst[apart]).max()))
    return most


def grow_one(
    pattern: Pattern, left: npt.NDArray[np.bool_], size: int, share: int, load: Load | None = None,
    fits: Fits | None = None,
) -> tuple[int, ...]:  # fmt: skip
    """One share: the first worker that is left, then whoever talks most to the share so far.

    With `load` and `fits`, only workers whose pairs all stay within the limits are taken (Algorithm 1 as its text has
    it), so the share may end up smaller, or empty. `left` and `load` are brought up to date.
    """
    members: list[int] = []
    allowed = left.copy()
    affinity = np.zeros(pattern.n)
    while len(members) < size:
        worker = int(np.argmax(np.where(allowed, affinity, -1.0)))
        if not allowed[worker]:
            break
        allowed[worker] = False
        if load is not None and fits is not None and not load.admit(worker, share, fits):
            continue
        members.append(worker)
        left[worker] = False
        affinity += pattern.between[worker]
    return tuple(sorted(members))


class Load:
    """Bytes of each stage between the shares so far (C_{f,f'} of Algorithm 1, kept per stage and direction)."""

    def __init__(self, pattern: Pattern) -> None:
        self.where = np.full(pattern.n, -1, dtype=np.int64)
        self.bytes: dict[tuple[int, int, int], float] = {}  # (stage, from, to)
        self._sends: list[list[tuple[int, int, bool, float]]] = [[] for _ in range(pattern.n)]
        for t, (pairs, size) in enumerate(pattern.stages):
            for src, dst in pairs.tolist():
                self._sends[src].append((t, dst, True, size))
                self._sends[dst].append((t, src, False, size))

    def copy(self) -> Load:
        """The same, to try something on."""
        other = copy(self)
        other.where, other.bytes = self.where.copy(), dict(self.bytes)
        return other

    def admit(self, worker: int, share: int, fits: Fits, every: bool = True) -> bool:
        """Put a worker on a share if every pair of machines stays within its limit in every stage.

        Without `every`, one pair within its limit is enough, as Algorithm 1 is printed. A worker that sends nothing to
        another share yet is let in, since otherwise none ever would be.
        """
        new: dict[tuple[int, int, int], float] = {}
        for t, peer, outward, size in self._sends[worker]:
            other = int(self.where[peer])
            if other >= 0 and other != share:
                key = (t, share, other) if outward else (t, other, share)
                new[key] = new.get(key, self.bytes.get(key, 0.0)) + size
        within = [fits(a, b, size) for (_, a, b), size in new.items()]
        if within and not (all(within) if every else any(within)):
            return False
        self.bytes.update(new)
        self.where[worker] = share
        return True
