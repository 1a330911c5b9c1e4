"""The story of one job, decision by decision, as the tables of a simulated run tell it; weft-live reads a ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import InputError
from weft.model.reason import Why, read_why, speak

if TYPE_CHECKING:
    from weft.results.run import RunResult

_NEAR = 5  # names listed when there is no such job


class Line(NamedTuple):
    """Something that was decided or happened."""

    time_s: float
    text: str


class Explanation(NamedTuple):
    """Where a job stands, and how it came to that."""

    job: str
    headline: str
    lines: tuple[Line, ...]


def explain_run(run: RunResult, job_id: str) -> Explanation:
    """A job of a simulated run."""
    import polars as pl

    found = run.jobs.filter(pl.col("job_id") == job_id)
    if found.is_empty():
        raise InputError(no_such_job(job_id, f"this run of {run.scenario}", run.jobs["job_id"].to_list()))
    job = found.row(0, named=True)
    servers = [f"server {s}" for s in run.server_of_gpu]
    of_model = f" of {job['model']}" if job["model"] else ""
    lines = [Line(job["submit_s"], f"submitted: {gpus_in_words(job['gpus'])}{of_model}")]
    for d in run.decisions.filter(pl.col("job_id") == job_id).iter_rows(named=True):
        lines.append(Line(d["time_s"], decision_line(d["action"], where(d["gpus"], servers), read_why(d["reason"]))))
    for span in run.spans.filter(pl.col("job_id") == job_id).iter_rows(named=True):
        if span["end"] == "finished":
            lines.append(Line(span["end_s"], "finished"))
    return Explanation(job_id, _simulated(job), tuple(sorted(lines, key=lambda line: line.time_s)))


def _simulated(job: dict[str, Any]) -> str:
    if job["finish_s"] is None:
        return f"{job['status']} when the simulation ended"
    stops = f", stopped {job['preemptions']} times" if job["preemptions"] else ""
    return (
        f"finished after {job['jct_s']:.4g} s: {job['queueing_s']:.4g} s waiting, {job['run_s']:.4g} s on GPUs, "
        f"{job['comm_s']:.4g} s of that for the network{stops}"
    )


def servers_of(gpus: list[int], servers: list[str]) -> str:
    """GPUs by server, in words."""
    by_server: dict[str, list[str]] = {}
    for gpu in gpus:
        by_server.setdefault(servers[gpu] if gpu < len(servers) else "?", []).append(str(gpu))
    return ", ".join(f"{name}: {' '.join(ids)}" for name, ids in by_server.items())


def decision_line(action: str, where: str, why: Why) -> str:
    told = {
        "start": f"to start on {where}", "stop": "to stop", "gate": "communication shifted",
        "route": "to go over other paths", "hold": "to wait",
    }[action]  # fmt: skip
    return f"decided {told}{f': {speak(why)}' if why else ''}"


def where(gpus: str, servers: list[str]) -> str:
    return servers_of([int(gpu) for gpu in gpus.split()], servers)


def gpus_in_words(n: int) -> str:
    return f"{n} GPU{'s' * (n > 1)}"


def no_such_job(job_id: str, where: str, known: list[str]) -> str:
    some = ", ".join(known[:_NEAR]) + (", ..." if len(known) > _NEAR else "")
    return f"{where}: there is no job {job_id}; {f'jobs are {some}' if known else 'there are no jobs'}"
