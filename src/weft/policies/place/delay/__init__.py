"""delay: Dally's delay scheduling. A job declines what is too far apart, for a while."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import StackError
from weft.model.plan import Placement, State
from weft.model.policy import setting
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Ints, idle_first, tightest
from weft.policies.place.delay.timers import DEFAULT_S, WINDOW_S, AutoTuned, Benefit, Fixed, Timers, tier_of

_WHERE = ("on one machine", "in one rack", "over several racks")


@dataclass(eq=False)
class DelayScheduling(Place):
    """Algorithm 1: one machine at once, one rack after the machine timer, anything after the rack timer.

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
            return Answer(job.gpus, f"keeps its GPUs {_WHERE[tier_of(view, job)]}", state)
        waited_s = view.now - job.waiting_since_s if waits else 0.0
        timers = self._timers(view, job, gpus, state) if tier else (0.0, 0.0)
        for better in range(tier):
            if waited_s < timers[better] * (1 - 1e-12):
                return self._decline(view, job, waits, better, timers[better], gpus, tier, state)
        if waits:
            state = self.rule.accepted(view, job, gpus, tier, waited_s, state)
        words = f"takes {_WHERE[tier]} after {_time(waited_s)}" if waits else f"moves to GPUs {_WHERE[tier]}"
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

    def _timers(self, view: ClusterView, job: JobView, gpus: int, state: State) -> tuple[float, float]:
        """The rule's timers, 0 for tiers that the job is too big for. The second never ends before the first."""
        cluster = view.cluster
        if gpus > cluster.largest_rack:
            return 0.0, 0.0
        machine_s, rack_s = self.rule.timers(view, job, gpus, state)
        return (0.0, rack_s) if gpus > cluster.largest_server else (machine_s, max(machine_s, rack_s))

    def _decline(
        self, view: ClusterView, job: JobView, waits: bool, better: int, timer_s: float, gpus: int, tier: int,
        state: State,
    ) -> Answer:  # fmt: skip
        until = "for as long as it takes" if math.isinf(timer_s) else f"for {_time(timer_s)}"
        words = f"declines {gpus} GPUs {_WHERE[tier]}: waits {until} for {gpus} {_WHERE[better]}"
        again = job.waiting_since_s + timer_s if waits else view.now + timer_s
        return Answer(None, words, state, again if view.now < again < math.inf else None)


def _best(view: ClusterView, gpus: int, offer: Offer) -> tuple[int, int]:
    """The best tier on offer, and for one machine or rack the one to take.

    Among several, the one where the fewest GPUs must be taken from running jobs wins, then the tightest.
    """
    free = offer.free_per_server
    if free.max() >= gpus:
        return 0, _pick(free, view.offer.free_per_server, gpus)
    racks = view.cluster.rack_of_server
    per_rack = np.bincount(racks, weights=free)
    if per_rack.max() >= gpus:
        return 1, _pick(per_rack, np.bincount(racks, weights=view.offer.free_per_server), gpus)
    return 2, -1


def _pick(free: npt.NDArray[Any], idle: npt.NDArray[Any], gpus: int) -> int:
    fit = np.flatnonzero(free >= gpus)
    order = np.lexsort((free[fit], np.maximum(gpus - idle[fit], 0)))
    return int(fit[order[0]])


def _gpus(view: ClusterView, gpus: int, offer: Offer, tier: int, where: int) -> Placement:
    """GPUs of the machine, of the fewest machines of the rack, or of the fewest machines and racks."""
    racks = view.cluster.rack_of_server
    if tier == 0:
        shares = [(where, gpus)]
    elif tier == 1:
        inside: Ints = np.where(racks == where, offer.free_per_server, 0)
        shares = tightest(inside, racks, gpus)
    else:
        shares = tightest(offer.free_per_server, racks, gpus)
    return idle_first(view, offer, shares)


def _time(seconds: float) -> str:
    """A time in words. Two digits are enough: a tuned timer changes all the time, and a reason is written down whenever
    it changes."""
    if seconds <= 0:
        return "0 s"
    number, unit = (seconds / 3600, "h") if seconds >= 360 else (seconds, "s")
    rounded = float(f"{number:.2g}")
    return f"{rounded:,.0f} {unit}" if rounded >= 10 else f"{rounded:g} {unit}"
