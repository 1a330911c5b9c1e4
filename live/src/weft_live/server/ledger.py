"""Ledger: what a live run must not forget, in one SQLite file: jobs, decisions, events, and the core's last state.

A decision is written before it is carried out (`write`, which the core calls). Then, still before it is carried out,
the core's state and the events it has taken are written together (`keep`). What was decided after the last `keep` was
never carried out, and a server that comes back marks it so.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from weft.errors import InputError
from weft.model.plan import Decision, Hold, SetGate, Start, Stop
from weft.model.reason import Why, read_why, written
from weft_live.description import Description
from weft_live.ending import Faults
from weft_live.server.folders import refuse_to_read
from weft_live.server.older import from_sentences
from weft_live.server.snapshot import Changes, assembled

FILE = "ledger.sqlite"
_VERSION = 3
_OLDER = (1, 2)  # versions that are taken over: in 1 the core's jobs are all in one row; both have sentences
_AGAIN_S = 1.0  # seconds between attempts to write while that is not possible
_ACTION = {Start: "start", Stop: "stop", SetGate: "gate", Hold: "hold"}

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, submit_s REAL NOT NULL, description TEXT NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT '', end_s REAL, run_s REAL NOT NULL DEFAULT 0,
    iterations INTEGER NOT NULL DEFAULT 0, reason TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS decisions (
    number INTEGER PRIMARY KEY, cycle INTEGER NOT NULL, time_s REAL NOT NULL, job TEXT NOT NULL, action TEXT NOT NULL,
    gpus TEXT NOT NULL, gate TEXT NOT NULL, reason TEXT NOT NULL, void INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS decisions_job ON decisions (job);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY, time_s REAL NOT NULL, job TEXT NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS events_job ON events (job);
CREATE TABLE IF NOT EXISTS core_jobs (id TEXT PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS core_profiles (number INTEGER PRIMARY KEY, state TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS core (one INTEGER PRIMARY KEY CHECK (one = 1), cycle INTEGER NOT NULL, state TEXT NOT NULL);
"""


class LedgerTrouble(InputError):  # noqa: N818 - it may pass
    """The file cannot be written now."""


class JobRow(NamedTuple):
    """A job as submitted, and how it ended ("" while it has not)."""

    number: int
    id: str
    submit_s: float
    description: Description
    cancelled: bool
    status: str
    end_s: float | None
    run_s: float
    iterations: int
    why: Why


class End(NamedTuple):
    """How a job ended: finished, failed or cancelled."""

    id: str
    status: str
    end_s: float
    run_s: float  # on GPUs
    iterations: int  # that were not lost
    why: Why


class DecisionRow(NamedTuple):
    """A decision that was carried out, or is about to be."""

    time_s: float
    action: str
    gpus: str
    why: Why


class EventRow(NamedTuple):
    """Something that happened to a job."""

    time_s: float
    job: str
    kind: str
    why: Why


