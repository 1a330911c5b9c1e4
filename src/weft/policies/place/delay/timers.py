"""How long a job waits for a better network tier: fixed timers, none, for ever, or tuned by what happened before.

A rule is asked for a moment for each level of the cluster but the whole, counted from the start of waiting. Until the
first, a job takes GPUs of one machine only; until the second, GPUs of one rack (or NVLink domain) only, and so on. The
memory of the tuned rules is `waits`: by tier and GPU demand, the (time of acceptance, seconds waited, job) of accepted
offers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

from weft.model.cluster import Cluster
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Spread

DEFAULT_S = (12 * 3600.0, 24 * 3600.0)  # machine, rack (Dally, section IV-B2); what is above the rack has the rack's
WINDOW_S = 7 * 24 * 3600.0


class Timers(ABC):
    """A rule for the timers."""

    for_ever = False  # whether every job waits for the best tier, however long that takes

    def initial_state(self) -> State:
        """Memory before anything was accepted."""
        return {}

    @abstractmethod
    def timers(self, view: ClusterView, job: JobView, gpus: int, state: State) -> Sequence[float]:
        """For each tier but the last, seconds until GPUs of the next one are good enough."""

    def accepted(self, view: ClusterView, job: JobView, gpus: int, tier: int, waited_s: float, state: State) -> State:
        """The state after an offer of that tier was taken."""
        return state

    def observe(self, view: ClusterView, state: State) -> State:
        """The state after a look at what runs, once per cycle."""
        return state


class Fixed(Timers):
    """The same timers for every job (`delay:manual`, `delay:3600/7200`, `delay:no-wait`). Where they never run out
    (`delay:consolidated`), a job waits until it can have the closest place possible."""

    def __init__(self, machine_s: float, rack_s: float) -> None:
        self._timers = (machine_s, rack_s)
        self.for_ever = math.isinf(machine_s)

    def timers(self, view: ClusterView, job: JobView, gpus: int, state: State) -> Sequence[float]:
        """As set."""
        return _for_tiers(view.cluster, self._timers)


class AutoTuned(Timers):
    """Algorithm 2: mean + 2 sample standard deviations of the waits that ended on that tier within the window.

    Waits are kept by GPU demand and shape. Entries older than the window are dropped; with none left, the default.
    """

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self.window_s = window_s
        self._last: dict[tuple[str, str], tuple[list[float], float]] = {}  # by tier and demand: waits, and their timer

    def initial_state(self) -> State:
        """No waits; `tuned` keeps what was computed from them and until when it holds."""
        return {"waits": {}, "tuned": {}}

    def timers(self, view: ClusterView, job: JobView, gpus: int, state: State) -> Sequence[float]:
        """The tuned timers of this GPU demand."""
        demand = _demand(job, gpus)
        known: list[float] | None = state["tuned"].get(demand)
        if known is None or view.now >= known[-1]:
            known = self._tune(view, state["waits"], demand)
        return tuple(known[:-1])

    def accepted(self, view: ClusterView, job: JobView, gpus: int, tier: int, waited_s: float, state: State) -> State:
        """Enter the wait (line 7 or 15 of Algorithm 1), once for each time that a job waits."""
        waits, demand = state["waits"], _demand(job, gpus)
        if tier < len(view.cluster.levels) - 1:
            name = _name(view.cluster, tier)
            since = view.now - self.window_s
            entry = [view.now, waited_s, job.id]
            before = waits.get(name, {})
            kept = [old for old in before.get(demand, ()) if old[0] > since and not _same_wait(old, entry)]
            waits = {**waits, name: {**before, demand: [*kept, entry]}}
        tuned = {**state["tuned"], demand: self._tune(view, waits, demand)}
        return {**state, "waits": waits, "tuned": tuned}

    def _tune(self, view: ClusterView, waits: dict[str, dict[str, list[list[Any]]]], demand: str) -> list[float]:
        """The timers, and when the next entry leaves the window."""
        found: list[float] = []
        leaves = math.inf
        for tier, default in enumerate(_for_tiers(view.cluster, DEFAULT_S)):
            name = _name(view.cluster, tier)
            entries = [old for old in waits.get(name, {}).get(demand, ()) if old[0] > view.now - self.window_s]
            found.append(self._timer_s(name, demand, [old[1] for old in entries]) if entries else default)
            leaves = min([leaves, *(old[0] + self.window_s for old in entries)])
        return [*found, min(leaves, 1e300)]  # JSON has no infinity

    def _timer_s(self, tier: str, demand: str, seconds: list[float]) -> float:
        """The timer that follows from these waits; they change on one tier at a time."""
        last = self._last.get((tier, demand))
        if last is None or last[0] != seconds:
            spread = stdev(seconds) if len(seconds) > 1 else 0.0
            last = self._last[tier, demand] = (seconds, fmean(seconds) + 2.0 * spread)
        return last[1]


class Benefit(Timers):
    """Not in the paper: wait for a tier at most as long as being there saves, as far as this has been seen.

    The rule learns not how long others waited but what they got: by model and tier, the share of their time on GPUs
    that jobs compute there. Take a job with c seconds of computing left that would compute for a share e of its time on
    one tier and f on the next worse one. The better tier saves it c/f - c/e, so it waits for that long and no longer: a
    job that waits for as long as it could gain loses at most as much again. Where nothing has been seen yet, the
    default of 12 hours holds.
    """

    _EVERY_S = 3600.0

    def initial_state(self) -> State:
        """Nothing seen. `seen` is [seconds of computing, seconds on GPUs] by model, GPU demand and tier."""
        return {"seen": {}, "looked_s": -1.0}

    def timers(self, view: ClusterView, job: JobView, gpus: int, state: State) -> Sequence[float]:
        """What one machine saves over one rack, on top of it what one rack saves over several, and so on."""
        left_s = job.job.profile.compute_s * view.iterations_left(job.id)
        tiers = range(len(view.cluster.levels))
        costs = [self._time_per_compute(state, self._key(view, job, gpus, tier)) for tier in tiers]
        found: list[float] = []
        total = 0.0
        for better, worse in pairwise(costs):
            default = DEFAULT_S[0]
            total += default if better is None or worse is None else max(0.0, left_s * (worse - better))
            found.append(total)
        return found

    def observe(self, view: ClusterView, state: State) -> State:
        """Once an hour: how fast jobs have been where they are, since they started there."""
        if view.now < state["looked_s"] + self._EVERY_S:
            return state
        seen = dict(state["seen"])
        for job in view.running.values():
            if job.started_s is None or len(job.gpus) < 2 or view.now <= job.started_s:
                continue
            done = view.iterations_done(job.id) - job.saved_iterations
            ran_s = min(view.now - job.started_s, self._EVERY_S)
            share = done * job.job.profile.compute_s / (view.now - job.started_s)
            key = self._key(view, job, len(job.gpus), tier_of(view, job))
            compute_s, gpu_s = seen.get(key, (0.0, 0.0))
            seen[key] = [compute_s + share * ran_s, gpu_s + ran_s]
        return {"seen": seen, "looked_s": view.now}

    def _time_per_compute(self, state: State, key: str) -> float | None:
        """Seconds on GPUs for each second of computing of such jobs on a tier."""
        compute_s, gpu_s = state["seen"].get(key, (0.0, 0.0))
        return gpu_s / compute_s if compute_s > 0 else None

    def _key(self, view: ClusterView, job: JobView, gpus: int, tier: int) -> str:
        return f"{job.job.model}/{gpus}/{_name(view.cluster, tier)}"


def _for_tiers(cluster: Cluster, two: tuple[float, float]) -> Sequence[float]:
    """A machine's and a rack's timer as timers of all tiers but the last."""
    return two[0], *(two[1] for _ in cluster.between)


def _name(cluster: Cluster, tier: int) -> str:
    """What a tier is called in the memory of a rule."""
    return "machine" if tier == 0 else cluster.levels[tier].name


def _demand(job: JobView, gpus: int) -> str:
    """The key under which waits are kept: a job learns from jobs of its size and shape."""
    return f"{gpus}/{job.job.per_server}" if job.job.per_server else str(gpus)


def tier_of(view: ClusterView, job: JobView) -> int:
    """0 if all workers are on one machine, then the closest level with a group that has them all: 1 for one rack."""
    spread = Spread.of(view.cluster, job.gpus)
    if spread.racks == 1:
        return int(spread.servers > 1)
    servers = view.cluster.server_of_gpu[list(job.gpus)]
    whole = len(view.cluster.levels) - 1
    return next(
        (i for i in range(2, whole) if len(set(view.cluster.levels[i].of_server[servers].tolist())) == 1), whole
    )


def _same_wait(old: list[Any], new: list[Any]) -> bool:
    """Whether two entries come from one wait: the start had to be decided again, because its GPUs were not free yet."""
    return bool(old[2] == new[2] and math.isclose(old[0] - old[1], new[0] - new[1], abs_tol=1e-6))
