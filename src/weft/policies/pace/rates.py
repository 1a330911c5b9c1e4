"""RateRule: a pace that says what every transfer may have: how fast at most, with what weight, on which level.

A rule sees flows, links and what became of its earlier answers; it knows no clock and no network. The engine asks it at
the start of every slot, and at once when transfers start (or end, if the rule wants to know). Between these moments the
network shares max-min under the answers: a flow under its cap has what it asks for, and what it leaves is free at once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
import numpy.typing as npt

from weft.model.flows import FlowRows, FlowSet, flow_set

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind = TypeVar("Kind", bound=np.generic)

CLAIM = 1000  # weight of our flows where foreign ones have less: fine enough for a percent
MOST_RANK = 1 << 20  # the largest weight, and the last level, that a rule may give


@dataclass(frozen=True)
class Transport:
    """How a pace's transfers go over the network, whatever rates they have."""

    opened: bool = False  # rings and parameter servers are single flows that keep step, not lock-step groups
    start_after: bool = False  # opened: a broadcast waits for all of its pushes instead of following them
    reacts: bool = True  # senders slow down for loss: foreign TCP beside them has its fair share, else what they leave
    loss_limit: float = math.inf  # bytes per second that random loss leaves a flow
    goodput: float = 1.0  # part of what is sent that counts, random losses aside
    claim: int = 1  # weight of our flows, where a rule does not give them others
    foreign_weight: int = 1  # what a foreign flow weighs where ours have weights

    @classmethod
    def leaving(cls, part: float, start_after: bool = False) -> Self:
        """Single flows that leave a foreign flow beside one of them this part of its half, by weights. If none of it, a
        foreign flow has what their rates leave; all of it is left by senders that react to loss."""
        claim, theirs = (1, 1) if part in (0.0, 1.0) else (CLAIM, max(round(CLAIM * part / (2.0 - part)), 1))
        return cls(opened=True, start_after=start_after, reacts=part > 0.0, claim=claim, foreign_weight=theirs)


@dataclass(frozen=True)
class Moment:
    """When a rule is asked: in which slot, how much of it is still to come, whether it has just begun, and the time."""

    slot: int
    part: float = 1.0
    begins: bool = True
    now_s: float = 0.0


@dataclass(frozen=True)
class Others:
    """The foreign flows that are under way: links of each, then -1, the most that it asks for, and since when it has
    been there; and for how long those were there that have ended since the rule was last told."""

    path: Ints
    most: Floats
    since_s: Floats
    lasted_s: Floats


NOBODY = Others(np.zeros((0, 1), np.int64), np.zeros(0), np.zeros(0), np.zeros(0))


@dataclass(frozen=True)
class Carried:
    """What a slot came to, by link: bytes per second of our flows, and whether it kept some from their caps.

    `loss` is the share of packets that are lost at random, which a sender notices.
    """

    link: Floats
    full: Bools
    loss: float = 0.0


@dataclass(frozen=True)
class Demand:
    """How a run begins: capacity of every link, the seed of what is drawn, and random loss."""

    capacity: Floats
    seed: int = 0
    loss: float = 0.0


@dataclass(frozen=True)
class Limits:
    """What transfers may have, by row: bytes per second at most, weights and levels.

    Caps are 0 or more. Weights are whole numbers from 1 to MOST_RANK; without any all have 1. Levels are whole numbers
    from 0, which is served first, to MOST_RANK; without any all have 0.
    Flows that keep step with each other must have the same weight and level.
    """

    caps: Floats
    weights: Ints | None = None
    levels: Ints | None = None


def resized(array: npt.NDArray[Kind], n: int, fill: int = 0) -> npt.NDArray[Kind]:
    """What a rule keeps of each row, for n rows; what is new is `fill`."""
    more = np.full((max(n - len(array), 0), *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array[:n], more])


class RateRule(ABC):
    """Limits for the transfers of one run; it may remember."""

    slot_s: float = 0.06  # infinite: it is asked only when transfers start or end
    everyone: bool = (
        False  # it is asked about all transfers when one starts or ends, not only about jobs that start one
    )

    minds_others: bool = False  # it is told of foreign flows, and asked about all transfers when one starts or ends
    moves: bool = False  # keeps nothing by path: the paths of jobs that run may change
    again_s: float = math.inf  # without slots: it is asked again so long after it has decided
    waiting: int = 0  # jobs that wait for GPUs, where the world says so

    @abstractmethod
    def begin(self, demand: Demand) -> None:
        """Start a run; called once, before anything else."""

    @abstractmethod
    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Limits of the flows in rows `live` from now on. At the start of a slot these are all flows with bytes left;
        when some start within a slot, all flows of their jobs."""

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:  # noqa: B027 - most need nothing
        """What a slot has carried, told before the next is decided; `flows.rate` and `flows.sent` are up to date."""

    def over(self, rows: Ints, flows: FlowSet) -> None:  # noqa: B027 - most need nothing
        """These flows have ended: all their bytes are sent, or their job is gone."""

    def others(self, there: Others) -> None:  # noqa: B027 - most need nothing
        """The foreign flows that are under way from now on. A rule that is never told (agents know nothing of others)
        assumes that there are none."""

    def came(self, rows: Ints, flows: FlowSet) -> None:  # noqa: B027 - most need nothing
        """A job has been given GPUs, and these rows."""

    def gone(self, rows: Ints, flows: FlowSet) -> None:  # noqa: B027 - most need nothing
        """The job whose rows these were is gone: finished, or stopped."""


def rehearse(rule: RateRule) -> None:
    """Ask a rule about one transfer over one link for two slots, so that all that it calls is compiled. The rule is of
    no use afterwards."""
    capacity, live = np.full(1, 1e9), np.zeros(1, np.int64)
    flows = flow_set(64, 1)
    flows.put(0, 0, FlowRows(((0,),), (1e6,), (1e6,), ((0, 0),), ((0, 0),), 0.1), capacity)
    flows.active[0], flows.rate[0] = True, 1e9  # it sends as fast as the link can
    rule.begin(Demand(capacity))
    rule.came(live, flows)
    for slot in range(2):
        if rule.minds_others:  # in the second slot it knows how long a hundred others have lasted
            rule.others(Others(np.zeros((1, 1), np.int64), np.full(1, math.inf), np.zeros(1), np.ones(100 * slot)))
        rule.decide(Moment(slot), flows, live)
        rule.carried(slot, flows, live, Carried(np.zeros(1), np.zeros(1, np.bool_)))
    rule.over(live, flows)
    rule.gone(live, flows)
