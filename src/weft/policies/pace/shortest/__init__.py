"""shortest (ours): foreign flows get what prices owe them, then the job nearest to its communication's end goes first.

Foreign flows are served first. What each of them is owed follows from an alpha-fair sharing in which a job pays for all
links on which it meets foreign flows: it takes more than a fair share where it meets one, and less where it would take
from several. Among our jobs, those that send for a smaller part of their iterations weigh more, because each of their
iterations costs others less. What is left is ours, and goes to jobs one after the other: shortest remaining iteration
first.

`shortest:patient` (patient.py) learns how long foreign flows last. A job either pushes them aside or waits for them,
whichever costs less.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Self

import numpy as np

from weft.errors import StackError
from weft.kernels import load
from weft.model.flows import FlowSet
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import NOBODY, Demand, Ints, Limits, Moment, Others, RateRule, Transport

WEIGHT = 8.0  # a job of ours weighs as much as so many foreign flows on a link
ROUNDS = 40  # in which prices are settled; where flows meet on one link the first is exact


class ShortestRule(RateRule):
    """Asked when transfers start or end, foreign ones too: between these the order does not change, since who goes
    first gets shorter."""

    slot_s = math.inf
    everyone = True
    minds_others = True

    def __init__(self, weight: float = WEIGHT) -> None:
        self.weight = weight

    def begin(self, demand: Demand) -> None:
        """Nobody else sends yet."""
        self.capacity = demand.capacity
        self.part: dict[int, float] = {}  # by a job's uid: the fraction of an iteration alone for which it sends
        self.others(NOBODY)

    @property
    def kernel(self) -> ModuleType:
        """weft.policies.pace.shortest.shortest_kernel, compiled by numba when first called."""
        return load("weft.policies.pace.shortest.shortest_kernel")

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """What a job computes and sends in an iteration is known from its profile."""
        busy: dict[int, float] = {}
        for row in rows[flows.size[rows] > 0.0].tolist():
            for link in flows.path[row].tolist():
                if link >= 0:
                    busy[link] = busy.get(link, 0.0) + float(flows.size[row] / self.capacity[link])
        if busy:
            uid, sends_s, compute_s = int(flows.uid[rows[0]]), max(busy.values()), float(flows.compute_s[rows].max())
            self.part[uid] = sends_s / (sends_s + compute_s)

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """Forget it."""
        for uid in set(flows.uid[rows].tolist()):
            self.part.pop(uid, None)

    def others(self, there: Others) -> None:
        """Remember them."""
        self.there = there

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Caps, job by job, on what each link has left when others have had what they are owed."""
        uids, job = np.unique(flows.uid[live], return_inverse=True)
        part = np.array([self.part.get(uid, 1.0) for uid in uids.tolist()])
        weights, caps = self.weight * (part.mean() if len(part) else 1.0) / part, np.zeros(len(flows))
        self.kernel.decide(
            live, job, flows.path, flows.size - flows.sent, self.capacity, self.there.path, self.there.most, weights,
            ROUNDS, caps,
        )  # fmt: skip
        return Limits(caps)


class Shortest(RatedPace):
    """`shortest`, or `shortest:X` for jobs that weigh as much as X foreign flows on one link. `shortest:patient`, or
    `shortest:patient=X` for another price of what others lose."""

    def __init__(self, weight: float = WEIGHT, price: float | None = None) -> None:
        from weft.policies.pace.shortest.patient import PRICE

        self.weight, self.price = weight, price
        if price is not None:
            self.name = "shortest:patient" if price == PRICE else f"shortest:patient={price:g}"
        else:
            self.name = "shortest" if weight == WEIGHT else f"shortest:{weight:g}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`shortest`, `shortest:X`, `shortest:patient` or `shortest:patient=X`."""
        from weft.policies.pace.shortest.patient import PRICE

        if arg is None or arg == "patient":
            return cls(price=None if arg is None else PRICE)
        number = arg.removeprefix("patient=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not 1e-3 <= value <= 1e6:
            raise StackError(
                f"shortest:{arg}: write shortest, shortest:X, shortest:patient, or shortest:patient=X, with a number X "
                "from 0.001 to 1000000"
            )
        return cls(value) if number == arg else cls(price=value)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows whose senders keep the rate they were given: it leaves others what they are owed."""
        return Transport(opened=True, reacts=False)

    def rates(self) -> RateRule:
        """The rule of one run."""
        from weft.policies.pace.shortest.patient import PatientRule

        return ShortestRule(self.weight) if self.price is None else PatientRule(self.price)
