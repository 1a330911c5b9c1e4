"""pcc: every flow tries rates around its own and moves to where its utility is greater (PCC Allegro and PCC Vivace).

A trial is a slot of 10 ms at one rate; what a full link does not carry of it first fills the link's buffer, which the
sender sees as a growing delay, and is then lost. A flow begins at 5 % of line rate, doubles its rate in every slot
until its utility first falls, and keeps its rate from one iteration to the next.

Allegro decides by four trials: two pairs, each of rate x (1 + eps) and rate x (1 - eps) in random order. If both pairs
favour one side it moves there, by 1 %, 2 %, 3 %, ... of its rate, until its utility falls; else it tries again with
eps larger by 1 %, up to 5 %. Vivace has one pair of trials, of 5 % in random order, and follows the gradient of its
utility. Steps grow while it keeps moving in one direction. A step is at most 5 % of the rate; each time in a row that
this bound applies, the bound grows by 10 points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import Bools, Carried, Demand, Floats, Ints, Limits, Moment, RateRule, Transport, resized
from weft.policies.pace.tcp import BUFFER_BYTES

FIRST = 0.05  # part of the line's rate at which a flow begins
LEAST_EPS, MOST_EPS = 0.01, 0.05
MBPS = 8e-6  # megabits per second in a byte per second, the unit of Vivace's utility
STARTING, TRYING, MOVING = range(3)
ALLEGRO, VIVACE = "allegro", "vivace"


def allegro(rate: Floats, loss: Floats) -> Floats:
    """Throughput, worth nothing beyond 5 % loss, less what is lost."""
    worth: Floats = rate * (1.0 - loss) * (1.0 - 1.0 / (1.0 + np.exp(-100.0 * (loss - 0.05)))) - rate * loss
    return worth


def vivace(rate: Floats, loss: Floats, delay_growth: Floats) -> Floats:
    """x^0.9 - 900 x dRTT/dt - 11.35 x loss, with x in megabits per second."""
    x = rate * MBPS
    worth: Floats = x**0.9 - 900.0 * x * delay_growth - 11.35 * x * loss
    return worth


def amplified(steps: Floats) -> Floats:
    """By how much Vivace's gradient counts after that many steps in one direction."""
    times: Floats = np.where(steps <= 3.0, steps, 2.0 * steps - 3.0)
    return times


_FLOATS = ("rate", "last", "asked", "eps", "before", "steps", "bound")
_WHOLE = ("state", "trial", "side", "owner")


