"""packing: Gandiva's placement with two jobs on the same GPUs, where that has been seen to pay."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.model.plan import Placement, State
from weft.model.view import ClusterView, Fact, JobStatus, JobView, Offer
from weft.policies.place.affinity import Affinity
from weft.policies.place.base import Answer

LOOK_S = 30.0  # seconds after which a job that finds no room looks again for one to share with
PAYS = 1.0  # sum of two relative speeds at which packing is as good as taking turns


class Packing(Affinity):
    """As affinity; a job that finds no free GPUs is packed onto those of another of its size, if memory allows
    (Gandiva, section 3.3).

    Whether it pays is measured, not modelled. A job is packed only after it has run alone, so that its speed is known;
    of several partners the one whose GPUs are used least is chosen. When the slice ends, the speeds of both since then
    are set against their speeds alone: if the sum is less than 1, time slices would have done better, the newcomer
    leaves, and the two are not packed again. A packed job moves to free GPUs as soon as there are enough.

    Tasks on a shared GPU take turns without loss, so interference is not in it. Left out: packing of different sizes,
    and of more than two.

    The memory is affinity's, and: iterations per second of each job alone; pairs with what both had done when they were
    packed; pairs that did not pay; and assignments in which a job was not alone all the time.
    """

    name = "packing"
    shares_gpus = True
    needs = frozenset({Fact.ITERATIONS_LEFT, Fact.PROFILE})

    def initial_state(self) -> State:
        """Affinity's, and nothing measured."""
        return {**super().initial_state(), "alone": {}, "pairs": {}, "unpaid": [], "mixed": {}}

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Free GPUs if there are enough, else those of a partner."""
        pair = state["pairs"].get(job.id) if job.status is JobStatus.RUNNING else None
        if pair is not None:
            return self._again(view, job, gpus, offer, state, pair)
        if job.status is JobStatus.RUNNING and any(pair[0] == job.id for pair in state["pairs"].values()):
            return Answer(job.gpus, "stays: if sharing does not pay, the newcomer leaves", state)
        if offer.n_free >= gpus or job.status is not JobStatus.WAITING:
            return super().place(view, job, gpus, offer, state)
        partner = self._partner(view, job, gpus, offer, state)
        if partner is None:
            words = f"wants {gpus} GPUs; fewer are free, and no job can share its own"
            return Answer(None, words, state, view.now + LOOK_S if self._measuring(view, job, gpus, state) else None)
        since = [partner.id, view.now, job.saved_iterations, view.iterations_done(partner.id)]
        return Answer(partner.gpus, f"packed with {partner.id}", {**state, "pairs": {**state["pairs"], job.id: since}})

    def observe(self, view: ClusterView, started: tuple[str, ...], state: State) -> State:
        """Measure jobs that are alone, and forget those that are gone."""
        state = super().observe(view, started, state)
        pairs = {
            job: pair for job, pair in state["pairs"].items()
            if job in started or (job in view.running and view.running[job].gpus == _gpus(view, pair[0]))
        }  # fmt: skip
        together = {*pairs, *(pair[0] for pair in pairs.values())}
        mixed = {job: start for job, start in state["mixed"].items() if _started(view, job) == start}
        mixed |= {job: _started(view, job) for job in together if _started(view, job) is not None}
        alone = {job: speed for job, speed in state["alone"].items() if job in view.running or job in view.waiting}
        for job in view.running.values():
            speed = _speed(view, job)
            if speed > 0.0 and job.id not in mixed:
                alone[job.id] = speed
        unpaid = [two for two in state["unpaid"] if all(j in view.running or j in view.waiting for j in two)]
        return {**state, "pairs": pairs, "mixed": mixed, "alone": alone, "unpaid": unpaid}

    def _partner(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> JobView | None:
        """The job that is alone on as many GPUs with enough memory, has been measured, and uses them least."""
        memory, unpaid = job.job.profile.memory_bytes, state["unpaid"]
        if job.id not in state["alone"]:
            return None
        found: list[tuple[float, str]] = []
        for other in view.running.values():
            ids = list(other.gpus)
            if (
                len(ids) == gpus
                and other.status is JobStatus.RUNNING
                and other.id in state["alone"]
                and sorted((job.id, other.id)) not in unpaid
                and all(view.residents(gpu) == (other.id,) for gpu in ids)
                and bool((offer.usable[ids] & (offer.residents[ids] == 1)).all())
                and bool((offer.memory[ids] >= memory).all())
            ):
                found.append((state["alone"][other.id] * other.job.profile.compute_s, other.id))
        return view.running[min(found)[1]] if found else None

    def _measuring(self, view: ClusterView, job: JobView, gpus: int, state: State) -> bool:
        """Whether a job of its size has just begun, so that looking again soon is worthwhile."""
        return job.id in state["alone"] and any(
            len(other.gpus) == gpus and other.id not in state["alone"] for other in view.running.values()
        )

    def _again(
        self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State, pair: list[Any]
    ) -> Answer:  # fmt: skip
        """A packed job is asked: it moves to free GPUs, leaves if packing does not pay, or stays."""
        idle = np.flatnonzero(offer.free & (view.offer.residents == 0))  # GPUs of jobs whose slice ends do not count
        if len(idle) >= gpus:
            return self._answer(job, _close(view, idle, gpus), "to free GPUs", _apart(state, job.id))
        partner, since_s, mine, others = pair
        seconds = view.now - since_s
        if seconds <= 0.0 or partner not in view.running:
            return Answer(job.gpus, f"stays with {partner}", state)
        alone = state["alone"]  # the iteration under way counts in its favour
        sums = (view.iterations_done(job.id) - mine + 1) / seconds / alone[job.id]
        sums += (view.iterations_done(partner) - others + 1) / seconds / alone[partner]
        if sums >= PAYS:
            return Answer(job.gpus, f"stays with {partner}: together {sums:.2f} of what one does alone", state)
        words = f"packing with {partner} does not pay: together {sums:.2f} of what one does alone"
        unpaid = [*state["unpaid"], sorted((job.id, partner))]
        return Answer(None, words, {**_apart(state, job.id), "unpaid": unpaid}, leaves=True)


def _apart(state: State, job: str) -> State:
    return {**state, "pairs": {name: pair for name, pair in state["pairs"].items() if name != job}}


def _close(view: ClusterView, idle: npt.NDArray[np.int64], gpus: int) -> Placement:
    """The wanted number of these GPUs, from the servers that have most of them."""
    servers = view.cluster.server_of_gpu[idle]
    counts = np.bincount(servers)
    return tuple(sorted(idle[np.lexsort((idle, servers, -counts[servers]))][:gpus].tolist()))


def _gpus(view: ClusterView, job: str) -> tuple[int, ...] | None:
    return view.running[job].gpus if job in view.running else None


def _started(view: ClusterView, job: str) -> float | None:
    return view.running[job].started_s if job in view.running else None


def _speed(view: ClusterView, job: JobView) -> float:
    """Iterations per second since it was last started."""
    if job.started_s is None or view.now <= job.started_s:
        return 0.0
    return (view.iterations_done(job.id) - job.saved_iterations) / (view.now - job.started_s)
