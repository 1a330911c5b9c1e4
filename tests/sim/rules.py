"""Rules for tests: what they answer depends on slots, rows and a seed, so that both engines get the same answers."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from weft.model.flows import FlowSet
from weft.policies.pace.rates import Demand, Ints, Limits, Moment, RateRule


class Nothing(RateRule):
    """Caps nothing, again and again."""

    def __init__(self, slot_s: float = 0.25, everyone: bool = False) -> None:
        self.slot_s, self.everyone = slot_s, everyone

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """No limit at all."""
        return Limits(np.full(len(flows), math.inf))


class Drawn(RateRule):
    """Caps that are drawn anew in every slot, some of them 0 or none; weights and levels too if it is told to.

    Every third slot limits nothing, so that whatever waits comes to its end.
    """

    def __init__(self, seed: int, slot_s: float, everyone: bool, ranks: bool) -> None:
        self.seed, self.slot_s, self.everyone, self.ranks = seed, slot_s, everyone, ranks

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """By (seed, slot, row), and by job for weights and levels."""
        caps = np.full(len(flows), math.inf)
        slot = when.slot
        if slot % 3:
            for row in live.tolist():
                pick = (self.seed + 7 * slot + 13 * int(flows.uid[row]) + 3 * row) % 6
                caps[row] = (0.0, 0.25, 0.7, 1.0, 1.9, math.inf)[pick]
        if not self.ranks:
            return Limits(caps)
        by_job = flows.uid + self.seed + slot
        return Limits(caps, weights=(by_job % 4 + 1).astype(np.int64), levels=(by_job // 2 % 3).astype(np.int64))


class Told(RateRule):
    """What each job may have in each slot, by its uid: (cap, weight, level); the last slot told goes on for ever."""

    def __init__(self, slots: Sequence[Mapping[int, tuple[float, int, int]]], slot_s: float = 1.0) -> None:
        self.slots, self.slot_s = slots, slot_s

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """By the table."""
        table = self.slots[min(when.slot, len(self.slots) - 1)]
        caps = np.full(len(flows), math.inf)
        weights, levels = np.ones(len(flows), np.int64), np.zeros(len(flows), np.int64)
        for row in live.tolist():
            caps[row], weights[row], levels[row] = table.get(int(flows.uid[row]), (math.inf, 1, 0))
        return Limits(caps, weights, levels)
