"""LeaseOrder: jobs hold their GPUs for a lease; when it ends they are ranked anew among the waiting ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from operator import itemgetter
from typing import Any

from weft.model.plan import State
from weft.model.policy import setting
from weft.model.view import ClusterView, JobView, Spread
from weft.policies.order.base import Claim, Order, Ranking

Key = tuple[float, float]  # what a job is ranked by, then when it last gave up a lease: longest ago first
Entry = tuple[Key, int, JobView]  # key, 1 if it waits, the job
PERIODS = "[1, inf)"  # of what recurs: if it were next to nothing, jobs would change places all the time
_NEVER = -1e300  # JSON has no infinity
_OFFER = 1e-4  # fraction of a lease: the delay between offers where several leases end at the same moment
_AHEAD = 32  # ends of leases that are looked at before they come
Rival = tuple[int, float]  # the first waiting job that some GPUs are enough for: its priority negated, its key


class LeaseOrder(Order):
    """Leases all end together, every `lease_s` seconds: then running jobs give their GPUs back and are claimed among
    the waiting ones, smallest key first; at a tie the running job stays. In between only free GPUs are given away.

    Its memory is the number of leases that have ended, so that each ends once, and whether the end of the next one is
    awaited. A lease that ends while no job waits is renewed, and a job that arrives in the middle of a lease does not
    end it.
    """

    lease_s: float
    moves: bool = True  # whether a job that nobody displaces may still move to a better place when its lease ends

    def initial_state(self) -> State:
        """No lease has ended."""
        return {"leases": 0, "awaited": False}

    def restless(self, view: ClusterView) -> list[JobView]:
        """Running jobs that ask for a better place when leases end."""
        return scattered(view, view.running.values())

    @abstractmethod
    def key_of_running(self, view: ClusterView, job: JobView) -> float:
        """Key of a job that runs."""

    @property
    @abstractmethod
    def key_of_waiting(self) -> Callable[[JobView], Key]:
        """Key of a job that waits: one function that looks at nothing but the job."""

    @abstractmethod
    def words(self, key: float) -> str:
        """Why a job stands where it stands."""

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs; when a lease ends, running ones among them."""
        leases = math.floor(view.now / self.lease_s + 1e-9)
        over = leases > state["leases"] and bool(state.get("awaited", True))
        look = self.moves and (over or not view.waiting)
        apart = {job.id for job in self.restless(view)} if look else set()
        entries = self._among(view, view.running.values() if over else ())
        released = frozenset(view.running) if over else frozenset()
        wake = (leases + 1) * self.lease_s if view.waiting or apart else None
        after = {"leases": leases, "awaited": wake is not None}
        return Ranking(self._claims(entries, apart), after, wake_s=wake, pooled=True, released=released)

    def _among(self, view: ClusterView, running: Iterable[JobView]) -> Iterable[Entry]:
        """Waiting jobs with these running ones among them."""
        waiting: Iterator[Entry] = ((self.key_of_waiting(job), 1, job) for job in view.waiting_by(self.key_of_waiting))
        again = sorted((((self.key_of_running(view, job), _NEVER), 0, job) for job in running), key=_key)
        return merge(again, waiting, key=_key) if again else waiting

    def _claims(self, entries: Iterable[Entry], apart: set[str]) -> Iterator[Claim]:
        for (key, _), waits, view in entries:
            job = view.job
            yield Claim(job.id, job.gpus if waits else len(view.gpus), self.words(key), job.id in apart)


