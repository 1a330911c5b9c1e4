"""titan: fragments first, then as few machines as possible, workers that talk most side by side (Titan, 2024)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster, Topology
from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobView, Offer
from weft.network.collectives.algorithms import COLLECTIVES
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, Share, idle_first
from weft.policies.place.pattern import HD, Dealing, Kind, Load, divide, grow_one, pattern_of, within
from weft.policies.place.titan.machines import Rooms
from weft.policies.place.titan.search import Placed, search


@dataclass(frozen=True)
class StageLimits:
    """P(s, s') as bytes: what one machine may send another in one stage; `least` holds for every pair."""

    least: float
    between: Callable[[int, int], float]

    def per_byte(self, message: float) -> StageLimits:
        """The same for a message of one byte."""
        return StageLimits(self.least / message, lambda a, b: self.between(a, b) / message)


_NO_LIMITS = StageLimits(np.inf, lambda a, b: np.inf)


@dataclass(eq=False)
class Titan(Place):
    """`titan`, `titan:printed`, `titan:plus`; also the collective and the stage time, as in `titan:plus/ring/0.1`.

    Objectives in order: the fewest idle machines, the fewest machines, the fewest bytes across machines. In no stage
    may one machine send another more than the slowest link between them carries in the stage time (1 s unless said
    otherwise: the paper compares bytes with bandwidth). A job that finds no such place waits. If an empty cluster would
    not have one either, the job is placed without the limits.

    `printed` is the paper's Algorithm 3 to the letter: over the used machines and as many idle ones as would do alone,
    workers at random, the machine with the largest H next. `plus` looks at more ways to share workers out before it
    takes another machine, and lets workers change places.
    """

    name, divider = "titan", "/"
    needs = frozenset({Fact.PROFILE})
    variant: str = setting("", words=("printed", "plus"))
    collective: str = setting(HD, words=tuple(COLLECTIVES))
    stage_s: float = setting(1.0, within="(0, inf)")

    def __post_init__(self) -> None:
        """Nothing has been asked."""
        super().__post_init__()
        self._dealing = Dealing(self.collective)
        self._of: tuple[Topology, StageLimits] | None = None
        self._fitting: dict[
            tuple[Kind, float, int], bool
        ] = {}  # kinds of jobs by message and shape: would it do empty?

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Algorithm 3: the used machines alone; if that will not do, with one idle machine after another."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are free", state)
        free = offer.free_per_server
        idle = free == view.cluster.gpus_per_server
        rooms = Rooms(free, idle)
        if self.variant != "printed" and (alone := rooms.one(gpus)) is not None:
            return self._answer(view, offer, ((alone, tuple(range(gpus))),), idle, state)
        profile = job.job.profiles[gpus]
        kind = self._dealing.kind(profile)
        limits = self._limits(view.cluster).per_byte(max(profile.message_bytes, 1.0))
        found = None
        if self._would_fit(view.cluster, kind, max(profile.message_bytes, 1.0), limits, job.job.per_server):
            found = self._solve(view, kind, free, idle, limits, rooms)
            if found is None and (view.running or offer.n_free < int(offer.usable.sum())):
                return Answer(None, "no machines with free GPUs keep its traffic within the bandwidth", state)
        but = "" if found else "; beyond the bandwidth, as it would be on any machines"
        found = found or self._solve(view, kind, free, idle, _NO_LIMITS, rooms)
        if found is None:
            return Answer(None, f"wants {gpus} GPUs; fewer are free", state)
        return self._answer(view, offer, found, idle, state, but)

    def _would_fit(self, cluster: Cluster, kind: Kind, message: float, limits: StageLimits, each: int) -> bool:
        """Whether an empty cluster has a place for such a job within the limits; if not, waiting would not help it."""
        key = (kind, message, each)
        if key not in self._fitting:
            room = cluster.gpus_per_server
            found = solve(kind, room, room > 0, limits, plus=self.variant == "plus")
            self._fitting[key] = found is not None and all(len(ranks) == each for _, ranks in found if each)
        return self._fitting[key]

    def _solve(
        self, view: ClusterView, kind: Kind, free: Ints, idle: npt.NDArray[np.bool_], limits: StageLimits, rooms: Rooms
    ) -> Placed | None:
        if self.variant == "printed":
            return printed(kind, free, idle, limits, view.rng(self.name))
        return solve(kind, free, idle, limits, plus=self.variant == "plus", rooms=rooms)

    def _limits(self, cluster: Cluster) -> StageLimits:
        if self._of is None or self._of[0] is not cluster.topology:
            self._of = (cluster.topology, _limits(cluster, self.stage_s))
            self._fitting.clear()
        return self._of[1]

    def _answer(
        self, view: ClusterView, offer: Offer, found: Placed, idle: npt.NDArray[np.bool_], state: State, but: str = ""
    ) -> Answer:
        new = sum(bool(idle[machine]) for machine, _ in found)
        words = f"{len(found)} machine{'s' * (len(found) > 1)}, {new} of them idle before{but}"
        return Answer(_gpus(view, offer, found), words, state)


