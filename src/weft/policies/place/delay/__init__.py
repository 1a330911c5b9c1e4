"""delay: Dally's delay scheduling. A job declines what is too far apart, for a while."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import StackError
from weft.model.cluster import Cluster
from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, idle_first, tightest
from weft.policies.place.delay.timers import DEFAULT_S, WINDOW_S, AutoTuned, Benefit, Fixed, Timers, tier_of


@dataclass(eq=False)
class DelayScheduling(Place):
    """Algorithm 1: one machine at once, one rack after the machine timer, anything after the rack timer.

    On a cluster with more levels, each level between the machine and the whole is such a tier, from the nearest on
    (NVLink domain, rack or rail group, pod): a job declines what is further apart than a level until that level's
    timer is over. Timers that are set have two values, for the machine and for the rack; the levels above have the
    rack's. Tuned timers learn for each level.

    Timers count from the start of waiting. A job that is too big for a machine does not wait for a machine, and a job
    that is too big for a rack does not wait for a rack. A running job that is offered GPUs again (its lease is over)
    takes a better tier than its own or keeps what it has. Rules for the timers: `delay` or `delay:auto` (Algorithm 2;
    `auto@SECONDS` sets the window), `delay:manual` (12 h and 24 h), `delay:SECONDS/SECONDS`, `delay:no-wait`,
    `delay:consolidated`, `delay:benefit`.
    """

    name = "delay"
    by: str = setting("auto", words=("auto", "manual", "no-wait", "consolidated", "benefit"))
    window_s: float = setting(WINDOW_S, "auto", mark="@", within="(0, inf)")
    timers_s: tuple[float, ...] = setting((), within="[0, inf)", several=True)

    def __post_init__(self) -> None:
        """The rule that is meant."""
        super().__post_init__()
        self._seen: tuple[Offer | None, Offer | None, dict[int, tuple[int, int]]] = (None, None, {})
        if (self.by != "auto") + (self.window_s != WINDOW_S) + bool(self.timers_s) > 1:
            raise StackError(f"{self.name}: its timers follow one rule; write only one")
        if self.timers_s and (len(self.timers_s) != 2 or self.timers_s[0] > self.timers_s[1]):
            raise StackError(
                f"{self.name}: write both timers, as in delay:3600/7200; they count from the start of waiting, so the "
                "second is the longer one"
            )
        fixed = {
            "manual": DEFAULT_S,
            "no-wait": (0.0, 0.0),
            "consolidated": (math.inf, math.inf),
            "auto": self.timers_s,
        }
        if self.by == "benefit":
            self.rule: Timers = Benefit()
            self.needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE, Fact.MODEL})
        else:
            self.rule = Fixed(*fixed[self.by]) if fixed[self.by] else AutoTuned(self.window_s)

    def initial_state(self) -> State:
        """The rule's."""
        return self.rule.initial_state()

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Take or decline what is on offer."""
        waits = job.status is JobStatus.WAITING
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are on offer", state)
        tier, rack = self._best(view, gpus, offer)
        if (
            not waits
            and gpus == len(job.gpus)
            and tier >= tier_of(view, job)
            and len(offer.free_among(job.gpus)) == gpus
        ):
            return Answer(job.gpus, f"keeps its GPUs {_where(view.cluster, tier_of(view, job))}", state)
        waited_s = view.now - job.waiting_since_s if waits else 0.0
        timers = self._timers(view, job, gpus, state) if tier else []
        for better in range(tier):
            if waited_s < timers[better] * (1 - 1e-12):
                return self._decline(view, job, waits, better, timers[better], gpus, tier, state)
        if waits:
            state = self.rule.accepted(view, job, gpus, tier, waited_s, state)
        where = _where(view.cluster, tier)
        words = f"takes {where} after {_time(waited_s)}" if waits else f"moves to GPUs {where}"
        return Answer(_gpus(view, gpus, offer, tier, rack), words, state)

    def _best(self, view: ClusterView, gpus: int, offer: Offer) -> tuple[int, int]:
        """The module's `_best`, asked once for each number of GPUs while the offer is the same."""
        if self._seen[0] is not offer or self._seen[1] is not view.offer:
            self._seen = (offer, view.offer, {})
        known = self._seen[2]
        if gpus not in known:
            known[gpus] = _best(view, gpus, offer)
        return known[gpus]

    def alike(self, job: JobView) -> str | None:
        """Where no timer runs out, all jobs are of one kind."""
        return "" if self.rule.for_ever else None

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Let the rule look."""
        return self.rule.observe(view, state)

    def _timers(self, view: ClusterView, job: JobView, gpus: int, state: State) -> list[float]:
        """The rule's timers, 0 for tiers that the job is too big for. None ends before that of a closer tier."""
        found, longest = [], 0.0
        for level, timer_s in zip(view.cluster.levels, self.rule.timers(view, job, gpus, state), strict=False):
            longest = max(longest, timer_s) if gpus <= level.largest else 0.0
            found.append(longest)
        return found

    def _decline(
        self, view: ClusterView, job: JobView, waits: bool, better: int, timer_s: float, gpus: int, tier: int,
        state: State,
    ) -> Answer:  # fmt: skip
        until = "for as long as it takes" if math.isinf(timer_s) else f"for {_time(timer_s)}"
        far, near = (_where(view.cluster, one) for one in (tier, better))
        words = f"declines {gpus} GPUs {far}: waits {until} for {gpus} {near}"
        again = job.waiting_since_s + timer_s if waits else view.now + timer_s
        return Answer(None, words, state, again if view.now < again < math.inf else None)


def _best(view: ClusterView, gpus: int, offer: Offer) -> tuple[int, int]:
    """The best tier on offer, and the machine or the group of that level to take; -1 for the whole cluster.

    Among several, the one where the fewest GPUs must be taken from running jobs wins, then the tightest.
    """
    free, idle = offer.free_per_server, view.offer.free_per_server
    if free.max() >= gpus:
        return 0, _pick(free, idle, gpus)
    for tier, level in enumerate(view.cluster.between, start=1):
        room = level.sums(free)
        if room.max() >= gpus:
            return tier, _pick(room, level.sums(idle), gpus)
    return len(view.cluster.levels) - 1, -1


def _pick(free: npt.NDArray[Any], idle: npt.NDArray[Any], gpus: int) -> int:
    fit = np.flatnonzero(free >= gpus)
    order = np.lexsort((free[fit], np.maximum(gpus - idle[fit], 0)))
    return int(fit[order[0]])


def _gpus(view: ClusterView, gpus: int, offer: Offer, tier: int, where: int) -> Placement:
    """GPUs of the machine, or of the fewest machines, then the fewest racks, of the group or of the whole cluster."""
    if tier == 0:
        return idle_first(view, offer, [(where, gpus)])
    inside: Ints = offer.free_per_server
    if where >= 0:
        inside = np.where(view.cluster.levels[tier].of_server == where, inside, 0)
    return idle_first(view, offer, tightest(inside, view.cluster.rack_of_server, gpus))


def _where(cluster: Cluster, tier: int) -> str:
    """A tier in words."""
    if tier == 0:
        return "on one machine"
    names = [level.name for level in cluster.between]
    return f"in one {names[tier - 1]}" if tier <= len(names) else f"over several {names[-1]}s"


def _time(seconds: float) -> str:
    """A time in words. Two digits are enough: a tuned timer changes all the time, and a reason is written down whenever
    it changes."""
    if seconds <= 0:
        return "0 s"
    number, unit = (seconds / 3600, "h") if seconds >= 360 else (seconds, "s")
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f} {unit}" if rounded >= 10 else f"{rounded:g} {unit}"
