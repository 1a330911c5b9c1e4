"""Crux's small cases: five jobs on at most 20 hosts, and how close its choices come to the best of all.

The paper says how large the cases are, and neither which jobs there are nor where they run. Here a case has two to four
ToRs under two aggregation switches. A job has whole hosts of 8 GPUs, which it takes ToR by ToR. It sums its gradients
in a ring that visits each of its ToRs once, so it sends one flow from each ToR to the next. A link between ToR and
aggregation switch is as fast as a host's NICs together. Cases with more flows than `MOST_FLOWS` are drawn again, since
the choices of paths double with each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise, permutations, product

import numpy as np
import numpy.typing as npt

from weft.policies.crux import ROUNDS, Load, intense
from weft.policies.crux.levels import compressed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

JOBS, LEVELS, HOSTS, PER_HOST = 5, 3, 20, 8
MOST_FLOWS = 12
PARTS = ("paths", "priorities", "compression")


@dataclass(frozen=True)
class Draw:
    """What cases are drawn from: ranges of computing (s, log-uniform), of sending over computing, and of the part of
    the computing after which a job may send; iterations of the slowest job that are played; how congestion is told."""

    compute_s: tuple[float, float] = (0.2, 2.0)
    comm: tuple[float, float] = (0.1, 1.0)
    starts: tuple[float, float] = (0.5, 1.0)
    rounds: int = 10
    congestion: str = "load"  # of a link: the offered load of those that use it, or how many "flows" they are

    @staticmethod
    def of(settings: Mapping[str, object]) -> Draw:
        """With other values for some of its fields."""
        known = {each.name for each in fields(Draw)}
        given = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items() if k in known}
        return Draw(**given)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """Jobs and their flows: the job of each, and the ToRs that it leaves and reaches."""

    tors: int
    gpus: Floats
    compute_s: Floats
    comm_s: Floats
    starts: Floats
    job: Ints
    ups: Ints
    downs: Ints
    rounds: int

    @property
    def links(self) -> int:
        """Two to each ToR and two from it."""
        return 4 * self.tors

    @property
    def horizon_s(self) -> float:
        """How long it is played."""
        return self.rounds * float((self.compute_s + self.comm_s).max())

    @property
    def loads(self) -> dict[int, Load]:
        """The jobs as Crux sees them."""
        rows = zip(self.gpus * self.compute_s, self.comm_s, self.compute_s, self.starts, strict=True)
        return {j: Load(*map(float, row)) for j, row in enumerate(rows)}


def draw(seed: int, number: int, what: Draw) -> Case:
    """A case; the same for the same seed, number and ranges."""
    rng = np.random.default_rng([seed, number])
    while True:
        tors = int(rng.integers(2, 5))
        where = _placed(rng, tors)
        crossing = [(j, a, b) for j, mine in enumerate(where) if len(mine) > 1 for a, b in _ring(sorted(mine))]
        if 2 <= len(crossing) <= MOST_FLOWS and len({j for j, _, _ in crossing}) > 1:
            break
    low, high = map(math.log, what.compute_s)
    compute = np.exp(rng.uniform(low, high, JOBS))
    comm = compute * rng.uniform(*what.comm, JOBS)
    job, ups, downs = (np.array(column, np.int64) for column in zip(*crossing, strict=True))
    gpus = np.array([PER_HOST * sum(mine.values()) for mine in where], np.float64)
    return Case(tors, gpus, compute, comm, rng.uniform(*what.starts, JOBS), job, ups, downs, what.rounds)


def _placed(rng: np.random.Generator, tors: int) -> list[dict[int, int]]:
    """Hosts that each job has under each ToR: from a ToR at random up to as many as it wants, then from another."""
    free = [HOSTS // tors] * tors
    found: list[dict[int, int]] = []
    for later in reversed(range(JOBS)):
        most = min(sum(free) - later, 8)
        wants, mine = int(rng.integers(1, most + 1)), dict[int, int]()
        for tor in rng.permutation(tors).tolist():
            if wants and free[tor]:
                taken = int(rng.integers(1, min(wants, free[tor]) + 1))
                mine[tor], free[tor], wants = taken, free[tor] - taken, wants - taken
        found.append(mine)
    return found


def _ring(tors: list[int]) -> Iterator[tuple[int, int]]:
    return pairwise([*tors, tors[0]])


def crux_paths(case: Case, congestion: str = "load") -> Ints:
    """The switch of each flow: jobs by falling intensity, each flow over the path whose worse link is less congested by
    what was chosen before; of two alike the first."""
    load = np.zeros(case.links)
    chosen = np.zeros(len(case.job), np.int64)
    for j in intense(case.loads):
        adds = float(case.comm_s[j] / (case.compute_s[j] + case.comm_s[j])) if congestion == "load" else 1.0
        for i in np.flatnonzero(case.job == j):
            sides = [[2 * case.ups[i] + s, case.links // 2 + 2 * case.downs[i] + s] for s in (0, 1)]
            chosen[i] = min((0, 1), key=lambda s: load[sides[s]].max())
            load[sides[chosen[i]]] += adds
    return chosen


def ranked(case: Case) -> list[int]:
    """Jobs by falling priority, as `weft.policies.crux.ranked` has them, whose plays take a thousand times as long."""
    from weft_evidence.crux.cases_kernel import play

    loads = case.loads
    reference = max(loads, key=lambda j: loads[j].comm_s)
    one, priority = np.ones(2, np.int64), {}
    for j, load in loads.items():
        pair = [j, reference]
        horizon = ROUNDS * float((case.comm_s + case.compute_s)[pair].max())
        times = (case.compute_s[pair], case.starts[pair], case.comm_s[pair], one)
        mine, theirs = (play(*times, np.array(level), 1, horizon)[1] for level in ((0, 1), (1, 0)))
        gain, loss = mine[0] - theirs[0], theirs[1] - mine[1]
        none = 1e-9 * horizon
        k = (1.0 if gain <= none else math.inf) if loss <= none else max(gain, 0.0) / loss
        priority[j] = (1.0 if j == reference else k) * load.intensity
    return sorted(loads, key=lambda j: -priority[j])


def crux_levels(case: Case, order: list[int], uses: Ints, levels: int, seed: int) -> Ints:
    """The level of each job after compression."""
    weight, loads = np.zeros((len(order), len(order))), case.loads
    for i, a in enumerate(order):
        for k in range(i + 1, len(order)):
            weight[i, k] = loads[a].intensity * bool(uses[a] & uses[order[k]])
    found = np.zeros(len(order), np.int64)
    found[order] = compressed(weight, levels, np.random.default_rng(seed))
    return found


# Every way to give each job one of the levels, those alike but for a level that nobody has once.
_LEVELS = np.unique([np.unique(row, return_inverse=True)[1] for row in product(range(LEVELS), repeat=JOBS)], axis=0)


@dataclass(frozen=True)
class Scored:
    """GPU use in one case: with Crux's choice, with the best of all choices, and with one at random on average."""

    crux: float
    best: float
    random: float

    @property
    def share(self) -> float:
        """Of the optimum, in per cent."""
        return 100.0 * self.crux / self.best

    @property
    def random_share(self) -> float:
        """The same of a choice at random."""
        return 100.0 * self.random / self.best


