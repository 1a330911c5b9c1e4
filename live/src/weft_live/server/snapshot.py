"""The core as a JSON-able value, and back: its job table, and what policies remember. Taken between cycles."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from weft.errors import InputError, StackError
from weft.model.job import Job
from weft.model.plan import Gate
from weft.model.profile import Profile
from weft.model.reason import read_why, written
from weft.model.view import JobStatus, JobView

if TYPE_CHECKING:  # whoever lists a queue decides nothing
    from weft.core.cycle import Core
    from weft.core.journal import Journal
    from weft.core.stack import Stack
    from weft.core.table import Table
    from weft.core.world import World

VERSION = 1

_JOB = ("id", "submit_s", "gpus", "iterations", "model", "min_gpus", "max_gpus", "batch", "user", "vc",
        "checkpoint_every", "per_server", "priority", "known", "resumes")  # fmt: skip
_VIEW = ("waiting_since_s", "started_s", "first_start_s", "run_s", "service_gpu_s", "preemptions", "failures",
         "saved_iterations")  # fmt: skip


def restored(saved: dict[str, Any], stack: Stack, world: World, journal: Journal | None = None) -> Core:
    """A core that goes on where `saved` was taken: the same events bring the same decisions."""
    from weft.core.cycle import Core

    _refuse_other(saved, stack.name, world.cluster.n_gpus)
    core = Core(stack, world, saved["seed"], journal)
    core.cycle = saved["cycle"]
    core.view.move_to(saved["now"], saved["cycle"])
    core.wake_s = saved["wake_s"]
    core.planner_state = saved["planner_state"]
    core.interleave_state = saved["interleave_state"]
    load_table(saved["table"], core.table)
    return core


def _refuse_other(saved: dict[str, Any], stack: str, n_gpus: int) -> None:
    """Raise if a snapshot is of another version, stack or cluster."""
    if saved.get("version") != VERSION:
        raise InputError(f"snapshot has version {saved.get('version')}, this weft reads {VERSION}; start afresh")
    if saved["stack"] != stack:
        raise StackError(f"snapshot was taken with stack {saved['stack']}, not {stack}; resume with that stack")
    if saved["table"]["n_gpus"] != n_gpus:
        raise InputError(f"snapshot is of a cluster of {saved['table']['n_gpus']} GPUs, this one has {n_gpus}")


def _small(core: Core) -> dict[str, Any]:
    """What is small however long the queue is."""
    table = core.table
    return {
        "version": VERSION,
        "stack": core.stack.name,
        "seed": core.seed,
        "cycle": core.cycle,
        "now": core.view.now,
        "wake_s": core.wake_s,
        "planner_state": core.planner_state,
        "interleave_state": core.interleave_state,
        "table": {
            "n_gpus": table.cluster.n_gpus,
            "down": sorted(table.gpus.down),
            "arrivals": table.arrivals,
            "gates": {job_id: asdict(gate) for job_id, gate in table.gates.items()},
        },
    }


def _records(table: Table, job_ids: Iterable[str], pool: _Pool) -> dict[str, dict[str, Any]]:
    """The records of these jobs, in the form that `Changes` describes."""
    found: dict[str, dict[str, Any]] = {}
    for job_id in job_ids:
        if job_id in table.jobs:
            found[job_id] = {
                **_save_view(table.jobs[job_id], table, pool),
                "held": written(table.held[job_id]) if job_id in table.held else None,
            }
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
        "barred": written(job.barred),
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
    """Remembers what has been saved of one core, so that only the rest is saved: a long queue costs nothing. A new one
    saves everything."""

    def __init__(self) -> None:
        self._pool = _Pool()
        self._begun = False

    def changes(self, core: Core, touched: Set[str] = frozenset()) -> Changes:
        """What has changed since the last call; `touched` are the jobs about which something has."""
        due = touched if self._begun else {*core.table.jobs, *core.table.ended}
        self._begun = True
        first = len(self._pool.saved)
        jobs = _records(core.table, due, self._pool)
        return Changes(_small(core), jobs, self._pool.saved[first:], first)


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
            barred=read_why(record.get("barred", "")),  # these three are not in snapshots of earlier versions
            silent=record.get("silent", False),
            iteration_s=record.get("iteration_s", 0.0),
        )
        table.put_back(view, record["number"])
    for server in saved["down"]:
        table.gpus.server_down(server)
    table.gates.update({job_id: Gate(**gate) for job_id, gate in saved["gates"].items()})
    table.held.update({job_id: read_why(said) for job_id, said in saved["held"].items()})
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