def solve(
    kind: Kind, free: Ints, idle: npt.NDArray[np.bool_], limits: StageLimits, plus: bool = False,
    rooms: Rooms | None = None,
) -> Placed | None:  # fmt: skip
    """Machines and ranks by the order of the objectives; None if no place within the limits is found.

    `limits` are per byte of the job's message. If only room restricts the choice, both objectives are optimal. If the
    limits do, the greedy search of Algorithm 2 goes on with one more idle machine at a time.
    """
    workers = kind[0]
    rooms = rooms or Rooms(free, idle)
    best = rooms.fewest(workers)
    if best is None:
        return None
    found = _cheapest(kind, rooms.sharings(workers, *best), limits, plus)
    if found is not None:
        return found
    greedy = _by_greedy(kind, free, idle, limits, best[0])
    if plus:
        greedy = _better(kind, rooms, idle, limits, best, greedy) or greedy
    return greedy or search(kind, free, idle, lambda a, b: max(limits.least, limits.between(a, b)), best)


def printed(
    kind: Kind, free: Ints, idle: npt.NDArray[np.bool_], limits: StageLimits, rng: np.random.Generator
) -> Placed | None:
    """Algorithms 1 to 3 as printed: over the used machines and those idle ones that would do alone.

    So an idle machine is taken where used ones would do. Workers are distributed at random, and one is let in where
    any of its pairs fits. The machine with the largest H comes next (Eq. 4): merging m workers saves m - 1 machines, so
    it is the one with the largest feasible set; the roomiest of equals.
    """
    pattern = pattern_of(kind)
    whole = _roomiest(np.flatnonzero(idle), free)
    chosen = whole[: int(np.searchsorted(np.cumsum(free[whole]), pattern.n)) + 1]
    allowed = _roomiest(np.concatenate([chosen, np.flatnonzero(~idle & (free > 0))]), free)
    machines, load = allowed.tolist(), Load(pattern)
    waiting = rng.permutation(pattern.n).tolist()
    found: list[tuple[int, tuple[int, ...]]] = []
    while waiting:
        best: tuple[int, list[int], Load] | None = None
        for machine in machines:
            if best and len(best[1]) >= min(int(free[machine]), len(waiting)):
                break  # those that follow have no more room
            fits, taken, trial = _fits([*(m for m, _ in found), machine], limits), list[int](), load.copy()
            for worker in waiting:
                if len(taken) == free[machine]:
                    break
                if trial.admit(worker, len(found), fits, every=False):
                    taken.append(worker)
            if best is None or len(taken) > len(best[1]):
                best = (machine, taken, trial)
        if best is None or not best[1]:
            return None
        machine, taken, load = best
        machines.remove(machine)
        waiting = [worker for worker in waiting if worker not in set(taken)]
        found.append((machine, tuple(sorted(taken))))
    return tuple(found)


def _cheapest(kind: Kind, options: Iterator[tuple[Share, ...]], limits: StageLimits, plus: bool) -> Placed | None:
    """Of the sharings within the limits, the one with the fewest bytes across machines; among equal ones the first."""
    best: Placed | None = None
    least = np.inf
    for shares in options:
        division = divide(kind, tuple(count for _, count in shares), plus)
        if division.across >= least:
            continue
        machines = [machine for machine, _ in shares]
        if division.peak > limits.least and not within(pattern_of(kind), division.ranks, _fits(machines, limits)):
            continue
        best, least = tuple(zip(machines, division.ranks, strict=True)), division.across
    return best


