"""Journal: every decision with its reason, written down before it is carried out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from weft.model.plan import Decision, Hold, SetGate, Start, Stop

Entry = tuple[int, float, Decision]  # cycle, time_s, decision

_ACTION = {Start: "start", Stop: "stop", SetGate: "gate", Hold: "hold"}


class Journal(Protocol):
    """Where decisions go. When `write` returns they are kept, whatever happens to the process after that."""

    def write(self, cycle: int, time_s: float, decisions: Sequence[Decision]) -> None:
        """Keep the decisions of one cycle."""
        ...


class MemoryJournal:
    """A list: all that a simulation needs."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def write(self, cycle: int, time_s: float, decisions: Sequence[Decision]) -> None:
        """Keep the decisions of one cycle."""
        self.entries.extend((cycle, time_s, decision) for decision in decisions)


def rows(entries: Iterable[Entry]) -> dict[str, list[Any]]:
    """Columns of the decision log (`results.run.DECISIONS`): `polars.DataFrame(rows(...), schema=DECISIONS)`."""
    columns: dict[str, list[Any]] = {name: [] for name in ("cycle", "time_s", "job_id", "action", "gpus", "reason")}
    for cycle, time_s, decision in entries:
        gpus = " ".join(map(str, decision.gpus)) if isinstance(decision, Start) else ""
        values = (cycle, time_s, decision.job, _ACTION[type(decision)], gpus, decision.reason)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns
