import polars as pl

from weft.core.journal import MemoryJournal, rows
from weft.model import Gate, Hold, SetGate, Start, Stop
from weft.results.run import DECISIONS


def test_rows_fit_the_schema_of_the_decision_log() -> None:
    journal = MemoryJournal()
    journal.write(1, 0.5, [Start("a", (3, 4), "first"), Hold("b", "no room")])
    journal.write(2, 1.5, [SetGate("a", Gate(0.0), "shift"), Stop("a", "gives way")])
    frame = pl.DataFrame(rows(journal.entries), schema=DECISIONS)
    assert frame.rows() == [
        (1, 0.5, "a", "start", "3 4", "first"),
        (1, 0.5, "b", "hold", "", "no room"),
        (2, 1.5, "a", "gate", "", "shift"),
        (2, 1.5, "a", "stop", "", "gives way"),
    ]


def test_an_empty_journal_is_an_empty_frame() -> None:
    assert pl.DataFrame(rows([]), schema=DECISIONS).shape == (0, 6)
