"""SwitchTable: what a switch expects on its outgoing links over the next K slots (section IV-A of the paper).

Flows post schedules; a schedule posted again replaces the old one; a slot that has passed expires. A switch knows
nothing else: neither jobs nor dependencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt


class SwitchTable:
    """The table of one switch (or of one host for its own NIC). Rates in bytes per second."""

    def __init__(self, links: Iterable[int], slots: int = 10) -> None:
        self.slots = slots
        self.now = 0  # the slot that column 0 of an answer stands for
        self._row = {link: i for i, link in enumerate(links)}
        self._load = np.zeros((len(self._row), slots))
        self._posted: dict[tuple[int, int], npt.NDArray[np.float64]] = {}  # (flow, link): what it holds of it

    def load(self, link: int, of: Iterable[int] | None = None) -> list[float]:
        """The answer to a host that asks: planned load of the link in this slot and the next K - 1, or that of some
        flows alone."""
        row = self._load[self._row[link]]
        if of is not None:
            nothing = np.zeros(self.slots)
            row = sum((self._posted.get((flow, link), nothing) for flow in of), nothing)
        return [float(row[(self.now + t) % self.slots]) for t in range(self.slots)]

    def post(self, flow: int, link: int, slot: int, rates: Sequence[float]) -> None:
        """Add a flow's schedule from `slot` on, or replace the one that is there; what is past or beyond is dropped."""
        held = self._posted.setdefault((flow, link), np.zeros(self.slots))
        row = self._load[self._row[link]]
        for t, rate in enumerate(rates, start=slot):
            if self.now <= t < self.now + self.slots:
                row[t % self.slots] += rate - held[t % self.slots]
                held[t % self.slots] = rate

    def withdraw(self, flow: int, link: int) -> None:
        """Forget a flow that has ended."""
        held = self._posted.pop((flow, link), None)
        if held is not None:
            self._load[self._row[link]] -= held

    def advance(self, slot: int) -> None:
        """Slots before `slot` have passed; a flow that has posted nothing for all K is forgotten."""
        for past in range(self.now, min(slot, self.now + self.slots)):
            column = past % self.slots
            self._load[:, column] = 0.0
            for held in self._posted.values():
                held[column] = 0.0
        self.now = max(slot, self.now)
        self._posted = {key: held for key, held in self._posted.items() if held.any()}
