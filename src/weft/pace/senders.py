"""Paces that model how senders share links from event to event: equal, tcp, ccml and pcc.

`equal` opens collectives into single flows that share links fairly.

`tcp:reno`, `tcp:cubic`, `tcp:bbr`, `tcp:dctcp` and `tcp:dctcp-ecn` are fluid models of what congestion control reaches.
Among themselves flows share links fairly. What sets the variants apart is random loss, by the steady-state law of each
with an RTT of 0.2 ms and segments of 1,460 bytes. Slow start and all other transients are left out, and buffers are
assumed to be deep enough to keep a link busy.

`ccml` lets jobs that share a NIC share it unfairly, so that their communication moves apart (the paper's CCML). A host
knows only its own jobs and its NIC. The earlier a job came, the more aggressive it is: its flows have larger weights.
What a flow cannot use goes to the others.

`pcc` is PCC Allegro as a fluid model: every flow tries two rates and moves towards the one with the greater utility. A
trial takes two slots of 10 ms, one at rate x (1 + eps) and one at rate x (1 - eps). Utility is throughput
x (1 - 1 / (1 + exp(-100 (loss - 0.05)))) - rate x loss. A flow doubles its rate in every slot until its utility first
falls, and keeps its rate from one iteration to the next.
"""

from __future__ import annotations

import math
from typing import Self

import numpy as np

from weft.errors import StackError
from weft.model.flows import FlowSet
from weft.pace.base import Pace, RatedPace
from weft.pace.rates import Carried, Demand, Floats, Ints, Limits, Moment, RateRule, Transport


class Equal(Pace):
    """Rings and parameter servers as single flows that keep step, and no scheduling at all."""

    name = "equal"
    steers = True

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows, and a transport that loses nothing by packet loss but what is sent again."""
        return Transport(opened=True)


RTT_S, SEGMENT_BYTES = 2e-4, 1460.0
VARIANTS = ("cubic", "reno", "bbr", "dctcp", "dctcp-ecn")
NOT_BY_LOSS = ("bbr", "dctcp-ecn")  # they do not slow down for a packet that is lost


def loss_limit(variant: str, loss: float) -> float:
    """Bytes per second that a flow can reach when so large a share of packets is lost at random.

    Reno: MSS/RTT sqrt(3 / (2 p)). CUBIC (RFC 9438): the larger of that (its Reno-friendly region) and
    MSS/RTT x 1.054 (0.4 RTT^3 / p^3)^(1/4). DCTCP takes a loss as Reno does (RFC 8257, 3.5);
    `dctcp-ecn`, as older Linux kernels have it, shrinks its window by half the share of packets that were marked for
    every congestion, a loss too: if loss were to hold it below its link's rate nothing would be marked, and then a
    loss changes nothing. BBR v1 does not react.
    """
    if loss <= 0.0 or variant in NOT_BY_LOSS:
        return math.inf
    reno = math.sqrt(1.5 / loss)
    window = max(reno, 1.054 * (0.4 * (RTT_S / loss) ** 3) ** 0.25) if variant == "cubic" else reno
    return window * SEGMENT_BYTES / RTT_S


class Tcp(Pace):
    """`tcp` is CUBIC; `tcp:reno`, `tcp:cubic`, `tcp:bbr`, `tcp:dctcp`, `tcp:dctcp-ecn`."""

    steers = True

    def __init__(self, variant: str = "cubic") -> None:
        self.variant = variant
        self.name = f"tcp:{variant}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`tcp:VARIANT`."""
        if arg is not None and arg not in VARIANTS:
            raise StackError(f"tcp:{arg}: write tcp:X with X one of {', '.join(VARIANTS)}")
        return cls(arg or "cubic")

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows as fast as random loss lets them; BBR drains its queue for 0.2 s of every 10."""
        return Transport(
            opened=True,
            loss_limit=loss_limit(self.variant, packet_loss),
            goodput=0.98 if self.variant == "bbr" else 1.0,
        )


FINE = 840.0  # the weight of the last job of a queue: a number that up to 8 flows of a job share evenly
MOST = float(1 << 18)  # the weight of the first job of a long queue; weights are whole numbers, and their sums small


class CcmlRule(RateRule):
    """On a NIC each job weighs `unfair` times as much as the next one, whatever the number of its flows there."""

    slot_s = math.inf
    everyone = True

    def __init__(self, unfair: float = 4.0) -> None:
        self.unfair = unfair

    def begin(self, demand: Demand) -> None:
        """Nothing to remember."""

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Weights by the place of a job in the queue of its busiest NIC; one weight for all flows of a job, since they
        keep step with each other."""
        nic, uid = flows.path[live, 0].astype(np.int64), flows.uid[live]
        pairs, count = np.unique(np.stack([nic, uid], axis=1), axis=0, return_counts=True)
        first = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1) != 0)
        place = np.arange(len(pairs)) - np.repeat(first, np.diff(first, append=len(pairs)))
        jobs, of_pair = np.unique(pairs[:, 1], return_inverse=True)
        behind, beside = np.zeros(len(jobs)), np.ones(len(jobs))
        np.maximum.at(behind, of_pair, place)
        np.maximum.at(beside, of_pair, count)
        deepest = math.log(MOST / FINE) / math.log(self.unfair) if self.unfair > 1.0 else 0.0
        whole = FINE * self.unfair ** min(float(behind.max(initial=0.0)), deepest)
        by_job = np.maximum(np.rint(whole * self.unfair**-behind / beside), 1.0).astype(np.int64)
        weights = np.ones(len(flows), np.int64)
        weights[live] = by_job[np.searchsorted(jobs, uid)]
        return Limits(np.full(len(flows), math.inf), weights)


