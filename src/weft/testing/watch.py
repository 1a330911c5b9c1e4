"""Policies and worlds under observation: each question and answer is written down and checked.

A policy must be pure: the same question gets the same answer, also from a new object, and nothing that it was given is
changed. Its memory must be JSON-able, its answers possible, and each must have a reason.
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial
from typing import Any, TypeVar

from weft.core.checker import check
from weft.core.cycle import Core
from weft.core.decide import decide
from weft.core.world import Around, World
from weft.errors import DecisionError, WeftError
from weft.model.events import Event, Failed, Finished, Started, Submitted
from weft.model.job import Job
from weft.model.plan import Candidate, Decision, SetGate, Start, State, Stop
from weft.model.view import ClusterView, JobStatus, JobView, Offer
from weft.policies.interleave.base import Interleave, Pick
from weft.policies.order.base import Order, Ranking
from weft.policies.place.base import Answer, Place
from weft.policies.planners.base import Planner

T = TypeVar("T")
_FIELDS = [f.name for f in fields(JobView)]


def require(condition: bool, text: str) -> None:
    """Fail the suite with a text that says what the policy or world did wrong."""
    if not condition:
        raise AssertionError(text)


class Watch:
    """The base of all watchers: it asks three times, and the core's table must not change.

    `says` are the attributes in which a policy of the layer says what it does.
    """

    says: tuple[str, ...] = ()

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.policy = make()
        for name in ("name", "needs", *self.says):
            setattr(self, name, getattr(self.policy, name))
        self.core: Core | None = None  # given before the first cycle
        self.what = type(self.policy).__name__
        require(bool(self.policy.name), f"{self.what} has no name")

    def initial_state(self) -> State:
        """The policy's state, which must be JSON-able."""
        state: State = self.policy.initial_state()
        self.json_able(state, "its initial state")
        return state

    def ask(self, question: str, answer: Callable[[Any, State], T], state: State, plain: Callable[[T], Any]) -> T:
        """The answer, after making sure that asking changes nothing and that it is always the same."""
        kept = copy.deepcopy(state)
        before = self._fingerprint()
        try:
            first = answer(self.policy, state)
            again, other = answer(self.policy, copy.deepcopy(kept)), answer(self.make(), copy.deepcopy(kept))
        except WeftError as error:
            raise AssertionError(f"{self.what}.{question} failed: {error}") from error
        except FrozenInstanceError as error:
            raise AssertionError(f"{self.what}.{question} changes the view it is given: {error}") from error
        except ValueError as error:
            if "read-only" in str(error):
                raise AssertionError(f"{self.what}.{question} writes into the offer it is given") from error
            raise
        require(state == kept, f"{self.what}.{question} changes the state it is given; return a new one")
        require(self._fingerprint() == before, f"{self.what}.{question} changes the view it is given")
        same = plain(first) == plain(again)
        require(same, f"{self.what}.{question} answers the same question differently; use view.rng, not chance")
        same = plain(first) == plain(other)
        require(same, f"{self.what}.{question} remembers outside its state: a new object answers differently")
        return first

    def json_able(self, state: State, which: str) -> None:
        """The state must survive being written and read."""
        try:
            read = json.loads(json.dumps(state, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise AssertionError(f"{self.what}: {which} is not JSON-able: {error}") from error
        require(read == state, f"{self.what}: {which} does not survive JSON (tuples, keys that are not text?)")

    def later(self, time_s: float | None, now: float, which: str) -> None:
        """A wake-up must be in the future."""
        fine = time_s is None or (math.isfinite(time_s) and time_s > now)
        require(fine, f"{self.what}: {which} is {time_s} at {now} s; it must be later, or None")

    def turn(self, view: ClusterView, job: JobView) -> tuple[float, float]:
        """The policy's key, which must be two numbers."""
        key: tuple[float, float] = self.policy.turn(view, job)
        require(len(key) == 2 and all(map(math.isfinite, key)), f"{self.what}.turn: {key} is not two finite numbers")
        return key

    def _fingerprint(self) -> Any:
        """What the view shows, as a value: all of a job but the job itself, which is frozen."""
        assert self.core is not None
        table, offer = self.core.table, self.core.table.gpus.offer
        jobs = [tuple(getattr(job, name) for name in _FIELDS) for job in table.jobs.values()]
        queues = list(table.waiting), list(table.running)
        return jobs, queues, dict(table.placements), dict(table.demand), _arrays(offer)


class WatchedOrder(Watch, Order):
    """An order under observation."""

    says = ("resizes",)

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """The policy's ranking, read to its end."""

        def listed(policy: Order, state: State) -> Ranking:
            ranking = policy.rank(view, state)
            return replace(ranking, claims=tuple(ranking.claims))

        ranking: Ranking = self.ask("rank", listed, state, lambda ranking: ranking)
        claims = tuple(ranking.claims)
        self.json_able(ranking.state, "the state that rank returns")
        self.later(ranking.wake_s, view.now, "wake_s")
        for claim in claims:
            known = claim.job in view.waiting or ((ranking.preemptive or ranking.pooled) and claim.job in view.running)
            require(known, f"{self.what}.rank claims {claim.job}, which is not there to be claimed")
            job = view.job(claim.job).job
            sizes = job.sizes if self.resizes else (job.gpus,)
            held = claim.job in view.running and claim.gpus == len(view.job(claim.job).gpus)
            fine = claim.gpus in sizes or held
            require(fine, f"{self.what}.rank claims {claim.gpus} GPUs for {claim.job}, which runs on {sizes}")
            reason = bool(claim.reason) or claim.job in view.running
            require(reason, f"{self.what}.rank gives no reason for {claim.job}")
        twice = [job for job, times in Counter(claim.job for claim in claims).items() if times > 1]
        require(not twice, f"{self.what}.rank claims {twice[:1]} twice")
        return ranking


class WatchedPlace(Watch, Place):
    """A place under observation."""

    says = ("shares_gpus", "names_gpus", "uneven")

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """The policy's answer."""
        before = _arrays(offer)
        answer: Answer = self.ask(
            "place", lambda p, s: p.place(view, job, gpus, offer, s), state, lambda answer: answer
        )
        require(_arrays(offer) == before, f"{self.what}.place changes the offer it is given")
        require(bool(answer.reason), f"{self.what}.place gives no reason")
        self.json_able(answer.state, "the state that place returns")
        self.later(answer.ask_again_s, view.now, "ask_again_s")
        if answer.gpus is not None:
            self._possible(view, job, gpus, offer, answer.gpus)
        return answer

    def withheld(self, view: ClusterView, job: JobView, offer: Offer, state: State) -> Offer:
        """The policy's answer."""
        left: Offer = self.ask("withheld", lambda p, s: p.withheld(view, job, offer, s), state, _arrays)
        return left

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """The policy's next state."""
        after: State = self.ask("observe", lambda p, s: p.observe(view, started, s), state, lambda state: state)
        self.json_able(after, "the state that observe returns")
        return after

    def _possible(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, given: tuple[int, ...]) -> None:
        which = f"{self.what}.place gives {job.id} {given}"
        require(isinstance(given, tuple) and all(type(g) is int for g in given), f"{which}: not a tuple of int")
        require(len(given) == gpus, f"{which}: not {gpus} GPUs")
        require(len(set(given)) == gpus, f"{which}: a GPU twice")
        require(all(0 <= g < view.cluster.n_gpus for g in given), f"{which}: a GPU that is not there")
        require(bool(offer.usable[list(given)].all()), f"{which}: a GPU of a server that is down")
        if self.shares_gpus:
            fits = offer.memory[list(given)] >= job.job.profiles[gpus].memory_bytes
            require(bool(fits.all()), f"{which}: a GPU without enough memory left")
        else:
            require(bool((offer.residents[list(given)] == 0).all()), f"{which}: a GPU that is taken")
        if not self.uneven:
            require(len(set(view.cluster.counts(given).values())) == 1, f"{which}: uneven, which it says it never is")


class WatchedPlanner(Watch, Planner):
    """A planner under observation."""

    says = ("shares_gpus", "names_gpus", "uneven", "resizes", "keeps_shapes", "unequal")

    def propose(self, view: ClusterView, state: State, n: int) -> list[Candidate]:
        """The policy's candidates."""
        candidates: list[Candidate] = self.ask(
            "propose", lambda p, s: p.propose(view, s, n), state, lambda found: list(map(_plain, found))
        )
        require(1 <= len(candidates) <= n, f"{self.what}.propose returns {len(candidates)} candidates, asked for {n}")
        plans = [sorted(candidate.plan.placements.items()) for candidate in candidates]
        distinct = all(plan not in plans[:i] for i, plan in enumerate(plans))
        require(distinct, f"{self.what}.propose returns the same plan twice")
        for candidate in candidates:
            self._possible(view, candidate)
        return candidates

    def _possible(self, view: ClusterView, candidate: Candidate) -> None:
        assert self.core is not None
        self.json_able(candidate.state, "the state of a candidate")
        self.later(candidate.wake_s, view.now, "wake_s")
        for declined in candidate.declined:
            require(bool(declined.reason), f"{self.what} declines {declined.job} without a reason")
            self.later(declined.ask_again_s, view.now, "ask_again_s")
        for job_id, gpus in candidate.plan.placements.items():
            if job_id in view.waiting and not self.resizes:
                wants = view.job(job_id).job.gpus
                require(len(gpus) == wants, f"{self.what} gives {job_id} {len(gpus)} GPUs, and says it never resizes")
        decisions = decide(self.core.table, Pick(candidate, {}), self.shares_gpus, partial(self.policy.turn, view))
        try:
            check(decisions, self.core.table, self.core.capabilities, self.shares_gpus)
        except DecisionError as error:
            raise AssertionError(f"{self.what} plans the impossible: {error}") from error
        for decision in decisions:
            require(bool(decision.reason) or isinstance(decision, SetGate), f"{self.what} gives no reason: {decision}")


class WatchedInterleave(Watch, Interleave):
    """An interleave under observation."""

    says = ("candidates", "shifts")

    def __init__(self, make: Callable[[], Interleave]) -> None:
        super().__init__(make)
        require(self.candidates >= 1, f"{self.what} wants {self.candidates} candidates; the least is 1")

    def pick(self, view: ClusterView, candidates: Sequence[Candidate], state: State) -> Pick:
        """The policy's choice."""
        before = list(map(_plain, candidates))
        pick: Pick = self.ask(
            "pick", lambda p, s: p.pick(view, candidates, s), state, lambda x: (_plain(x.candidate), x.state, x.reasons)
        )
        require(list(map(_plain, candidates)) == before, f"{self.what}.pick changes the candidates")
        self.json_able(pick.state, "the state that pick returns")
        plan = pick.candidate.plan
        states = [c.state for c in candidates if dict(c.plan.placements) == dict(plan.placements)]
        require(bool(states), f"{self.what}.pick returns a plan that nobody proposed")
        require(
            pick.candidate.state in states, f"{self.what}.pick mixes the plan of one candidate with another's state"
        )
        require(not plan.gates or self.shifts, f"{self.what}.pick sets gates, and says it never shifts")
        for job_id in plan.gates:
            known = job_id in plan.placements
            require(known, f"{self.what}.pick gates {job_id}, which the plan does not place")
            starting = job_id in view.waiting or view.job(job_id).status is not JobStatus.RUNNING
            require(
                starting or bool(pick.reasons.get(job_id)), f"{self.what}.pick gives no reason for gate of {job_id}"
            )
        return pick


def _arrays(offer: Offer) -> list[bytes]:
    return [a.tobytes() for a in (offer.residents, offer.memory, offer.usable, offer.free_per_server)]


def _plain(candidate: Candidate) -> Any:
    """A candidate as values that can be compared."""
    placements, gates = dict(candidate.plan.placements), dict(candidate.plan.gates)
    return placements, gates, candidate.state, dict(candidate.reasons), candidate.declined, candidate.wake_s


E = TypeVar("E", bound=Event)


class Recorder(Around):
    """A world whose every word is written down and looked at."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.log: list[Event] = []
        self.decisions: list[Decision] = []

    def apply(self, decisions: Sequence[Decision]) -> list[Event]:
        """Passed on, and both sides written down."""
        self.decisions += [d for d in decisions if isinstance(d, Start | Stop)]
        return self._heard(self._world.apply(decisions))

    def next_events(self, until_s: float | None) -> list[Event]:
        """Passed on; time must not run backwards, nor past the bound without a word."""
        before = self._world.now()
        events = self._heard(self._world.next_events(until_s))
        now = self._world.now()
        require(now >= before, f"time went from {before} s back to {now} s")
        if until_s is not None:
            require(bool(events) or now >= until_s, f"asked for events until {until_s} s, it came back at {now} s")
        return events

    def _heard(self, events: list[Event]) -> list[Event]:
        now = self._world.now()
        for event in events:
            require(event.time_s <= now, f"{event} is reported at {now} s, before it happened")
            last = self.log[-1].time_s if self.log else event.time_s
            require(event.time_s >= last, f"{event} is reported after an event of {last} s")
            self.log.append(event)
        return events

    def seen(self, kind: type[E]) -> list[E]:
        """Events of one kind."""
        return [event for event in self.log if isinstance(event, kind)]

    def all_finished(self, jobs: Sequence[Job]) -> None:
        """Each job was submitted once, every start answered, every finish reported once and after a start."""
        submitted = Counter(event.job.id for event in self.seen(Submitted))
        require(submitted == Counter(job.id for job in jobs), f"submitted were {dict(submitted)}; each job is, once")
        finished = Counter(event.job for event in self.seen(Finished))
        require(finished == Counter(job.id for job in jobs), f"finished are {dict(finished)}; each job should, once")
        asked = Counter(d.job for d in self.decisions if isinstance(d, Start))
        answered = Counter(event.job for event in self.log if isinstance(event, Started | Failed))
        require(asked == answered, f"starts asked for {dict(asked)}, answered {dict(answered)}")
        for job in jobs:
            mine = [type(e) for e in self.log if not isinstance(e, Submitted) and getattr(e, "job", None) == job.id]
            require(mine[-1] is Finished and Started in mine, f"{job.id} went {[kind.__name__ for kind in mine]}")
