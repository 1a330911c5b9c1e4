"""What `weft queue` shows: every job of a folder, read from its ledger; the server need not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.live.attempt import Attempt
from weft.live.clock import Clock
from weft.live.server.ledger import Ledger

__all__ = ["queue", "servers_of", "waits_for"]


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
