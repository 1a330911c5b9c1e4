"""LeaseOrder: jobs hold their GPUs for a lease; when it ends all are ranked anew, running and waiting ones together."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from heapq import merge

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Spread
from weft.order.base import Claim, Order, Ranking

__all__ = ["LeaseOrder", "positive", "scattered"]

Entry = tuple[float, int, JobView]  # key, 1 if it waits, the job


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
    def key_of_waiting(self) -> Callable[[JobView], float]:
        """Key of a job that waits: one function that looks at nothing but the job."""

    @abstractmethod
    def words(self, key: float) -> str:
        """Why a job stands where it stands."""

    def rank(self, view: ClusterView, state: State) -> Ranking:
        """Waiting jobs; when a lease ends, running ones among them."""
        leases = math.floor(view.now / self.lease_s + 1e-9)
        over = leases > state["leases"] and bool(state.get("awaited", True))
        waiting: Iterator[Entry] = ((self.key_of_waiting(job), 1, job) for job in view.waiting_by(self.key_of_waiting))
        released: frozenset[str] = frozenset()
        entries: Iterable[Entry] = waiting
        look = self.moves and (over or not view.waiting)
        apart = {job.id for job in self.restless(view)} if look else set()
        if over:
            running = sorted(((self.key_of_running(view, job), 0, job) for job in view.running.values()), key=_key)
            released = frozenset(view.running)
            entries = merge(running, waiting, key=_key)
        wake = (leases + 1) * self.lease_s if view.waiting or apart else None
        claims = self._claims(entries, apart)
        after = {"leases": leases, "awaited": wake is not None}
        return Ranking(claims, after, wake_s=wake, pooled=True, released=released)

    def _claims(self, entries: Iterable[Entry], apart: set[str]) -> Iterator[Claim]:
        for key, waits, view in entries:
            job = view.job
            yield Claim(job.id, job.gpus if waits else len(view.gpus), self.words(key), job.id in apart)


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


def _key(entry: Entry) -> tuple[float, int]:
    return entry[:2]
