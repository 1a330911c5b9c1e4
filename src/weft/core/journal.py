"""Journal: every decision with its reason, written down before it is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from weft.model.plan import Decision, Hold, SetGate, SetRoutes, Start, Stop
from weft.model.reason import written

Entry = tuple[int, float, Decision]  # cycle, time_s, decision

_ACTION = {Start: "start", Stop: "stop", SetGate: "gate", SetRoutes: "route", Hold: "hold"}


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


def rows(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """Columns of the decision log (`results.run.DECISIONS`): `polars.DataFrame(rows(...), schema=DECISIONS)`."""
    decisions = [decision for _, _, decision in entries]
    return {
        "cycle": [cycle for cycle, _, _ in entries],
        "time_s": [time_s for _, time_s, _ in entries],
        "job_id": [decision.job for decision in decisions],
        "action": [_ACTION[type(decision)] for decision in decisions],
        "gpus": [" ".join(map(str, d.gpus)) if isinstance(d, Start) else "" for d in decisions],
        "reason": [written(decision.reason) for decision in decisions],
    }
