"""LeaseOrder: jobs hold their GPUs for a lease; when it ends they are ranked anew among the waiting ones."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Spread
from weft.order.base import Claim, Order, Ranking

__all__ = ["Key", "LeaseOrder", "OwnLeases", "last_lease_s", "positive", "scattered"]

Key = tuple[float, float]  # what a job is ranked by, then when it last gave up a lease: longest ago first
Entry = tuple[Key, int, JobView]  # key, 1 if it waits, the job
_NEVER = -1e300  # JSON has no infinity
_OFFER = 1e-4  # of a lease: how long after another an offer is made, where leases end at the same moment


class LeaseOrder(Order):
    """Leases all end together, every `lease_s` seconds: then running jobs give their GPUs back and are claimed among
    the waiting ones, smallest key first; at a tie the running job stays. In between only free GPUs are given away.

    Its memory is the number of leases that have ended, so that each ends once, and whether the end of the next one is
    awaited: one that ends while nobody waits is renewed, and who comes in the middle of a lease does not end it.
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
    that job alone is claimed among the waiting ones, smallest key first. At a tie the running job stays, and of waiting
    ones the one that gave up its last lease longest ago goes first.

    `NAME:SECONDS` sets the lease, an hour by default. `NAME:together` (`together@SECONDS`) lets leases end all at once,
    as in `LeaseOrder`. Of leases that end at the same moment one is offered after another, each a moment later: an
    offer holds what is free and what one lease gave up. A lease that ends while nobody waits is renewed.

    The memory: the moment after which ends of leases have not been looked at, the next end, jobs whose lease has ended
    and is still to be offered, and when waiting jobs were last told why they wait.
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
        """Nothing has been looked at."""
        return (
            super().initial_state() if self.together else {"looked_s": None, "next_s": 0.0, "due": [], "told_s": -1.0}
        )

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs, with one whose lease is over among them."""
        if self.together:
            return super().rank(view, state)
        due, next_s = self._due(view, state)
        ended = bool(due)
        over: JobView | None = None
        moves = False
        while due and over is None:
            over = view.running[due.pop(0)]
            moves = self.moves and bool(scattered(view, [over]))
            if not moves and self._stays(view, over):
                over = None
        told_s = state["told_s"]
        if not view.waiting:
            return self._quiet(view, over if moves else None, told_s)
        entries: Iterable[Entry] = ()
        told = ended and self._told(view, told_s)
        if not told:
            entries, told_s = self._among(view, [] if over is None else [over]), view.now
        elif over is not None:  # whoever wants more than there can be has been told before, and nothing else is new
            entries = self._taking(view, over)
        wake = view.now + _OFFER * self.lease_s if due else min(next_s, view.now + self.lease_s)
        return Ranking(
            self._claims(entries, {over.id} if over and moves else set()),
            {"looked_s": view.now, "next_s": next_s, "due": due, "told_s": told_s},
            wake_s=wake, pooled=True, released=frozenset() if over is None else frozenset({over.id}), told=told,
        )  # fmt: skip

    def _due(self, view: ClusterView, state: State) -> tuple[list[str], float]:
        """Running jobs whose lease has ended and is still to be offered, and when the next lease ends.

        Whoever starts later has a later end than all that run now, so they are looked at only when one has ended.
        """
        due = [name for name in state["due"] if name in view.running]
        looked_s, next_s = state["looked_s"], state["next_s"]
        if looked_s is not None and view.now < next_s * (1 - 1e-12):
            return due, next_s
        next_s = view.now + self.lease_s
        lease_s, now = self.lease_s, view.now
        seen_s = now if looked_s is None else looked_s
        for job in view.running.values():
            started_s = job.started_s
            if started_s is None:
                continue
            count = int((now - started_s) / lease_s + 1e-9)  # of its leases that have ended
            if count and count > (seen_s - started_s) / lease_s + 1e-9 and job.id not in due:
                due.append(job.id)
            end_s = started_s + (count + 1) * lease_s
            if end_s < next_s:
                next_s = end_s
        return due, next_s

    def _stays(self, view: ClusterView, job: JobView) -> bool:
        """Whether nobody could take a job's GPUs, so that no offer need be made: who waits wants more GPUs than there
        would be, or comes after it; and free GPUs alone are too few for any of them."""
        least = min((gpus for gpus, _ in view.demand), default=0)
        if not view.waiting or view.offer.n_free >= least:
            return not view.waiting
        if view.offer.n_free + len(job.gpus) < least:
            return True
        first = next(iter(view.waiting_by(self.key_of_waiting)))
        mine = (-job.job.priority, self.key_of_running(view, job))
        return mine <= (-first.job.priority, self.key_of_waiting(first)[0])

    def _taking(self, view: ClusterView, over: JobView) -> Iterator[Entry]:
        """The one whose lease is over, among those waiting jobs that its GPUs and the free ones would be enough for."""
        mine, room, key_of = self.key_of_running(view, over), view.offer.n_free + len(over.gpus), self.key_of_waiting
        before = True
        for job in view.waiting_by(key_of):
            if job.job.gpus > room:
                continue
            key = key_of(job)
            if before and (-over.job.priority, mine) <= (-job.job.priority, key[0]):
                before = False
                yield (mine, _NEVER), 0, over
            yield key, 1, job
        if before:
            yield (mine, _NEVER), 0, over

    def _told(self, view: ClusterView, told_s: float) -> bool:
        """Whether every waiting job had come when waiting jobs were last told why they wait."""
        return all(job.job.submit_s <= told_s for job in view.waiting.values())

    def _quiet(self, view: ClusterView, over: JobView | None, told_s: float) -> Ranking:
        """Nobody waits: only jobs that might move look forward to the ends of their leases, all others renew theirs."""
        restless = self.restless(view) if self.moves else []
        starts = [job.started_s for job in restless if job.started_s is not None]
        counts = [math.floor((view.now - started_s) / self.lease_s + 1e-9) for started_s in starts]
        ends = [started_s + (count + 1) * self.lease_s for started_s, count in zip(starts, counts, strict=True)]
        next_s = min(ends, default=None)
        moment = 1e-6 * self.lease_s  # before it: ends up to then are renewed
        state: State = {
            "looked_s": None if next_s is None else next_s - moment,
            "next_s": next_s or 0.0,
            "due": [],
            "told_s": told_s,
        }
        entries = self._among(view, [] if over is None else [over])
        claims = self._claims(entries, set() if over is None else {over.id})
        released = frozenset() if over is None else frozenset({over.id})
        return Ranking(claims, state, wake_s=next_s, pooled=True, released=released)


def last_lease_s(job: JobView) -> float:
    """When a waiting job last gave up a lease; one that has never had any comes before all others."""
    return _NEVER if job.first_start_s is None else job.waiting_since_s


def positive(text: str, what: str) -> float:
    """A number of a parameter that must be more than 0."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise StackError(f"{what}: {text!r} must be a number more than 0")
    return value


def scattered(view: ClusterView, jobs: Iterable[JobView]) -> list[JobView]:
    """Those of running jobs that might be closer together: over more servers or racks than there must be."""
    cluster = view.cluster
    on_server, in_rack = int(cluster.gpus_per_server.max()), int(cluster.gpus_per_rack.max())
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