def _by_greedy(
    kind: Kind, free: Ints, idle: npt.NDArray[np.bool_], limits: StageLimits, least_new: int
) -> Placed | None:  # fmt: skip
    """Algorithm 3 in lexicographic order: Algorithm 2 on the used machines, then with idle ones, one more at a time."""
    whole, used = _roomiest(np.flatnonzero(idle), free), _roomiest(np.flatnonzero(~idle & (free > 0)), free)
    for new in range(least_new, min(len(whole), kind[0]) + 1):
        allowed = _roomiest(np.concatenate([whole[:new], used]), free)
        found = _merge(kind, allowed.tolist(), free, limits)
        if found is not None:
            return found
    return None


def _roomiest(machines: Ints, free: Ints) -> Ints:
    """The machines by their room, the roomiest first; equals stay in order."""
    return machines[np.argsort(-free[machines], kind="stable")]


def _merge(kind: Kind, allowed: list[int], free: Ints, limits: StageLimits) -> Placed | None:
    """Algorithm 2: every worker alone to begin with; the machine whose feasible set saves most machines comes next.

    Merging m workers onto one machine saves m - 1, so that is the machine with the largest feasible set. Machines with
    as much room and the same limits to those chosen so far are alike: one of each kind is looked at.
    """
    pattern = pattern_of(kind)
    left, load = np.ones(pattern.n, dtype=np.bool_), Load(pattern)
    found: list[tuple[int, tuple[int, ...]]] = []
    machines = list(allowed)
    while left.any():
        best: tuple[tuple[int, ...], int, npt.NDArray[np.bool_], Load] | None = None
        seen: set[tuple[float, ...]] = set()
        for machine in machines:
            room = int(free[machine])
            if best and room <= len(best[0]):
                continue
            alike = (room, *(limits.between(*pair) for m, _ in found for pair in ((m, machine), (machine, m))))
            if alike in seen:
                continue
            seen.add(alike)
            trial, tried = left.copy(), load.copy()
            fits = _fits([*(m for m, _ in found), machine], limits)
            ranks = grow_one(pattern, trial, room, len(found), tried, fits)
            if ranks and (best is None or len(ranks) > len(best[0])):
                best = (ranks, machine, trial, tried)
        if best is None:
            return None
        ranks, machine, left, load = best
        found.append((machine, ranks))
        machines.remove(machine)
    return tuple(found)


def _better(
    kind: Kind, rooms: Rooms, idle: npt.NDArray[np.bool_], limits: StageLimits, best: tuple[int, int],
    greedy: Placed | None,
) -> Placed | None:  # fmt: skip
    """Sharings with fewer machines than the greedy came to, in the order of the objectives."""
    workers = kind[0]
    most_new = min(int(idle.sum()), workers)
    found = (sum(bool(idle[m]) for m, _ in greedy), len(greedy)) if greedy else (most_new, workers + 1)
    for new in range(best[0], found[0] + 1):
        top = found[1] - 1 if new == found[0] else min(workers, new + int((~idle).sum()))
        for machines in range(max(new, 1), top + 1):
            option = _cheapest(kind, rooms.sharings(workers, new, machines), limits, True)
            if option is not None:
                return option
    return None


def _fits(machines: Sequence[int], limits: StageLimits) -> Callable[[int, int, float], bool]:
    return lambda a, b, size: size <= limits.least or size <= limits.between(machines[a], machines[b])


def _limits(cluster: Cluster, stage_s: float) -> StageLimits:
    capacity, route = cluster.topology.capacity, cluster.route
    least = float(capacity.min()) if len(capacity) else np.inf

    @cache
    def between(a: int, b: int) -> float:
        return stage_s * min((float(capacity[k]) for k in route(a, b)), default=np.inf)

    return StageLimits(least * stage_s, between)


def _gpus(view: ClusterView, offer: Offer, found: Placed) -> Placement:
    """Free GPUs of the machines, rank by rank; those that nobody has to leave come first."""
    gpus = idle_first(view, offer, [(machine, len(ranks)) for machine, ranks in found], by_rack=False)
    on = dict(zip((rank for _, ranks in found for rank in ranks), gpus, strict=True))
    return tuple(on[rank] for rank in range(len(on)))
