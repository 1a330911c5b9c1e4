"""LeaseOrder: jobs hold their GPUs for a lease; when it ends they are ranked anew among the waiting ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from operator import itemgetter
from typing import Any, Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.policy import number
from weft.model.view import ClusterView, JobView, Spread
from weft.order.base import Claim, Order, Ranking

Key = tuple[float, float]  # what a job is ranked by, then when it last gave up a lease: longest ago first
Entry = tuple[Key, int, JobView]  # key, 1 if it waits, the job
_NEVER = -1e300  # JSON has no infinity
_OFFER = 1e-4  # of a lease: the delay between offers, where several leases end at the same moment


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


class OwnLeases(LeaseOrder):
    """Each job has leases of its own, `lease_s` seconds from its start, and again from each renewal. When one ends,
    that job alone is claimed among the waiting ones, smallest key first. At a tie the running job stays, and among
    waiting jobs the one that gave up its last lease longest ago goes first.

    `NAME:SECONDS` sets the lease, an hour by default. `NAME:together` (`together@SECONDS`) lets leases end all at once,
    as in `LeaseOrder`. Leases that end at the same moment are offered one after another, each a moment later, because
    an offer holds what is free and what a single lease gave up. A lease that ends while nobody waits is renewed.

    The memory has four parts. `ends` says when the current lease of each running job ends, first to last; it is listed
    once per lease length, because a job that starts later ends after all of them. `next` is how many of these have
    passed. `from_s` is the moment from which they were listed, or are to be if there is no list. `due` names the jobs
    whose lease has ended and is still to be offered.
    """

    default_s: float = 3600.0
    base: str  # the order's name without a parameter

    def __init__(self, lease_s: float | None = None, together: bool = False) -> None:
        self.lease_s = self.default_s if lease_s is None else lease_s
        self.together = together
        own = "" if self.lease_s == self.default_s else f"{self.lease_s:g}"
        parameter = "@".join(filter(None, ("together" if together else "", own)))
        self.name = f"{self.base}:{parameter}" if parameter else self.base

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`NAME`, `NAME:SECONDS`, `NAME:together` or `NAME:together@SECONDS`."""
        if arg is None:
            return cls()
        together, _, lease = arg.partition("@") if arg.startswith("together") else ("", "", arg)
        if together not in ("", "together") or arg.endswith("@"):
            raise StackError(f"{cls.base}:{arg}: write {cls.base}:SECONDS or {cls.base}:together@SECONDS")
        return cls(positive(lease, f"{cls.base}:{arg}: the lease in seconds") if lease else None, bool(together))

    def initial_state(self) -> State:
        """Nothing has been listed."""
        if self.together:
            return super().initial_state()
        return {"ends": None, "next": 0, "from_s": None, "due": []}

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs, with one whose lease is over among them."""
        if self.together:
            return super().rank(view, state)
        if not view.waiting and (state["from_s"] is None or view.now < state["from_s"]):
            return self._quiet(view, None)
        state, next_s = self._passed(view, state)
        due = list(state["due"])
        ended = bool(due)
        over: JobView | None = None
        moves = False
        while due and over is None:
            over = view.running[due.pop(0)]
            moves = self.moves and bool(scattered(view, [over]))
            if not moves and self._stays(view, over):
                over = None
        if not view.waiting:
            return self._quiet(view, over if moves else None)
        entries: Iterable[Entry] = ()
        told = ended and not view.news  # everybody has been offered what is free before
        if not told:
            entries = self._among(view, [] if over is None else [over])
        elif over is not None:
            entries = self._taking(view, over)
        return Ranking(
            self._claims(entries, {over.id} if over and moves else set()),
            {**state, "due": due},
            wake_s=view.now + _OFFER * self.lease_s if due else next_s,
            pooled=True, released=frozenset() if over is None else frozenset({over.id}), told=told,
        )  # fmt: skip

    def _passed(self, view: ClusterView, state: State) -> tuple[State, float]:
        """The memory with what has become due by now, and when the next lease ends or the next list is made."""
        due = [name for name in state["due"] if name in view.running]
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
                job = view.running.get(name)
                lasted = job is not None and job.started_s is not None and end_s - job.started_s > lease_s * (1 - 1e-9)
                if lasted and name not in due:  # else it has started again since
                    due.append(name)
            if from_s + lease_s > now:
                break
            from_s += lease_s * int((now - from_s) / lease_s)
            ends, passed = self._ends(view, from_s), 0
        next_s = ends[passed][0] if passed < len(ends) else from_s + lease_s
        return {**state, "ends": ends, "next": passed, "from_s": from_s, "due": due}, next_s

    def _ends(self, view: ClusterView, from_s: float) -> list[list[Any]]:
        """When the lease of each running job ends for the first time after a moment, first to last."""
        lease_s = self.lease_s
        starts = [(job.started_s, job.job.id) for job in view.running.values() if job.started_s is not None]
        ends = [[start_s + (int((from_s - start_s) / lease_s + 1e-9) + 1) * lease_s, name] for start_s, name in starts]
        return sorted(ends, key=itemgetter(0))

    def _stays(self, view: ClusterView, job: JobView) -> bool:
        """Whether nobody could take a job's GPUs, so that no offer need be made: every waiting job wants more GPUs than
        there would be, or ranks behind it."""
        room, key_of = view.offer.n_free + len(job.gpus), self.key_of_waiting
        if all(gpus > room for gpus, _ in view.demand):
            return True
        first = next((other for other in view.waiting_by(key_of, most=room) if other.job.gpus <= room), None)
        if first is None:
            return True
        mine = (-job.job.priority, self.key_of_running(view, job))
        return mine <= (-first.job.priority, key_of(first)[0])

    def _taking(self, view: ClusterView, over: JobView) -> Iterator[Entry]:
        """The job whose lease is over, ranked among the waiting jobs for which its GPUs and the free ones would be
        enough."""
        mine, room, key_of = self.key_of_running(view, over), view.offer.n_free + len(over.gpus), self.key_of_waiting
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
        state: State = {"ends": None, "next": 0, "from_s": from_s, "due": []}
        entries = self._among(view, [] if over is None else [over])
        claims = self._claims(entries, set() if over is None else {over.id})
        released = frozenset() if over is None else frozenset({over.id})
        return Ranking(claims, state, wake_s=next_s, pooled=True, released=released)


def last_lease_s(job: JobView) -> float:
    """When a waiting job last gave up a lease. A job that has never had one comes before all others."""
    return _NEVER if job.first_start_s is None else job.waiting_since_s


def positive(text: str, what: str) -> float:
    """A parameter as a number, which must be more than 0."""
    value = number(text)
    if not 0 < value < math.inf:
        raise StackError(f"{what}: {text!r} must be a number more than 0")
    return value


def scattered(view: ClusterView, jobs: Iterable[JobView]) -> list[JobView]:
    """The running jobs that could be closer together: they use more servers or racks than they must."""
    cluster = view.cluster
    on_server, in_rack = cluster.largest_server, cluster.largest_rack
    found = []
    for job in jobs:
        n = len(job.gpus)
        spread = Spread.of(cluster, job.gpus) if n > 1 else Spread()
        if spread.servers > -(-n // on_server) or spread.racks > -(-n // in_rack):
            found.append(job)
    return found


def _key(entry: Entry) -> tuple[int, Key, int]:
    key, waits, job = entry
    return -job.job.priority, key, waits
