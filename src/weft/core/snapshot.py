"""The job table as a JSON-able value, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from weft.core.table import Table
from weft.errors import InputError, StackError
from weft.model.job import Job
from weft.model.plan import Gate
from weft.model.profile import Profile
from weft.model.view import JobStatus, JobView

VERSION = 1

_JOB = ("id", "submit_s", "gpus", "iterations", "model", "min_gpus", "max_gpus", "batch", "user", "vc",
        "checkpoint_every", "per_server", "priority", "known", "resumes")  # fmt: skip
_VIEW = ("waiting_since_s", "started_s", "first_start_s", "run_s", "service_gpu_s", "preemptions", "failures",
         "saved_iterations")  # fmt: skip


def refuse_other(saved: dict[str, Any], stack: str, n_gpus: int) -> None:
    """Raise if a snapshot is of another version, stack or cluster."""
    if saved.get("version") != VERSION:
        raise InputError(f"snapshot has version {saved.get('version')}, this weft reads {VERSION}; start afresh")
    if saved["stack"] != stack:
        raise StackError(f"snapshot was taken with stack {saved['stack']}, not {stack}; resume with that stack")
    if saved["table"]["n_gpus"] != n_gpus:
        raise InputError(f"snapshot is of a cluster of {saved['table']['n_gpus']} GPUs, this one has {n_gpus}")


def save_table(table: Table) -> dict[str, Any]:
    """Jobs that have not ended, profiles once each, servers that are down."""
    pool = _Pool()
    records = _records(table, (*table.jobs, *table.ended), pool)
    saved: dict[str, Any] = assembled({"table": _save_rest(table)}, records, pool.saved)["table"]
    return saved


def _save_rest(table: Table) -> dict[str, Any]:
    """What is small however long the queue is."""
    return {
        "n_gpus": table.cluster.n_gpus,
        "down": sorted(table.gpus.down),
        "arrivals": table.arrivals,
        "gates": {job_id: asdict(gate) for job_id, gate in table.gates.items()},
    }


def _records(table: Table, job_ids: Iterable[str], pool: _Pool) -> dict[str, dict[str, Any]]:
    """The records of these jobs, in the form that `Changes` describes."""
    found: dict[str, dict[str, Any]] = {}
    for job_id in job_ids:
        if job_id in table.jobs:
            found[job_id] = {**_save_view(table.jobs[job_id], table, pool), "held": table.held.get(job_id)}
        elif job_id in table.ended:
            found[job_id] = {"ended": table.ended[job_id].value}
    return found


def _save_view(job: JobView, table: Table, pool: _Pool) -> dict[str, Any]:
    profiles = {str(workers): pool.index(profile) for workers, profile in job.job.profiles.items()}
    return {
        "job": {**{name: getattr(job.job, name) for name in _JOB}, "profiles": profiles},
        "number": table.number[job.id],
        "status": job.status.value,
        "gpus": list(job.gpus),
        "barred": job.barred,
        "silent": job.silent,
        "iteration_s": job.iteration_s,
        **{name: getattr(job, name) for name in _VIEW},
    }


@dataclass(frozen=True)
class Changes:
    """A snapshot in parts: `small` is complete each time, while jobs and profiles are only those that are new or
    changed.

    A job is given as its record, with `held` beside it, or as {"ended": status}. Profiles are numbered from
    `first_profile` on.
    """

    small: dict[str, Any]
    jobs: dict[str, dict[str, Any]]
    profiles: list[dict[str, Any]]
    first_profile: int


class Saver:
    """Remembers what has been saved of one table, so that only the rest is saved. A new one saves everything."""

    def __init__(self) -> None:
        self._pool = _Pool()
        self._begun = False

    def changes(self, small: dict[str, Any], table: Table) -> Changes:
        """What has changed since the last call."""
        touched = table.touched if self._begun else {*table.jobs, *table.ended, *table.touched}
        self._begun = True
        first = len(self._pool.saved)
        jobs = _records(table, touched, self._pool)
        table.touched = set()
        return Changes({**small, "table": _save_rest(table)}, jobs, self._pool.saved[first:], first)


def assembled(small: dict[str, Any], jobs: dict[str, dict[str, Any]], profiles: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole snapshot, put together from all changes that were ever saved."""
    live = [record for record in jobs.values() if "ended" not in record]
    return {
        **small,
        "table": {
            **small["table"],
            "jobs": sorted(live, key=lambda record: record["number"]),
            "profiles": profiles,
            "held": {r["job"]["id"]: r["held"] for r in live if r["held"] is not None},
            "ended": {job_id: record["ended"] for job_id, record in jobs.items() if "ended" in record},
        },
    }


def load_table(saved: dict[str, Any], table: Table) -> None:
    """Fill an empty table."""
    profiles = [Profile.from_json(record) for record in saved["profiles"]]
    table.arrivals = saved["arrivals"]
    for record in saved["jobs"]:
        job = Job(
            **{name: record["job"][name] for name in _JOB if name in record["job"]},  # earlier versions had fewer
            profiles={int(workers): profiles[i] for workers, i in record["job"]["profiles"].items()},
        )
        view = JobView(
            job,
            JobStatus(record["status"]),
            tuple(record["gpus"]),
            **{k: record[k] for k in _VIEW},
            barred=record.get("barred", ""),  # these three are not in snapshots of earlier versions
            silent=record.get("silent", False),
            iteration_s=record.get("iteration_s", 0.0),
        )
        table.put_back(view, record["number"])
    for server in saved["down"]:
        table.gpus.server_down(server)
    table.gates.update({job_id: Gate(**gate) for job_id, gate in saved["gates"].items()})
    table.held.update(saved["held"])
    table.ended.update({job_id: JobStatus(status) for job_id, status in saved["ended"].items()})


class _Pool:
    """Profiles by identity: thousands of jobs share a few."""

    def __init__(self) -> None:
        self.saved: list[dict[str, Any]] = []
        self._kept: dict[int, tuple[int, Profile]] = {}  # the profile is kept so that its id stays its own

    def index(self, profile: Profile) -> int:
        if id(profile) not in self._kept:
            self._kept[id(profile)] = (len(self.saved), profile)
            self.saved.append(profile.as_json())
        return self._kept[id(profile)][0]
