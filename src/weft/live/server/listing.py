"""What a ledger tells: the queue, the story of one job, and a trace that `weft simulate` replays.

The server need not run. A job's story can also be told from the tables of a simulated run.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import InputError
from weft.live.attempt import Attempt
from weft.live.clock import Clock
from weft.live.server.ledger import JobRow, Ledger

if TYPE_CHECKING:
    from weft.results.run import RunResult


def queue(folder: Path, ledger: Ledger, *, ended: bool = False) -> list[dict[str, Any]]:
    """Jobs in order of submission; those that have ended too, if wanted."""
    table = (ledger.core() or {"table": {"jobs": [], "held": {}}})["table"]
    live = {record["job"]["id"]: record for record in table["jobs"]}
    clock = ledger.meta("clock")
    now = Clock(**clock).now() if clock else 0.0
    rows = []
    for row in ledger.jobs():
        if row.status and not ended:
            continue
        said, record = row.description, live.get(row.id)
        known: dict[str, Any] = {
            "job": row.id,
            "status": row.status or (record["status"] if record else "waiting"),
            "gpus": said.gpus,
            "where": "",
            "submit_s": row.submit_s,
            "waited_s": None,
            "ran_s": row.run_s,
            "iterations": said.iterations or None,
            "done": row.iterations or None,
            "model": said.model,
            "reason": row.words,
        }
        if not row.status:
            known |= _present(folder, ledger, row.id, record, table, now)
        rows.append(known)
    return rows + [_refused(key, words) for key, (words, _) in ledger.meta("refused", {}).items()]


def _refused(key: str, words: str) -> dict[str, Any]:
    """A job of Slurm that weft cannot take."""
    nothing: dict[str, Any] = dict.fromkeys(("submit_s", "waited_s", "iterations", "done"))
    return {
        **nothing,
        "job": key,
        "status": "refused",
        "gpus": 0,
        "where": "",
        "ran_s": 0.0,
        "model": "",
        "reason": words,
    }


def _present(
    folder: Path, ledger: Ledger, job_id: str, record: dict[str, Any] | None, table: dict[str, Any], now: float
) -> dict[str, Any]:
    """Where a job that has not ended stands."""
    if record is None:
        return {"reason": "not yet considered"}
    done = record["saved_iterations"]
    if record["status"] == "waiting":
        waited = now - record["waiting_since_s"]
        reason = record.get("barred") or waits_for(job_id, table)
        return {"waited_s": waited, "ran_s": record["run_s"], "done": done, "reason": reason}
    attempt = Attempt(Path(ledger.meta("jobs_folder", str(folder / "jobs"))) / job_id / str(ledger.starts(job_id)))
    ran = record["run_s"] + (now - record["started_s"] if record["started_s"] is not None else 0.0)
    where = servers_of(record["gpus"], ledger.meta("cluster", []))
    return {"where": where, "ran_s": ran, "done": max(done, attempt.progress().step)}


def waits_for(job_id: str, table: dict[str, Any]) -> str:
    """Why a job waits: what was said about it, else about the job that it stands behind."""
    held: dict[str, str] = table["held"]
    if job_id in held:
        return held[job_id]
    if held:
        other, reason = next(iter(held.items()))
        return f"stands behind {other}, which {reason}"
    return "its turn has not come"


def servers_of(gpus: list[int], servers: list[str]) -> str:
    """GPUs by server, in words."""
    by_server: dict[str, list[str]] = {}
    for gpu in gpus:
        by_server.setdefault(servers[gpu] if gpu < len(servers) else "?", []).append(str(gpu))
    return ", ".join(f"{name}: {' '.join(ids)}" for name, ids in by_server.items())


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
            return f"{status} on {now['where']} for {now['ran_s']:.3g} s{done}"


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
        case "learned" | "barred" | "cleared" | "prioritised":
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


_COLUMNS = ("job_id", "submit_s", "gpus", "duration_s", "iterations", "model", "user", "status")

_MOMENT_S = 0.001


def write_trace(ledger: Ledger, path: Path) -> int:
    """Write the jobs that have ended and ran; returns how many. The file is whole or the old one, never half.

    `duration_s` is the time on GPUs, all attempts together; of a job that came and went between two looks, a moment.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    rows = [row for row in ledger.jobs() if row.status == "finished" or (row.status and row.run_s > 0)]
    for row in rows:
        said = row.description
        iterations = said.iterations if row.status == "finished" else row.iterations
        times = (f"{row.submit_s:.6f}", said.gpus, f"{max(row.run_s, _MOMENT_S):.6f}")
        writer.writerow((row.id, *times, iterations or "", said.model, said.user, row.status))
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_text(text.getvalue(), encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot write the trace ({error.strerror}); give a path that can be written"
        ) from None
    return len(rows)
