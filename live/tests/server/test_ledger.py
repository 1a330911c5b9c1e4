import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.model.reason import code_of, speak
from weft_live.ending import Faults
from weft_live.server.ledger import FILE, EventRow, Ledger
from weft_live.server.older import from_sentences

_SAID = (
    "exited with code 1; started again (1 of 3)", "stopped as asked; exited with code 0", "node fail; placed anew",
    "exited with code 1; started again (2 of 3)", "node fail; placed anew", "cancelled; ended by SIGTERM",
    "failed after 2 restarts: exited with code 1", "cancelled by its user or an administrator", "something else",
)  # fmt: skip
_CODES = ["live.again", "live.stopped", "live.anew", "live.again", "live.anew", "live.cancelled", "live.failed",
          "slurm.cancelled", "text"]  # fmt: skip


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A folder with a ledger as 0.1 wrote it."""
    with sqlite3.connect(tmp_path / FILE) as db:
        db.executescript("""
            CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE jobs (
                number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, submit_s REAL NOT NULL, description TEXT NOT NULL,
                cancelled INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT '', end_s REAL,
                run_s REAL NOT NULL DEFAULT 0, iterations INTEGER NOT NULL DEFAULT 0, words TEXT NOT NULL DEFAULT '');
            CREATE TABLE events (
                number INTEGER PRIMARY KEY, time_s REAL NOT NULL, job TEXT NOT NULL, kind TEXT NOT NULL,
                words TEXT NOT NULL);
            INSERT INTO meta VALUES ('version', '2');
            INSERT INTO jobs (id, submit_s, description, words, status)
            VALUES ('a', 0, '{"name": "a", "argv": ["true"]}', 'failed: exited with code 3', 'failed');
        """)
        db.executemany(
            "INSERT INTO events (time_s, job, kind, words) VALUES (1, 'a', 'stopped', ?)", [(said,) for said in _SAID]
        )
    db.close()
    return tmp_path


def test_sentences_become_reasons_that_say_the_same(older: Path) -> None:
    before = (older / FILE).read_bytes()
    ledger = Ledger(older)
    events = ledger.events("a")
    assert [code_of(event.why) for event in events] == _CODES
    assert [speak(event.why) for event in events] == list(_SAID)
    assert ledger.faults("a") == Faults(own=2, others=1)
    assert [(code_of(row.why), speak(row.why)) for row in ledger.jobs()] == [
        ("live.failed", "failed: exited with code 3")
    ]
    ledger.close()
    copy = Path(older / f"{FILE}.v2")
    assert len(copy.read_bytes()) == len(before)
    assert [row[0] for row in sqlite3.connect(copy).execute("SELECT words FROM events")] == list(_SAID)
    again = Ledger(older)
    assert [event.why for event in again.events("a")] == [event.why for event in events], "once is enough"
    again.close()


def test_who_only_reads_changes_nothing_and_a_later_version_is_refused(older: Path) -> None:
    before = (older / FILE).read_bytes()
    reader = Ledger(older, read_only=True)
    assert code_of(reader.events("a")[0].why) == "live.again"
    reader.close()
    assert (older / FILE).read_bytes() == before
    ledger = Ledger(older)
    ledger.set_meta("version", 99)
    ledger.close()
    with pytest.raises(InputError, match="another version of weft"):
        Ledger(older)


def test_a_dry_run_reads_an_older_one_and_leaves_it_as_it_is(older: Path) -> None:
    ledger = Ledger(None)
    ledger.copy_from(older)
    assert isinstance(ledger.events("a")[0], EventRow)
    assert code_of(ledger.events("a")[0].why) == "live.again"
    ledger.close()
    assert not (older / f"{FILE}.v2").exists()


def test_a_ledger_says_whether_it_is_sound(older: Path, tmp_path: Path) -> None:
    ledger = Ledger(older)
    assert ledger.check() == []
    ledger._db.execute("INSERT INTO events (time_s, job, kind, reason) VALUES (1, 'nobody', 'started', '')")
    ledger._db.execute("UPDATE jobs SET description = '{}' WHERE id = 'a'")
    assert [line.partition(":")[0] for line in ledger.check()] == ["events", "jobs"]
    ledger._db.execute("DROP TABLE decisions")
    assert ledger.check()[0].startswith("cannot be read")
    ledger.close()


def half_made(older: Path) -> None:
    """A server died before its ledger had anything in it; on a full disk it may stay so."""
    (older / FILE).write_bytes(b"")


def without_a_version(older: Path) -> None:
    """It died a moment later."""
    Ledger(older)._db.execute("DELETE FROM meta")


@pytest.mark.parametrize("made", [half_made, without_a_version])
def test_a_ledger_that_was_never_begun_is_begun(made: Callable[[Path], None], tmp_path: Path) -> None:
    made(tmp_path)
    reader = Ledger(tmp_path, read_only=True)
    assert reader.jobs() == []
    reader.close()
    ledger = Ledger(tmp_path)
    assert ledger.meta("version") == 3
    assert ledger.check() == []
    ledger.close()


def test_an_older_one_that_was_taken_over_when_its_server_died_is_not_taken_over_again(older: Path) -> None:
    """The tables and their version change together."""
    db = sqlite3.connect(older / FILE, isolation_level=None)
    from_sentences(db, 3)
    db.close()
    ledger = Ledger(older)
    assert code_of(ledger.events("a")[0].why) == "live.again"
    ledger.close()


@pytest.mark.parametrize("question", ["UPDATE core SET state = '{'", "UPDATE jobs SET description = '{'"])
def test_a_damaged_ledger_is_no_bug(question: str, older: Path) -> None:
    """A disk may lose anything: whoever reads is told so."""
    ledger = Ledger(older)
    ledger._db.execute('INSERT INTO core VALUES (1, 0, \'{"table": {"jobs": []}}\')')
    ledger._db.execute(question)
    with pytest.raises(InputError, match="cannot be read"):
        (ledger.core(), ledger.jobs())
    ledger.close()


def test_a_ledger_with_broken_pages_is_no_bug(older: Path) -> None:
    ledger = Ledger(older)
    ledger._db.executemany(
        "INSERT INTO events (time_s, job, kind, reason) VALUES (1, 'a', 'x', ?)", [("y" * 999,)] * 99
    )
    ledger.close()
    with open(older / FILE, "r+b") as file:
        file.seek(3 * 4096)
        file.write(b"\xee" * 20 * 4096)
    ledger = Ledger(older)
    with pytest.raises(InputError, match="cannot be read"):
        (ledger.events("a"), ledger.jobs())
    with pytest.raises(InputError, match="cannot be read"), ledger.together():
        ledger._db.execute("UPDATE events SET reason = 'z'")
    ledger.close()