class PccRule(RateRule):
    """See the module. Its fields are arrays with a number for each flow, which grow together."""

    slot_s = 0.01

    def __init__(self, kind: str = ALLEGRO) -> None:
        self.kind, self.trials = kind, 4 if kind == ALLEGRO else 2

    def begin(self, demand: Demand) -> None:
        """No flow has a rate yet."""
        self.capacity = demand.capacity
        self.draw = np.random.Generator(np.random.Philox(key=demand.seed))
        self.rate, self.last, self.asked, self.eps, self.before, self.steps, self.bound = np.zeros((len(_FLOATS), 0))
        self.state, self.trial, self.side, self.owner = np.zeros((len(_WHOLE), 0), np.int64)
        self.tried: Bools = np.zeros(0, np.bool_)  # for the whole of a slot
        self.up: Bools = np.zeros((0, 4), np.bool_)  # which of the trials are at the higher rate
        self.seen: Floats = np.zeros((0, 4))  # their utilities

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """The rate of the trial."""
        if len(flows) != len(self.rate):
            for name in (*_FLOATS, *_WHOLE, "tried", "up", "seen"):
                setattr(self, name, resized(getattr(self, name), len(flows), -1 if name == "owner" else 0))
        new = live[(self.rate[live] == 0.0) | (self.owner[live] != flows.uid[live])]
        self.owner[new], self.state[new] = flows.uid[new], STARTING
        self.rate[new], self.last[new] = FIRST * flows.line[new], -np.inf
        sign = np.where(self.up[live, self.trial[live]], 1.0, -1.0)
        step = np.where(self.state[live] == TRYING, 1.0 + sign * self.eps[live], 1.0)
        self.asked[live] = np.minimum(self.rate[live] * step, flows.line[live])
        self.tried[live] = when.begins
        return Limits(self.asked.copy())

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:
        """A flow that waits for others, or began within the slot, learns nothing of its links."""
        tried = live[self.tried[live]]
        if not len(tried):
            return
        worth = self._worth(tried, flows, came)
        state = self.state[tried]
        self._start(tried[state == STARTING], worth[state == STARTING])
        self._move(tried[state == MOVING], worth[state == MOVING])
        trying = tried[state == TRYING]
        self.seen[trying, self.trial[trying]] = worth[state == TRYING]
        self.trial[trying] += 1
        done = trying[self.trial[trying] == self.trials]
        if len(done):
            (self._settle if self.kind == ALLEGRO else self._climb)(done)
        self.rate[tried] = np.clip(self.rate[tried], 1e-3 * flows.line[tried], flows.line[tried])

    def _worth(self, tried: Ints, flows: FlowSet, came: Carried) -> Floats:
        hops = flows.path[tried]
        full = (came.full[np.maximum(hops, 0)] & (hops >= 0)).any(axis=1)
        asked = np.maximum(self.asked[tried], 1e-9)
        beyond = np.where(full, np.clip(1.0 - flows.rate[tried] / asked, 0.0, 1.0), 0.0)
        kept = np.minimum(beyond, BUFFER_BYTES / (flows.line[tried] * self.slot_s))  # its part of the buffer
        lost = np.maximum(beyond - kept, came.loss)
        return allegro(asked, lost) if self.kind == ALLEGRO else vivace(asked, lost, kept)

    def _start(self, rows: Ints, worth: Floats) -> None:
        fell = worth < self.last[rows]
        self.rate[rows] *= np.where(fell, 0.5, 2.0)
        self.last[rows] = worth
        self.steps[rows], self.side[rows], self.bound[rows] = 0.0, 0, 0.0
        self._try(rows[fell], LEAST_EPS if self.kind == ALLEGRO else MOST_EPS)

    def _try(self, rows: Ints, eps: float | Floats) -> None:
        """Begin pairs of trials, each in random order."""
        self.state[rows], self.trial[rows], self.eps[rows] = TRYING, 0, eps
        first = self.draw.integers(2, size=(len(rows), 2)).astype(np.bool_)
        self.up[rows, 0::2], self.up[rows, 1::2] = first, ~first

    def _settle(self, rows: Ints) -> None:
        """Allegro: both pairs must agree."""
        up, seen = self.up[rows], self.seen[rows]
        higher = np.where(up[:, 0::2], seen[:, 0::2], seen[:, 1::2])
        lower = np.where(up[:, 0::2], seen[:, 1::2], seen[:, 0::2])
        votes = np.sign(higher - lower).sum(axis=1)
        agree = np.abs(votes) == 2.0
        moving, side = rows[agree], np.sign(votes[agree])
        self.side[moving], self.steps[moving], self.state[moving], self.trial[moving] = side, 1.0, MOVING, 0
        self.last[moving] = np.where(side > 0, higher[agree].mean(axis=1), lower[agree].mean(axis=1))
        self.before[moving] = self.rate[moving] * (1.0 + side * self.eps[moving])
        self.rate[moving] = self.before[moving] * (1.0 + side * LEAST_EPS)
        again = rows[~agree]
        self._try(again, np.minimum(self.eps[again] + LEAST_EPS, MOST_EPS))

    def _move(self, rows: Ints, worth: Floats) -> None:
        """Allegro: on in the same direction while it pays."""
        fell = worth < self.last[rows]
        back, on = rows[fell], rows[~fell]
        self.rate[back] = self.before[back]
        self._try(back, LEAST_EPS)
        self.last[on], self.before[on] = worth[~fell], self.rate[on]
        self.steps[on] += 1.0
        self.rate[on] *= 1.0 + self.side[on] * self.steps[on] * LEAST_EPS

    def _climb(self, rows: Ints) -> None:
        """Vivace: along the gradient."""
        up, seen = self.up[rows, 0], self.seen[rows]
        better = np.where(up, seen[:, 0] - seen[:, 1], seen[:, 1] - seen[:, 0])
        gradient = better / (2.0 * self.eps[rows] * self.rate[rows] * MBPS)
        side = np.sign(gradient).astype(np.int64)
        same = side == self.side[rows]
        self.steps[rows] = np.where(same, self.steps[rows] + 1.0, 1.0)
        wanted = np.abs(gradient) * amplified(self.steps[rows]) / MBPS
        before = np.where(same, self.bound[rows], 0.0)  # steps in a row, this way, that the bound has held back
        most = (0.05 + 0.1 * before) * self.rate[rows]
        self.bound[rows] = np.where(wanted > most, before + 1.0, 0.0)
        self.side[rows] = side
        self.rate[rows] += side * np.minimum(wanted, most)
        self._try(rows, MOST_EPS)


@dataclass(eq=False)
class Pcc(RatedPace):
    """`pcc` is Allegro, `pcc:vivace` Vivace."""

    name = "pcc"
    kind: str = setting(ALLEGRO, words=(ALLEGRO, VIVACE))

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that slow down when a rate does not pay."""
        return Transport(opened=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return PccRule(self.kind)