class Ccml(RatedPace):
    """`ccml`, or `ccml:X` for X times the share of the next job."""

    def __init__(self, unfair: float = 4.0) -> None:
        self.unfair = unfair
        self.name = "ccml" if unfair == 4.0 else f"ccml:{unfair:g}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`ccml` or `ccml:X`."""
        if arg is None:
            return cls()
        try:
            unfair = float(arg)
        except ValueError:
            unfair = 0.0
        if not 1.0 <= unfair <= 1e6:
            raise StackError(f"ccml:{arg}: write ccml, or ccml:X with a number X from 1 to 1000000")
        return cls(unfair)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that react to congestion; a foreign flow is as aggressive as the last job of a
        queue."""
        return Transport(opened=True, foreign_weight=int(FINE))

    def rates(self) -> RateRule:
        """The rule of one run."""
        return CcmlRule(self.unfair)


EPS, FIRST = 0.05, 0.05  # step of a trial; part of the line's rate at which a flow begins


def utility(rate: Floats, loss: Floats) -> Floats:
    """Allegro's utility: a loss of more than 5 % is not worth its throughput."""
    worth: Floats = rate * (1.0 - loss) * (1.0 - 1.0 / (1.0 + np.exp(-100.0 * (loss - 0.05)))) - rate * loss
    return worth


class PccRule(RateRule):
    """See the module."""

    slot_s = 0.01

    def begin(self, demand: Demand) -> None:
        """No flow has a rate yet."""
        self.rate, self.last, self.asked = np.zeros(0), np.zeros(0), np.zeros(0)
        self.doubling, self.tried = np.zeros(0, np.bool_), np.zeros(0, np.bool_)  # tried: for the whole of a slot
        self.owner = np.zeros(0, np.int64)  # whose rates they are

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """The rate of the trial."""
        more = len(flows) - len(self.rate)
        if more:
            self.rate, self.last, self.asked = (
                np.concatenate([a, np.zeros(more)]) for a in (self.rate, self.last, self.asked)
            )
            self.doubling = np.concatenate([self.doubling, np.ones(more, np.bool_)])
            self.tried = np.concatenate([self.tried, np.zeros(more, np.bool_)])
            self.owner = np.concatenate([self.owner, np.full(more, -1, np.int64)])
        new = live[(self.rate[live] == 0.0) | (self.owner[live] != flows.uid[live])]
        self.owner[new] = flows.uid[new]
        self.rate[new], self.doubling[new], self.last[new] = FIRST * flows.line[new], True, 0.0
        step = np.where(self.doubling[live], 1.0, 1.0 + EPS if when.slot % 2 == 0 else 1.0 - EPS)
        self.asked[live] = np.minimum(self.rate[live] * step, flows.line[live])
        self.tried[live] = when.begins
        return Limits(self.asked.copy())

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:
        """What was asked for and not carried is loss; a flow that waits for others, or began within the slot, learns
        nothing."""
        tried = live[self.tried[live]]
        hops = flows.path[tried]
        full = (came.full[np.maximum(hops, 0)] & (hops >= 0)).any(axis=1)
        asked = np.maximum(self.asked[tried], 1e-9)
        lost = np.where(full, np.clip(1.0 - flows.rate[tried] / asked, 0.0, 1.0), came.loss)
        worth = utility(asked, lost)
        starts = self.doubling[tried]
        fell = worth < self.last[tried]
        rate = self.rate[tried]
        better = np.where(worth > self.last[tried], 1.0 - EPS, 1.0 + EPS)  # the second trial is the lower one
        moved = np.where(starts, np.where(fell, rate / 2.0, rate * 2.0), rate * better if slot % 2 else rate)
        self.rate[tried] = np.clip(moved, 1e-3 * flows.line[tried], flows.line[tried])
        self.doubling[tried] = starts & ~fell
        self.last[tried] = worth


class Pcc(RatedPace):
    """`pcc`."""

    name = "pcc"

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows of senders that slow down when a rate does not pay."""
        return Transport(opened=True)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return PccRule()
