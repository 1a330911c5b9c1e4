"""Ledgers of 0.1, in which reasons are sentences: those that weft has to understand become reasons."""

from __future__ import annotations

import re
import sqlite3

from weft.model.reason import Why, because, written

_CANCELLED = {
    "cancelled": "live.cancelled",
    "cancelled while it waited": "live.cancelled-waiting",
    "cancelled by its user or an administrator": "slurm.cancelled",
    "cancelled: Slurm no longer knows it": "slurm.vanished",
}


def from_sentences(db: sqlite3.Connection, version: int) -> None:
    """Take the tables over: with the version that they then have, or not at all."""
    db.execute("BEGIN")
    for table in ("jobs", "events"):
        db.execute(f"ALTER TABLE {table} RENAME COLUMN words TO reason")
        rows = db.execute(f"SELECT number, reason FROM {table} WHERE reason != ''").fetchall()
        db.executemany(f"UPDATE {table} SET reason = ? WHERE number = ?", [(written(read(t)), n) for n, t in rows])
    db.execute("UPDATE meta SET value = ? WHERE key = 'version'", (str(version),))
    db.execute("COMMIT")


def read(sentence: str) -> Why:
    """A sentence of 0.1 as a reason; a plain text if nobody has to understand it."""
    if again := re.fullmatch(r"(.*); started again \((\d+) of (\d+)\)", sentence, re.DOTALL):
        return because("live.again", how=again[1], nth=int(again[2]), allowed=int(again[3]), row=0)
    if anew := re.fullmatch(r"(.*); placed anew", sentence, re.DOTALL):
        return because("live.anew", how=anew[1], row=0)
    if failed := re.fullmatch(r"failed(?: after (\d+) restarts?)?: (.*)", sentence, re.DOTALL):
        return because("live.failed", how=failed[2], restarts=int(failed[1] or 0))
    if sentence in _CANCELLED:
        return because(_CANCELLED[sentence])
    for code, words in (("live.cancelled", "cancelled; "), ("live.stopped", "stopped as asked; ")):
        if sentence.startswith(words):
            return because(code, how=sentence.removeprefix(words))
    return because("live.stopped") if sentence == "stopped as asked" else sentence
