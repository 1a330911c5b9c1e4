"""Answers that were given about starts, and what came: kept beside the ledger, so that their accuracy can be shown."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from weft.advise.spread import Past
from weft.errors import InputError
from weft_live.ahead import Forecast
from weft_live.server.folders import refuse_to_read

FILE = "answers.sqlite"
APART_S, KEPT_S = 600.0, 90 * 86_400.0
_TABLES = """
CREATE TABLE IF NOT EXISTS answers (
    asked REAL NOT NULL, job TEXT NOT NULL, low REAL, middle REAL, high REAL, started REAL);
CREATE INDEX IF NOT EXISTS answers_job ON answers (job);
CREATE TABLE IF NOT EXISTS past (
    job TEXT PRIMARY KEY, user TEXT, gpus INTEGER, submit REAL, claim REAL, took REAL, ended REAL);
"""


class Answers:
    """The file, by wall time. `past` is what was seen of jobs where no accounting tells it."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        if read_only:
            refuse_to_read(folder, FILE)
        else:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self._db = sqlite3.connect(folder / FILE, timeout=5.0)
            self._db.executescript(_TABLES)
        except sqlite3.Error as error:
            raise InputError(
                f"{folder / FILE}: answers cannot be kept ({error}); name a folder of your own with --dir"
            ) from None

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def give(self, asked_s: float, answers: Sequence[Forecast]) -> None:
        """Answers given at a moment. Of those about one job within ten minutes the first counts: they are nearly the
        same. What is older than three months goes."""
        question = "SELECT DISTINCT job FROM answers WHERE asked > ?"
        lately = {job for (job,) in self._db.execute(question, (asked_s - APART_S,))}
        rows = [
            (asked_s, one.job, *(asked_s + s for s in (one.starts_in.low, one.starts_in.middle, one.starts_in.high)))
            for one in answers
            if one.job not in lately
        ]
        with self._db:
            self._db.execute("DELETE FROM answers WHERE asked < ?", (asked_s - KEPT_S,))
            self._db.executemany("INSERT INTO answers (asked, job, low, middle, high) VALUES (?, ?, ?, ?, ?)", rows)

    def open(self) -> list[str]:
        """Jobs of answers of which nobody knows yet what came."""
        return [job for (job,) in self._db.execute("SELECT DISTINCT job FROM answers WHERE started IS NULL")]

    def started(self, starts: Mapping[str, float]) -> None:
        """When jobs did start."""
        rows = [(at_s, job, at_s) for job, at_s in starts.items()]
        with self._db:
            self._db.executemany(
                "UPDATE answers SET started = ? WHERE job = ? AND started IS NULL AND asked <= ?", rows
            )

    def saw(self, ended: Mapping[str, tuple[Past, float]]) -> None:
        """Jobs that have ended, each with when."""
        rows = [(job, p.user, p.gpus, p.submit_s, p.claim_s, p.took_s, at_s) for job, (p, at_s) in ended.items()]
        with self._db:
            self._db.executemany("INSERT OR REPLACE INTO past VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def past(self, most: int) -> list[Past]:
        """Jobs that were seen to have ended, in the order of their ends."""
        with closing(
            self._db.execute("SELECT user, gpus, submit, claim, took FROM past ORDER BY ended DESC LIMIT ?", (most,))
        ) as rows:
            return [Past(*row) for row in rows][::-1]

    def accuracy(self) -> dict[str, Any]:
        """How answers have come true."""
        rows = self._db.execute("SELECT asked, low, middle, high, started FROM answers").fetchall()
        known = [row for row in rows if row[4] is not None]
        if not known:
            return {"answers": len(rows), "known": 0}
        return {
            "answers": len(rows), "known": len(known),
            "inside": sum(low <= at <= high for _, low, _, high, at in known) / len(known),
            "earlier": sum(at < low for _, low, _, _, at in known) / len(known),
            "later": sum(at > high for _, _, _, high, at in known) / len(known),
            "median_error_s": median(abs(at - middle) for _, _, middle, _, at in known),
            "median_wait_s": median(at - asked for asked, _, _, _, at in known),
        }  # fmt: skip
