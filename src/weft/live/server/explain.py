"""Why a job waits or where it went, in words: from the ledger of a live run, or from the tables of a simulated one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import InputError
from weft.live.server.ledger import JobRow, Ledger
from weft.live.server.listing import queue, servers_of

if TYPE_CHECKING:
    from weft.results.run import RunResult

__all__ = ["Explanation", "Line", "explain_live", "explain_run"]

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


def explain_live(folder: Path, ledger: Ledger, job_id: str) -> Explanation:
    """A job of a live run."""
    row = next((row for row in ledger.jobs() if row.id == job_id), None)
    refused: dict[str, list[str]] = ledger.meta("refused", {})
    if row is None and job_id in refused:
        return Explanation(job_id, f"stays held: {refused[job_id][0]}", ())
    if row is None:
        raise InputError(_no_such_job(job_id, str(folder), [row.id for row in ledger.jobs()]))
    servers = ledger.meta("cluster", [])
    lines = [Line(row.submit_s, _submission(row))]
    lines += [Line(e.time_s, _event(e.kind, e.words)) for e in ledger.events(job_id) if e.kind != "submitted"]
    lines += [
        Line(d.time_s, _decision(d.action, _where(d.gpus, servers), d.reason)) for _, d in ledger.decisions(job_id)
    ]
    now = next(entry for entry in queue(folder, ledger, ended=True) if entry["job"] == job_id)  # the first: not refused
    return Explanation(job_id, _headline(now), tuple(sorted(lines, key=lambda line: line.time_s)))


def explain_run(run: RunResult, job_id: str) -> Explanation:
    """A job of a simulated run."""
    import polars as pl

    found = run.jobs.filter(pl.col("job_id") == job_id)
    if found.is_empty():
        raise InputError(_no_such_job(job_id, f"this run of {run.scenario}", run.jobs["job_id"].to_list()))
    job = found.row(0, named=True)
    servers = [f"server {s}" for s in run.server_of_gpu]
    of_model = f" of {job['model']}" if job["model"] else ""
    lines = [Line(job["submit_s"], f"submitted: {_gpus(job['gpus'])}{of_model}")]
    for d in run.decisions.filter(pl.col("job_id") == job_id).iter_rows(named=True):
        lines.append(Line(d["time_s"], _decision(d["action"], _where(d["gpus"], servers), d["reason"])))
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


def _headline(now: dict[str, Any]) -> str:
    done = f", {now['done']} of {now['iterations']} iterations done" if now["iterations"] and now["done"] else ""
    match now["status"]:
        case "waiting":
            waited = f" for {now['waited_s']:.3g} s" if now["waited_s"] is not None else ""
            return f"waits{waited}: {now['reason']}{done}"
        case "finished" | "failed" | "cancelled" as status:
            words = now["reason"]
            told = words if words.startswith(status) else f"{status}: {words}"
            return f"{told}, after {now['ran_s']:.3g} s on GPUs"
        case status:
            return f"{status} on {now['where']} since {now['ran_s']:.3g} s{done}"


def _submission(row: JobRow) -> str:
    said = row.description
    length = f", {said.iterations} iterations" if said.iterations else ""
    return f"submitted: {_gpus(said.gpus)}{length}{f' of {said.model}' if said.model else ''}: {' '.join(said.argv)}"


def _event(kind: str, words: str) -> str:
    match kind:
        case "started":
            return "runs"
        case "finished" | "withdrawn":
            return f"{'finished' if kind == 'finished' else 'over'}: {words}"
        case "failed":
            return f"did not start: {words}"
        case "learned" | "barred" | "cleared":
            return f"{kind}: {words}"
        case _:
            return f"off its GPUs: {words}"


def _decision(action: str, where: str, reason: str) -> str:
    told = {
        "start": f"to start on {where}", "stop": "to stop", "gate": "communication shifted", "hold": "to wait"
    }[action]  # fmt: skip
    return f"decided {told}{f': {reason}' if reason else ''}"


def _where(gpus: str, servers: list[str]) -> str:
    return servers_of([int(gpu) for gpu in gpus.split()], servers)


def _gpus(n: int) -> str:
    return f"{n} GPU{'s' * (n > 1)}"


def _no_such_job(job_id: str, where: str, known: list[str]) -> str:
    some = ", ".join(known[:_NEAR]) + (", ..." if len(known) > _NEAR else "")
    return f"{where}: there is no job {job_id}; {f'jobs are {some}' if known else 'there are no jobs'}"
