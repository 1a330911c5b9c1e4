"""What a ledger tells: the queue, the story of one job, and a trace that `weft simulate` replays.

The server need not run.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.reason import Reason, Why, because, code_of, read_why, speak
from weft.results.explain import Explanation, Line, decision_line, gpus_in_words, no_such_job, servers_of, where
from weft_live.attempt import Attempt
from weft_live.clock import Clock
from weft_live.server.ledger import JobRow, Ledger
from weft_live.words import OVER


def queue(folder: Path, ledger: Ledger, *, ended: bool = False) -> list[dict[str, Any]]:
    """Jobs in order of submission; those that have ended too, if wanted."""
    table = (ledger.core() or {"table": {"jobs": [], "held": {}}})["table"]
    live = {record["job"]["id"]: record for record in table["jobs"]}
    clock = ledger.meta("clock")
    now = Clock(**clock).now() if clock else 0.0
    rows = []
    here = _Here(folder, ledger, table, now)
    for job in ledger.listed(ended=ended):
        why, record = read_why(job.pop("why")), live.get(job["job"])
        over = bool(job["status"])
        job |= {"where": "", "waited_s": None, "reason": speak(why), "code": code_of(why)}
        job |= {"iterations": job["iterations"] or None, "done": job["done"] or None}
        if not over:
            job |= {"status": record["status"] if record else "waiting", **here.present(job["job"], record)}
        rows.append(job)
    return rows + [_refused(key, words) for key, (words, _) in ledger.meta("refused", {}).items()]


def _refused(key: str, words: str) -> dict[str, Any]:
    """A job of Slurm that weft cannot take."""
    nothing: dict[str, Any] = dict.fromkeys(("submit_s", "waited_s", "iterations", "done"))
    nothing |= {"gpus": 0, "where": "", "ran_s": 0.0, "model": ""}
    return {**nothing, "job": key, "status": "refused", "reason": words, "code": "refused"}


class _Here:
    """What is read once for all jobs that have not ended."""

    def __init__(self, folder: Path, ledger: Ledger, table: dict[str, Any], now: float) -> None:
        self._ledger, self._table, self._now = ledger, table, now
        self._folder = Path(ledger.meta("jobs_folder", str(folder / "jobs")))
        self._servers = ledger.meta("cluster", [])
        self._down: dict[str, str] = ledger.meta("down", {})
        self._told: dict[tuple[str, str], dict[str, str]] = {}

    def present(self, job_id: str, record: dict[str, Any] | None) -> dict[str, Any]:
        """Where a job stands."""
        if record is None:
            return {"reason": "not yet considered", "code": "live.new"}
        done = record["saved_iterations"]
        if record["status"] == "waiting":
            waited = self._now - record["waiting_since_s"]
            return {"waited_s": waited, "ran_s": record["run_s"], "done": done, **self._waits(job_id, record)}
        attempt = Attempt(self._folder / job_id / str(self._ledger.starts(job_id)))
        ran = record["run_s"] + (self._now - record["started_s"] if record["started_s"] is not None else 0.0)
        where = servers_of(record["gpus"], self._servers)
        return {"where": where, "ran_s": ran, "done": max(done, attempt.progress().step)}

    def _waits(self, job_id: str, record: dict[str, Any]) -> dict[str, str]:
        """Why it waits; thousands wait for the same."""
        barred, held = record.get("barred") or "", self._table["held"].get(job_id, "")
        if (barred, held) not in self._told:
            why = read_why(barred) or waits_for(job_id, self._table)
            if isinstance(why, Reason) and why.code == "weft.no-room":
                why = self._short(why)
            self._told[barred, held] = {"reason": speak(why), "code": code_of(why)}
        return self._told[barred, held]

    def _short(self, why: Reason) -> Reason:
        """How many GPUs are free, and which servers cannot be used."""
        down = {name for name in self._servers if name in self._down}
        taken = sum(len(record["gpus"]) for record in self._table["jobs"])
        free = sum(name not in down for name in self._servers) - taken
        nodes = tuple(f"{name}: {speak(read_why(self._down[name]))}" for name in sorted(down))
        return because("live.short", gpus=why["gpus"], free=max(free, 0), there=why["there"], down=nodes)


def servers_down(ledger: Ledger) -> dict[str, str]:
    """Servers that cannot be used, and why."""
    return {name: speak(read_why(said)) for name, said in ledger.meta("down", {}).items()}


def waits_for(job_id: str, table: dict[str, Any]) -> Why:
    """Why a job waits: its own reason, else that of the job that it stands behind."""
    held: dict[str, str] = table["held"]
    if job_id in held:
        return read_why(held[job_id])
    if held:
        other, reason = next(iter(held.items()))
        return because("live.behind", other=other, how=read_why(reason))
    return because("live.turn")


def explain_in(folder: Path, job_id: str) -> Explanation:
    """A job of the live run in this folder: what `weft explain` asks for by the entry point weft.explain."""
    ledger = Ledger(folder, read_only=True)
    try:
        return explain_live(folder, ledger, job_id)
    finally:
        ledger.close()


def explain_live(folder: Path, ledger: Ledger, job_id: str) -> Explanation:
    """A job of a live run."""
    row = next((row for row in ledger.jobs() if row.id == job_id), None)
    refused: dict[str, list[str]] = ledger.meta("refused", {})
    if row is None and job_id in refused:
        return Explanation(job_id, f"stays held: {refused[job_id][0]}", ())
    if row is None:
        raise InputError(no_such_job(job_id, str(folder), [row.id for row in ledger.jobs()]))
    servers = ledger.meta("cluster", [])
    lines = [Line(row.submit_s, _submission(row))]
    lines += [Line(e.time_s, _event(e.kind, e.why)) for e in ledger.events(job_id) if e.kind != "submitted"]
    lines += [
        Line(d.time_s, decision_line(d.action, where(d.gpus, servers), d.why)) for _, d in ledger.decisions(job_id)
    ]
    now = next(entry for entry in queue(folder, ledger, ended=True) if entry["job"] == job_id)  # the first: not refused
    return Explanation(job_id, _headline(now), tuple(sorted(lines, key=lambda line: line.time_s)))


def _headline(now: dict[str, Any]) -> str:
    done = f", {now['done']} of {now['iterations']} iterations done" if now["iterations"] and now["done"] else ""
    match now["status"]:
        case "waiting":
            waited = f" for {now['waited_s']:.3g} s" if now["waited_s"] is not None else ""
            return f"waits{waited}: {now['reason']}{done}"
        case "finished" | "failed" | "cancelled" as status:
            words = now["reason"]
            told = words if now["code"] in OVER else f"{status}: {words}"
            return f"{told}, after {now['ran_s']:.3g} s on GPUs"
        case status:
            return f"{status} on {now['where']} for {now['ran_s']:.3g} s{done}"


def _submission(row: JobRow) -> str:
    said = row.description
    length = f", {said.iterations} iterations" if said.iterations else ""
    model = f" of {said.model}" if said.model else ""
    return f"submitted: {gpus_in_words(said.gpus)}{length}{model}: {' '.join(said.argv)}"


def _event(kind: str, why: Why) -> str:
    words = speak(why)
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
        new.unlink(missing_ok=True)
        with open(new, "x", encoding="utf-8") as file:  # where others may write, it may be a link of theirs
            file.write(text.getvalue())
        new.replace(path)
    except OSError as error:
        raise InputError(
            f"{path}: cannot write the trace ({error.strerror}); give a path that can be written"
        ) from None
    return len(rows)
