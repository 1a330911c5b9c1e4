"""shortest (ours): foreign flows get what prices owe them; of the jobs the one goes first that is nearest to the end of
its communication.

Foreign flows are served first. What each of them is owed follows from an alpha-fair sharing in which a job pays for all
links on which it meets foreign flows: it takes more than a fair share where it meets one, and less where it would take
from several. Among our jobs, those that send for a smaller part of their iterations weigh more, because each of their
iterations costs others less. What is left is ours, and goes to jobs one after the other: shortest remaining iteration
first.

`shortest:patient` (patient.py) learns how long foreign flows last. A job either pushes them aside or waits for them,
whichever costs less.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import StackError
from weft.model.policy import setting
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import RateRule
from weft.policies.pace.shortest.patient import PRICE, PatientRule
from weft.policies.pace.shortest.rule import WEIGHT, ShortestRule


@dataclass(eq=False)
class Shortest(RatedPace):
    """`shortest`, or `shortest:X` for jobs that weigh as much as X foreign flows on one link. `shortest:patient`, or
    `shortest:patient=X` for another price of what others lose."""

    name = "shortest"
    weight: float = setting(WEIGHT, within="[1e-3, 1e6]")
    price: float | None = setting(None, "patient", within="[1e-3, 1e6]", usual=PRICE)

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        super().__post_init__()
        if self.price is not None and self.weight != WEIGHT:
            raise StackError(f"{self.name}: jobs that are patient have no weight; write one of the two")

    def rates(self) -> RateRule:
        """The rule of one run."""
        return ShortestRule(self.weight) if self.price is None else PatientRule(self.price)