class Ledger:
    """The file. It is the core's journal; one process writes it, any number may read it meanwhile."""

    def __init__(self, folder: Path | None, *, read_only: bool = False) -> None:
        """The ledger of a run's folder; None keeps it in memory."""
        self._where = folder or "in memory"
        self.say: Callable[[str], None] = lambda _: None
        self.patient: Callable[[], bool] = lambda: False  # whether to try again what could not be written
        if folder is not None and read_only:
            refuse_to_read(folder, FILE)
            self._db = sqlite3.connect(f"{(folder / FILE).resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        else:
            self._db = _database(folder and folder / FILE)
        for setting in ("busy_timeout = 5000", *(() if read_only else ("journal_mode = WAL", "synchronous = FULL"))):
            self._all(f"PRAGMA {setting}")
        # None: new, or its server died before it had begun
        found = self.meta("version") if self._all("SELECT 1 FROM sqlite_master WHERE name = 'meta'") else None
        if found not in (None, *_OLDER, _VERSION):
            raise InputError(f"{folder}: written by another version of weft ({found}); serve in an empty folder")
        if folder is not None and (found in _OLDER or (found is None and read_only)):
            copy = _database(None if read_only else folder / f"{FILE}.v{found}")
            self._db.backup(copy)
            if read_only:  # as it will be once a server has taken it over
                self._db, copy = copy, self._db
            copy.close()
        if found in _OLDER:
            from_sentences(self._db, _VERSION)
        if not read_only or found is None:
            self._db.executescript(_TABLES)
            self.set_meta("version", _VERSION)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def copy_from(self, folder: Path) -> None:
        """Take over everything that the ledger of a folder holds, if there is one."""
        if (folder / FILE).exists():
            with sqlite3.connect(f"{(folder / FILE).resolve().as_uri()}?mode=ro", uri=True) as other:
                other.backup(self._db)
            other.close()
            if self.meta("version") in _OLDER:
                from_sentences(self._db, _VERSION)

    # What is written

    def set_meta(self, key: str, value: Any) -> None:
        """A value about the run as a whole."""
        self._surely(lambda: self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value))))

    def submit(self, description: Description, submit_s: float) -> None:
        """A job that has been accepted; raises at once if it cannot be written."""
        try:
            with self.together():
                self._insert(description, submit_s)
        except sqlite3.IntegrityError:
            raise InputError(f"submit: there is a job {description.name} already; choose another name") from None

    def submit_all(self, jobs: Sequence[tuple[Description, float]]) -> None:
        """Jobs that have been accepted together, each with its time."""

        def write() -> None:
            for description, submit_s in jobs:
                self._insert(description, submit_s)

        self._surely(write)

    def _insert(self, description: Description, submit_s: float) -> None:
        said = json.dumps(description.to_json())
        self._db.execute(
            "INSERT INTO jobs (id, submit_s, description) VALUES (?, ?, ?)", (description.name, submit_s, said)
        )

    def _surely(self, write: Callable[[], object]) -> None:
        """Write all or nothing, and try again as long as the server has patience. Until it is written, nothing that
        depends on it is carried out; what has happened is not forgotten, since this process still knows it."""
        told = False
        while True:
            try:
                with self.together():
                    write()
            except LedgerTrouble as trouble:
                if not self.patient():
                    raise
                if not told:
                    self.say(f"{trouble}; until then nothing is started")
                told = True
                time.sleep(_AGAIN_S)
            else:
                if told:
                    self.say(f"{self._where}: the ledger can be written again")
                return

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Report trouble with the file itself in words: it is no bug of weft, and jobs run on."""
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.OperationalError as error:
            raise LedgerTrouble(
                f"{self._where}: the ledger cannot be written ({error}); make room there, and weft serve goes on"
            ) from None
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written in this block is kept at its end, all or nothing."""
        with self._writing():
            try:
                self._db.execute("BEGIN")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise

    def end(self, job_id: str, why: Why, end_s: float) -> None:
        """A job that ended before it was scheduled."""
        question = "UPDATE jobs SET status = 'failed', end_s = ?, reason = ? WHERE id = ?"
        self._surely(lambda: self._db.execute(question, (end_s, written(why), job_id)))

    def cancel(self, job_id: str) -> None:
        """The user does not want a job any more."""
        with self._writing():
            self._db.execute("UPDATE jobs SET cancelled = 1 WHERE id = ?", (job_id,))

    def write(self, cycle: int, time_s: float, decisions: Sequence[Decision]) -> None:
        """Decisions of one cycle; kept when this returns, whatever becomes of the process.

        `keep`, which follows before they are carried out, makes them survive a crash of the machine, too."""
        rows = [(cycle, time_s, d.job, _ACTION[type(d)], _gpus(d), _gate(d), written(d.reason)) for d in decisions]
        insert = "INSERT INTO decisions (cycle, time_s, job, action, gpus, gate, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            self._surely(lambda: self._db.executemany(insert, rows))
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def keep(self, changes: Changes, events: Sequence[EventRow], ended: Sequence[End]) -> None:
        """What has changed of the core's state, the events that led to it, and how jobs ended: all or nothing."""
        db = self._db

        def write() -> None:
            told = [(*event[:3], written(event.why)) for event in events]
            db.executemany("INSERT INTO events (time_s, job, kind, reason) VALUES (?, ?, ?, ?)", told)
            for job in ended:
                db.execute(
                    "UPDATE jobs SET status = ?, end_s = ?, run_s = ?, iterations = ?, reason = ? WHERE id = ?",
                    (job.status, job.end_s, job.run_s, job.iterations, written(job.why), job.id),
                )
            jobs = [(job_id, json.dumps(record)) for job_id, record in changes.jobs.items()]
            db.executemany("INSERT OR REPLACE INTO core_jobs VALUES (?, ?)", jobs)
            profiles = [(n, json.dumps(made)) for n, made in enumerate(changes.profiles, changes.first_profile)]
            db.executemany("INSERT OR REPLACE INTO core_profiles VALUES (?, ?)", profiles)
            small = (changes.small["cycle"], json.dumps(changes.small))
            db.execute("INSERT OR REPLACE INTO core VALUES (1, ?, ?)", small)

        self._surely(write)

    def void_after(self, cycle: int) -> None:
        """Decisions after that cycle were never carried out."""
        self._surely(lambda: self._db.execute("UPDATE decisions SET void = 1 WHERE cycle > ?", (cycle,)))

    # What is read

    def meta(self, key: str, default: Any = None) -> Any:
        """A value about the run as a whole."""
        rows = self._all("SELECT value FROM meta WHERE key = ?", (key,))
        return self._values(rows[0])[0] if rows else default

    def _all(self, question: str, given: Sequence[Any] = ()) -> list[Any]:
        """What the file answers; a disk may have damaged it."""
        try:
            return self._db.execute(question, given).fetchall()
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from None

    def _values(self, texts: Iterable[str]) -> list[Any]:
        """Read together: one by one, thousands take longer than a user likes to wait."""
        try:
            return list(json.loads(f"[{','.join(texts)}]"))
        except ValueError as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> InputError:
        return InputError(
            f"{self._where}: the ledger cannot be read ({error}); is that a folder of weft serve, and its disk sound?"
        )

    def core(self) -> dict[str, Any] | None:
        """The core's last state."""
        kept = self._values(said for (said,) in self._all("SELECT state FROM core"))
        small: dict[str, Any] | None = kept[0] if kept else None
        if small is None or "jobs" in small["table"]:  # as version 1 wrote it; the first `keep` writes everything anew
            return small
        rows = self._all("SELECT id, state FROM core_jobs")
        profiles = self._all("SELECT state FROM core_profiles ORDER BY number")
        jobs = dict(zip((job for job, _ in rows), self._values(state for _, state in rows), strict=True))
        return assembled(small, jobs, self._values(state for (state,) in profiles))

    def jobs(self, *, ended: bool = True) -> list[JobRow]:
        """All jobs, in order of submission, or only those that have not ended."""
        rows = self._all(
            "SELECT number, id, submit_s, description, cancelled, status, end_s, run_s, iterations, reason FROM jobs "
            "WHERE ? OR status = '' ORDER BY number",
            (ended,),
        )
        return [
            JobRow._make((*r[:3], Description.known(said), bool(r[4]), *r[5:9], read_why(r[9])))
            for r, said in zip(rows, self._values(r[3] for r in rows), strict=True)
        ]

    def listed(self, *, ended: bool) -> list[dict[str, Any]]:
        """The same, as far as a queue shows them: thousands of descriptions take longer than a user likes to wait."""
        rows = self._all(
            "SELECT id, submit_s, status, run_s, iterations, reason, "
            "json_extract(description, '$.gpus', '$.iterations', '$.model') "
            "FROM jobs WHERE ? OR status = '' ORDER BY number",
            (ended,),
        )
        names = ("job", "submit_s", "status", "ran_s", "done", "why", "gpus", "iterations", "model")
        said = self._values(row[-1] for row in rows)
        return [dict(zip(names, (*row[:-1], *more), strict=True)) for row, more in zip(rows, said, strict=True)]

    def ended(self, what: str, most: int) -> list[Any]:
        """When jobs that ran were submitted, how long they ran, and `what` of each; the last to end first."""
        return self._all(f"SELECT submit_s, run_s, {what} FROM jobs WHERE run_s > 0 ORDER BY end_s DESC LIMIT {most}")

    def said(self, job_id: str) -> Description:
        """A job as submitted."""
        return Description.known(self._values(self._all("SELECT description FROM jobs WHERE id = ?", (job_id,))[0])[0])

    def check(self) -> list[str]:
        """What is wrong with it, if something is."""
        try:
            found = [said for (said,) in self._db.execute("PRAGMA integrity_check(10)") if said != "ok"]
            jobs = dict(self._db.execute("SELECT id, status FROM jobs"))
            for table in ("decisions", "events"):
                rows = self._db.execute(f"SELECT DISTINCT job FROM {table} WHERE job NOT IN (SELECT id FROM jobs)")
                found += [f"{table}: of a job {job}, which was never submitted" for (job,) in rows]
            for job, said in self._db.execute("SELECT id, description FROM jobs"):
                try:
                    Description.from_json(json.loads(said))
                except (InputError, ValueError, TypeError) as error:
                    found.append(f"jobs: {job}: {error}")
            for record in (self.core() or {"table": {"jobs": []}})["table"]["jobs"]:
                job = record["job"]["id"]
                if jobs.get(job) != "":
                    found.append(f"core_jobs: {job} has not ended, but {jobs.get(job) or 'unknown'} to the jobs")
        except (sqlite3.Error, InputError, ValueError, KeyError, TypeError) as error:
            return [f"cannot be read: {error}"]
        return found

    def next_number(self) -> int:
        """The number that the next job will have."""
        return int(self._all("SELECT coalesce(max(number), 0) + 1 FROM jobs")[0][0])

    def starts(self, job_id: str) -> int:
        """How often a job was started."""
        question = "SELECT count(*) FROM decisions WHERE job = ? AND action = 'start' AND NOT void"
        return int(self._all(question, (job_id,))[0][0])

    def faults(self, job_id: str) -> Faults:
        """How often a job was started again because it failed."""
        return Faults.told(event.why for event in self.events(job_id))

    def decisions(self, job_id: str | None = None) -> list[tuple[str, DecisionRow]]:
        """Decisions that were not void, of one job or of all, as they were taken; each with its job."""
        rows = self._all(
            "SELECT job, time_s, action, gpus, reason FROM decisions WHERE NOT void AND (? IS NULL OR job = ?) "
            "ORDER BY number",
            (job_id, job_id),
        )
        return [(job, DecisionRow(at_s, did, gpus, read_why(said))) for job, at_s, did, gpus, said in rows]

    def events(self, job_id: str) -> list[EventRow]:
        """What happened to a job."""
        rows = self._all("SELECT time_s, job, kind, reason FROM events WHERE job = ? ORDER BY number", (job_id,))
        return [EventRow(at_s, job, kind, read_why(said)) for at_s, job, kind, said in rows]


def _gpus(decision: Decision) -> str:
    return " ".join(map(str, decision.gpus)) if isinstance(decision, Start) else ""


def _gate(decision: Decision) -> str:
    gate = decision.gate if isinstance(decision, Start | SetGate) else None
    return json.dumps(asdict(gate)) if gate else ""


def _database(path: Path | None) -> sqlite3.Connection:
    """A file that its owner alone can read, since environments are in it; or none."""
    if path is not None:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    return sqlite3.connect(path or ":memory:", isolation_level=None)