def score(case: Case, congestion: str = "load", seed: int = 0) -> dict[str, Scored]:
    """Each part of Crux apart; the other parts are Crux's.

    Paths beside all paths, with Crux's priorities; priorities beside all orders, on Crux's paths; levels beside all
    ways to give each of the jobs one of them, on Crux's paths.
    """
    from weft_evidence.crux import cases_kernel as kernel

    jobs = (case.compute_s, case.starts, case.comm_s, case.gpus)
    order = ranked(case)
    rank = np.zeros(JOBS, np.int64)
    rank[order] = np.arange(JOBS)
    uses = kernel.used(case.job, case.ups, case.downs, crux_paths(case, congestion), JOBS, case.links)

    def under(levels: Ints) -> Floats:
        found: Floats = kernel.levels_tried(*jobs, uses, levels, case.links, case.horizon_s)
        return found

    mine = under(np.stack([rank, crux_levels(case, order, uses, LEVELS, seed)]))
    orders = under(np.array(list(permutations(range(JOBS))), np.int64))
    levels = under(_LEVELS)
    paths = kernel.paths_tried(*jobs, case.job, case.ups, case.downs, case.links, rank, case.horizon_s)
    tried = zip(PARTS, (mine[0], mine[0], mine[1]), (paths, orders, levels), strict=True)
    return {part: Scored(float(use), float(all_.max()), float(all_.mean())) for part, use, all_ in tried}


def scores(seed: int, cases: int, what: Draw) -> dict[str, list[Scored]]:
    """By part of Crux, case by case."""
    found: dict[str, list[Scored]] = {part: [] for part in PARTS}
    for number in range(cases):
        for part, each in score(draw(seed, number, what), what.congestion, number).items():
            found[part].append(each)
    return found
