"""From a plan to decisions: the difference between the plan and the present state.

A plan may be written as an amendment: the current placements with a few changes. It then costs what it changes, not
what stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set

from weft.core.table import Table, memory_of
from weft.model.plan import Candidate, Decision, Gate, Hold, Placement, SetGate, Start, Stop
from weft.model.reason import Why, because
from weft.model.view import JobStatus, JobView
from weft.policies.interleave.base import Pick


class Amended(Mapping[str, Placement]):
    """`base` without the jobs in `removed` and with those in `added`. Valid as long as `base` does not change."""

    def __init__(self, base: Mapping[str, Placement], added: Mapping[str, Placement], removed: Set[str]) -> None:
        self.base = base
        self.added = added
        self.removed = removed

    def __getitem__(self, job_id: str) -> Placement:
        if job_id in self.added:
            return self.added[job_id]
        if job_id in self.removed:
            raise KeyError(job_id)
        return self.base[job_id]

    def __iter__(self) -> Iterator[str]:
        yield from (job for job in self.base if job not in self.removed and job not in self.added)
        yield from self.added

    def __len__(self) -> int:
        gone = sum(job in self.base and job not in self.added for job in self.removed)
        return len(self.base) - gone + sum(job not in self.base for job in self.added)


Turn = Callable[[JobView], tuple[float, float]]


def decide(table: Table, pick: Pick, shared: bool, turn: Turn) -> list[Decision]:
    """Stops, then gates of running jobs, then starts, then what is held back and why.

    A running job that the plan moves or resizes is stopped; it starts again when the planner proposes it after the
    stop is confirmed. A start on GPUs that others are leaving is held until they have left.
    """
    candidate = pick.candidate
    stops, starts = _changes(table, candidate)
    if not (stops or starts or candidate.declined or table.gates or candidate.plan.gates):
        return []
    leaving = set(stops)
    decisions: list[Decision] = [Stop(job, reason) for job, reason in stops.items()]
    if table.gates or candidate.plan.gates:
        decisions += _gates(table, pick, leaving)
    held: dict[str, Hold] = {}
    given: dict[int, float] = {}  # memory that starts of this cycle take, by GPU
    for job_id, gpus in starts.items():
        if _must_wait(table, job_id, gpus, shared, leaving, given):
            held[job_id] = Hold(job_id, because("weft.being-freed"))
        else:
            reason = candidate.reasons.get(job_id, "")
            key = turn(table.jobs[job_id]) if job_id in table.jobs else (0.0, 0.0)
            decisions.append(Start(job_id, gpus, reason, candidate.plan.gates.get(job_id), key))
    for declined in {d.job: d for d in candidate.declined if d.job not in starts}.values():
        if table.held.get(declined.job) != declined.reason:  # mostly the journal has the reason already
            held[declined.job] = Hold(declined.job, declined.reason, declined.ask_again_s)
    if held:
        decisions += (hold for hold in held.values() if table.held.get(hold.job) != hold.reason)
    return decisions


def wake_time(candidate: Candidate, now: float) -> float | None:
    """The next time after now at which the candidate asks for a cycle, if it does."""
    if not candidate.declined:
        return candidate.wake_s if candidate.wake_s is not None and candidate.wake_s > now else None
    times = [candidate.wake_s, *(declined.ask_again_s for declined in candidate.declined)]
    return min((t for t in times if t is not None and t > now), default=None)


def _changes(table: Table, candidate: Candidate) -> tuple[dict[str, Why], dict[str, Placement]]:
    """Jobs to stop, with the reason, and jobs to start."""
    plan = candidate.plan.placements
    stops: dict[str, Why] = {}
    starts: dict[str, Placement] = {}
    gone, mentioned = _suspects(table, plan)
    for job_id in gone:
        if table.running[job_id].status is JobStatus.RUNNING:
            stops[job_id] = candidate.reasons.get(job_id, "")
    for job_id, gpus in mentioned:
        job = table.running.get(job_id)
        if job is None:
            starts[job_id] = gpus
        elif job.status is JobStatus.RUNNING and job.gpus != gpus:
            stops[job_id] = candidate.reasons.get(job_id, "")
    return stops, starts


def _suspects(table: Table, plan: Mapping[str, Placement]) -> tuple[list[str], Iterator[tuple[str, Placement]]]:
    """Running jobs the plan leaves out, and the jobs it mentions; an amended plan names its changes itself."""
    if plan is table.placements:
        return [], iter(())
    if isinstance(plan, Amended) and plan.base is table.placements:
        gone = [job for job in plan.removed if job in table.running and job not in plan.added]
        return sorted(gone, key=table.number.__getitem__), iter(plan.added.items())
    return [job for job in table.running if job not in plan], iter(plan.items())


def _gates(table: Table, pick: Pick, leaving: set[str]) -> Iterator[Decision]:
    gates: Mapping[str, Gate] = pick.candidate.plan.gates
    for job_id in (*gates, *(job for job in table.gates if job not in gates)):
        job = table.running.get(job_id)
        if job is None or job.status is not JobStatus.RUNNING or job_id in leaving:
            continue
        gate = gates.get(job_id)
        if gate != table.gates.get(job_id):
            yield SetGate(job_id, gate, pick.reasons.get(job_id, "" if gate else because("weft.gate-over")))


def _must_wait(
    table: Table, job_id: str, gpus: Placement, shared: bool, leaving: set[str], given: dict[int, float]
) -> bool:
    """True if jobs that are leaving still hold the GPUs; anything else that is wrong is left to the checker."""
    if job_id not in table.jobs or not gpus or min(gpus) < 0 or max(gpus) >= table.cluster.n_gpus:
        return False
    memory = memory_of(table.jobs[job_id].job, len(gpus))
    for gpu in gpus:
        there = table.gpus.names(gpu)
        soon = there and any(n in leaving or table.jobs[n].status is JobStatus.STOPPING for n in there)
        if soon and not (shared and table.gpus.memory_left(gpu) - given.get(gpu, 0.0) >= memory):
            return True
    for gpu in gpus:
        given[gpu] = given.get(gpu, 0.0) + memory
    return False