@dataclass(eq=False)
class OwnLeases(LeaseOrder):
    """Each job has leases of its own, `lease_s` seconds from its start, and again from each renewal. When one ends,
    that job alone is claimed among the waiting ones, smallest key first. At a tie the running job stays, and among
    waiting jobs the one that gave up its last lease longest ago goes first.

    `NAME:SECONDS` sets the lease, an hour by default. `NAME:together` (`together@SECONDS`) lets leases end all at once,
    as in `LeaseOrder`. `NAME:moving` and `NAME:staying` say whether a job that nobody displaces may move to a better
    place. Leases that end at the same moment are offered one after another, each a moment later, because an offer holds
    what is free and what a single lease gave up. A lease that ends while nobody waits is renewed.

    The memory has five parts. `ends` says when the current lease of each running job ends, first to last; the list is
    made once per lease length, because the lease of a job that starts later ends after all of them. `next` is how many
    of these have passed. `from_s` is the moment from which they were listed, or are to be if there is no list. `due`
    names the jobs whose lease has ended and is still to be offered. Leases that end before `renewed_s` find no taker,
    unless something is reported first.
    """

    divider = "@"
    together: bool = setting(False, words={"together": True})
    moving: bool | None = setting(None, words={"moving": True, "staying": False})  # None: as this order usually does
    lease_s: float = setting(3600.0, within=PERIODS)

    def __post_init__(self) -> None:
        """Whether jobs move, as set."""
        self.moving = None if self.moving == self.moves else self.moving
        self.moves = self.moves if self.moving is None else self.moving
        super().__post_init__()

    def initial_state(self) -> State:
        """Nothing has been listed."""
        if self.together:
            return super().initial_state()
        return {"ends": None, "next": 0, "from_s": None, "due": [], "renewed_s": _NEVER}

    def key_ahead(self, job: JobView, at_s: float) -> float | None:
        """Key that a running job will have at a moment to come; None if that cannot be told."""
        return None

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs, with one whose lease is over among them."""
        if self.together:
            return super().rank(view, state)
        if not view.waiting and (state["from_s"] is None or view.now < state["from_s"]):
            return self._quiet(view, None)
        state = self._passed(view, state)
        due = list(state["due"])
        ended = bool(due)
        over: JobView | None = None
        moves, mine, rivals = False, 0.0, dict[int, Rival | None]()
        while due and over is None:
            over = view.running[due.pop(0)]
            moves = self.moves and bool(scattered(view, [over]))
            mine = self.key_of_running(view, over)
            if not moves and self._stays(view, over, mine, rivals):
                over = None
        if not view.waiting:
            return self._quiet(view, over if moves else None)
        entries: Iterable[Entry] = ()
        told = ended and not view.news  # everybody has been offered what is free before
        if not told:
            entries = self._among(view, [] if over is None else [over])
        elif over is not None:
            entries = self._taking(view, over, mine)
        wake_s = view.now + _OFFER * self.lease_s if due else self._taken(view, state, rivals)
        return Ranking(
            self._claims(entries, {over.id} if over and moves else set()),
            {**state, "due": due, "renewed_s": _NEVER if due else wake_s},
            wake_s=wake_s,
            pooled=True, released=frozenset() if over is None else frozenset({over.id}), told=told,
        )  # fmt: skip

    def _passed(self, view: ClusterView, state: State) -> State:
        """The memory with what has become due by now."""
        running, renewed_s = view.running, min(state.get("renewed_s", _NEVER), view.now)
        due = [name for name in state["due"] if name in running] if view.news else list(state["due"])
        ends, passed, from_s = state["ends"], state["next"], state["from_s"]
        lease_s, now = self.lease_s, view.now * (1 + 1e-12)  # so that ends that were rounded are not missed
        if ends is None:
            awaited = from_s is not None and from_s <= now
            from_s = from_s if awaited else now
            ends, passed = self._ends(view, from_s), 0
            from_s = from_s if awaited else view.now - 1e-6 * lease_s  # a job that starts now ends after this list
        while True:
            while passed < len(ends) and ends[passed][0] <= now:
                end_s, name = ends[passed]
                passed += 1
                if end_s >= renewed_s and self._lasted(running.get(name), end_s) and name not in due:
                    due.append(name)
            if from_s + lease_s > now:
                break
            from_s += lease_s * int((now - from_s) / lease_s)
            ends, passed = self._ends(view, from_s), 0
        return {**state, "ends": ends, "next": passed, "from_s": from_s, "due": due}

    def _ends(self, view: ClusterView, from_s: float) -> list[list[Any]]:
        """When the lease of each running job ends for the first time after a moment, first to last."""
        lease_s = self.lease_s
        starts = [(job.started_s, job.job.id) for job in view.running.values() if job.started_s is not None]
        ends = [[start_s + (int((from_s - start_s) / lease_s + 1e-9) + 1) * lease_s, name] for start_s, name in starts]
        return sorted(ends, key=itemgetter(0))

    def _lasted(self, job: JobView | None, end_s: float) -> bool:
        """Whether an end that was listed is that of a job's present assignment: it has not started again since."""
        return job is not None and job.started_s is not None and end_s - job.started_s > self.lease_s * (1 - 1e-9)

    def _taken(self, view: ClusterView, state: State, rivals: dict[int, Rival | None]) -> float:
        """The first coming end of a lease at which another job might take the GPUs or the job itself might move, as far
        as can be told; at most the end of the list.

        The view is older than what this cycle decides. Starts only leave fewer GPUs and fewer rivals, and every other
        change is reported before that end.
        """
        at_s, ahead = -math.inf, state["ends"][state["next"] : state["next"] + _AHEAD + 1]
        for i, (end_s, name) in enumerate(ahead):
            if end_s > at_s * (1 + 1e-12):  # ends that differ by rounding alone come due at the first of them
                at_s = end_s
            job = view.running.get(name)
            if i == _AHEAD or job is None or not self._lasted(job, end_s):
                return float(at_s)  # all are asked again if the job with this lease has gone
            key = self.key_ahead(job, at_s)
            stays = self._stays(view, job, math.inf if key is None else key, rivals)
            if not stays or (self.moves and scattered(view, [job])):
                return float(at_s)
        return float(state["from_s"] + self.lease_s)

    def _stays(self, view: ClusterView, job: JobView, key: float, rivals: dict[int, Rival | None]) -> bool:
        """Whether no waiting job could take a job's GPUs, so that no offer need be made: each wants more GPUs than
        there would be, or ranks behind it."""
        room = view.offer.n_free + len(job.gpus)
        if room not in rivals:
            rivals[room] = self._rival(view, room)
        rival = rivals[room]
        return rival is None or (-job.job.priority, key) <= rival

    def _rival(self, view: ClusterView, room: int) -> Rival | None:
        """The first waiting job for which that many GPUs would be enough."""
        if all(gpus > room for gpus, _ in view.demand):
            return None
        key_of = self.key_of_waiting
        first = next((other for other in view.waiting_by(key_of, most=room) if other.job.gpus <= room), None)
        return None if first is None else (-first.job.priority, key_of(first)[0])

    def _taking(self, view: ClusterView, over: JobView, mine: float) -> Iterator[Entry]:
        """The job whose lease is over, ranked among the waiting jobs for which its GPUs and the free ones would be
        enough."""
        room, key_of = view.offer.n_free + len(over.gpus), self.key_of_waiting
        before = True
        for job in view.waiting_by(key_of, most=room):
            if job.job.gpus > room:
                continue
            key = key_of(job)
            if before and (-over.job.priority, mine) <= (-job.job.priority, key[0]):
                before = False
                yield (mine, _NEVER), 0, over
            yield key, 1, job
        if before:
            yield (mine, _NEVER), 0, over

    def _quiet(self, view: ClusterView, over: JobView | None) -> Ranking:
        """The ranking while no job waits: only jobs that might move need the ends of their leases, all others renew
        theirs."""
        next_s: float | None = None
        if self.moves and (restless := self.restless(view)):
            near = {job.id for job in restless}
            next_s = next((end_s for end_s, name in self._ends(view, view.now) if name in near), None)
        from_s = None if next_s is None else next_s - 1e-6 * self.lease_s  # ends before that are renewed
        state: State = {"ends": None, "next": 0, "from_s": from_s, "due": [], "renewed_s": _NEVER}
        entries = self._among(view, [] if over is None else [over])
        claims = self._claims(entries, set() if over is None else {over.id})
        released = frozenset() if over is None else frozenset({over.id})
        return Ranking(claims, state, wake_s=next_s, pooled=True, released=released)


def last_lease_s(job: JobView) -> float:
    """When a waiting job last gave up a lease. A job that has never had one comes before all others."""
    return _NEVER if job.first_start_s is None else job.waiting_since_s


def scattered(view: ClusterView, jobs: Iterable[JobView]) -> list[JobView]:
    """The running jobs that could be closer together: they use more servers or racks than they must."""
    found = []
    for job in jobs:
        n, cluster = len(job.gpus), view.cluster.shaped(job.job.per_server)
        spread = Spread.of(view.cluster, job.gpus) if n > 1 else Spread()
        if spread.servers > -(-n // cluster.largest_server) or spread.racks > -(-n // cluster.largest_rack):
            found.append(job)
    return found


def _key(entry: Entry) -> tuple[int, Key, int]:
    key, waits, job = entry
    return -job.job.priority, key, waits
