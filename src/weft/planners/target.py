"""Target: the assignment that a planner works towards while the world carries it out, kept as its state.

A planner that moves or resizes jobs sees them waiting again before they are where they should be. So it decides in
rounds and remembers the outcome; in between it repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.model.job import Job
from weft.model.plan import Candidate, Declined, Placement, Plan, State
from weft.model.view import ClusterView, JobStatus, JobView, Spread

__all__ = ["all_jobs", "as_decided", "closest", "held", "moved", "remember", "sizes_that_fit", "target_of"]


def all_jobs(view: ClusterView) -> dict[str, JobView]:
    """Jobs that hold GPUs, then those that wait."""
    return {**dict(view.running.items()), **{job.id: job for job in view.waiting.values()}}


def target_of(view: ClusterView, state: State) -> dict[str, Placement]:
    """Who should be where, as far as that is still possible: jobs that are there, GPUs that work."""
    usable, jobs = view.offer.usable, all_jobs(view)
    found = {}
    for job, gpus in state["target"].items():
        if job in jobs and all(bool(usable[gpu]) for gpu in gpus):
            found[job] = tuple(gpus)
    return found


def held(view: ClusterView) -> dict[str, Placement]:
    """Jobs that are on their way to their GPUs: nobody else can have these."""
    return {job.id: job.gpus for job in view.running.values() if job.status is JobStatus.STARTING}


def remember(view: ClusterView, target: Mapping[str, Placement], **more: Any) -> State:
    """The state after a round."""
    return {
        "version": 1,
        "target": {job: list(gpus) for job, gpus in target.items()},
        "jobs": sorted(all_jobs(view)),
        **more,
    }


def as_decided(
    view: ClusterView, target: Mapping[str, Placement], state: State, reason: str, wake_s: float | None
) -> Candidate:
    """The target once more: nothing new is decided."""
    declined = tuple(Declined(job, f"{reason}: no GPUs for it") for job in view.waiting if job not in target)
    jobs = all_jobs(view)
    return Candidate(Plan(dict(target)), state, dict.fromkeys(jobs, reason), declined, wake_s)


def moved(candidate: Candidate, placements: Mapping[str, Placement]) -> Candidate:
    """The candidate with jobs elsewhere: its target is there too."""
    state = {**candidate.state, "target": {job: list(gpus) for job, gpus in placements.items()}}
    return replace(candidate, plan=Plan(placements, candidate.plan.gates), state=state)


def sizes_that_fit(view: ClusterView, job: Job) -> tuple[int, ...]:
    """Worker counts that a job can run with on this cluster, memory included."""
    memory = view.cluster.gpu_memory_bytes
    there = int(view.offer.usable.sum())
    return tuple(n for n in job.sizes if n <= there and job.profiles[n].memory_bytes <= memory)


def closest(view: ClusterView, workers: int) -> Spread:
    """So many workers as close together as this cluster allows."""
    cluster = view.cluster
    per_server = cluster.largest_server
    servers = -(-workers // per_server)
    per_rack = max(1, len(cluster.servers) // max(1, cluster.n_racks))
    return Spread(servers, -(-servers // per_rack))
