"""tcp: what congestion control makes of links with finite buffers; fair-flows: single flows, fairly shared.

`tcp:cubic`, `tcp:reno`, `tcp:dctcp`, `tcp:dctcp-ecn` and `tcp:bbr` are fluid models: every flow has a window, which
grows by slow start and then by a part of a segment every round trip; flows that queue at one link have rates in
proportion to their windows; a queue that outgrows its buffer costs all of them part of their windows (DCTCP marks
packets before that). `tcp:ideal` is what such models converge to: flows share links fairly, and only random loss sets
variants apart (`tcp:ideal-reno`, ...). docs/baselines/tcp.md has the equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from weft.errors import StackError
from weft.kernels import load
from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.base import Pace
from weft.policies.pace.rates import Carried, Demand, Floats, Ints, Limits, Moment, RateRule, Transport, resized

RTT_S, SEGMENT_BYTES = 2e-4, 1460.0  # a round trip through an empty network (rtt=), and a packet's payload
BUFFER_BYTES = 1e6  # at a switch's port
MARK_S = 7.6e-5  # a longer queue marks DCTCP's packets: 65 packets at 10 Gbit/s
FIRST_WINDOW = 10 * SEGMENT_BYTES
IDLE_S = 0.2  # the retransmission timeout, after which a window starts anew
VARIANTS = ("cubic", "reno", "bbr", "dctcp", "dctcp-ecn")
NOT_BY_LOSS = ("bbr", "dctcp-ecn")  # they do not slow down for a packet that is lost


class Equal(Pace):
    """Rings and parameter servers as single flows that keep step, and no scheduling at all."""

    name = "fair-flows"
    steers = True

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows, and a transport that loses nothing by packet loss but what is sent again."""
        return Transport(opened=True)


def loss_limit(variant: str, loss: float, rtt_s: float = RTT_S) -> float:
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
    window = max(reno, 1.054 * (0.4 * (rtt_s / loss) ** 3) ** 0.25) if variant == "cubic" else reno
    return window * SEGMENT_BYTES / rtt_s


@dataclass(frozen=True)
class Congestion:
    """A variant: the part of a window that a loss leaves, segments that a window gains in a round trip below its last
    peak and above, and whether it shrinks as far as marks ask for (`smooth`) or has no window to speak of (`even`)."""

    keeps: float = 0.5
    gains: float = 1.0
    gains_above: float = 1.0
    smooth: bool = False
    even: bool = False


CONTROLS = {
    "cubic": Congestion(0.7, 3.0 * 0.3 / 1.7),  # RFC 9438: its Reno-friendly region, 4.3; above the last peak as Reno
    "reno": Congestion(),
    "dctcp": Congestion(smooth=True),
    "dctcp-ecn": Congestion(smooth=True),
    "bbr": Congestion(even=True),
}


class TcpRule(RateRule):
    """Windows by flow; they are looked at every 10 ms, fifty round trips of the usual length."""

    slot_s = 0.01

    def __init__(self, variant: str = "cubic", buffer_bytes: float = BUFFER_BYTES, rtt_s: float = RTT_S) -> None:
        self.control, self.buffer_bytes, self.rtt_s = CONTROLS[variant], buffer_bytes, rtt_s

    def begin(self, demand: Demand) -> None:
        """No flow has a window yet."""
        self.capacity = demand.capacity
        marks = self.control.smooth
        self.room: Floats = demand.capacity * MARK_S if marks else np.full(len(demand.capacity), self.buffer_bytes)
        self.available = demand.capacity.copy()  # what foreign traffic left of each link
        self.window, self.threshold, self.rate, self.top, self.lost, self.after = np.zeros((6, 0))
        self.held, self.owner, self.ended = np.zeros((3, 0), np.int64)  # ended: in which slot, -1 while it sends
        self._slot = 0

    @property
    def kernel(self) -> ModuleType:
        """weft.policies.pace.tcp.tcp_kernel, compiled by numba when first called."""
        return load("weft.policies.pace.tcp.tcp_kernel")

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Rates that the windows come to, less what slow start and the losses of this slot cost."""
        if len(flows) != len(self.window):
            for name in ("window", "threshold", "rate", "top", "lost", "after", "held", "owner", "ended"):
                setattr(self, name, resized(getattr(self, name), len(flows), -1 if name == "owner" else 0))
        self._slot, rows = when.slot, np.flatnonzero(flows.active)
        fresh = self._start(flows, live, rows)
        self._share(flows, rows)
        if when.begins and not self.control.even:
            for _ in range(8):  # a loss in each of the next round trips, until the queue has room
                if not self.kernel.cut(
                    rows, self.window, self.threshold, self.held, self.rtt_s, self.available, self.room,
                    self.control.keeps, self.control.smooth, self.top, self.lost,
                ):  # fmt: skip
                    break
                self._share(flows, rows)
            if not self.control.smooth:
                self._saw(flows, rows)
        caps = self.rate.copy()
        lasts = max(when.part, 1e-9) * self.slot_s
        caps[fresh] -= missed_bytes(caps[fresh], self.rtt_s) / lasts
        caps[rows] = np.maximum(caps[rows] - self.lost[rows] / lasts, 0.1 * self.rate[rows])
        self.lost[rows] = 0.0
        return Limits(caps)

    def _share(self, flows: FlowSet, rows: Ints) -> None:
        self.kernel.shares(rows, flows.path, self.window, self.rtt_s, self.available, self.rate, self.held)
        alone = rows[(flows.path[rows, 1:] < 0).all(axis=1)]  # whatever its window, one NIC is all that it crosses
        self.rate[alone] = flows.line[alone]

    def _saw(self, flows: FlowSet, rows: Ints) -> None:
        """Where a loss lets a link idle, follow the windows through the slot, loss by loss."""
        self.after[rows] = 0.0
        self.kernel.saws(
            rows, flows.path, self.window, self.rtt_s, self.available, self.room, self.control.keeps,
            self.control.gains * SEGMENT_BYTES, self.slot_s, self.rate, self.after, self.top, self.threshold,
        )  # fmt: skip

    def _start(self, flows: FlowSet, live: Ints, rows: Ints) -> Ints:
        """Give windows to flows that begin; returns those that begin with a slow start, which is over within a slot.

        After an idle time window and threshold are as in Linux: the threshold is what it was, or three quarters of the
        window, if that is more.
        """
        new: Ints = live[(self.ended[live] >= 0) | (self.owner[live] != flows.uid[live])]
        if not len(new):
            return new
        other = self.owner[new] != flows.uid[new]
        fresh: Ints = new[other | ((self._slot - self.ended[new]) * self.slot_s >= IDLE_S)]
        seen = self.owner[fresh] == flows.uid[fresh]
        self.threshold[fresh] = np.where(seen, np.maximum(self.threshold[fresh], 0.75 * self.window[fresh]), math.inf)
        self.owner[new], self.ended[new] = flows.uid[new], -1
        if self.control.even:
            self.window[new] = 2.0 * flows.line[new] * self.rtt_s
        else:
            self.kernel.start(
                fresh, rows, flows.path, self.window, self.threshold[fresh], self.rtt_s, self.available, self.room,
                FIRST_WINDOW,
            )  # fmt: skip
        self.top[fresh] = self.window[fresh]
        return fresh

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:
        """Windows grow where they were what held a flow back, or a queue in the network did; a window of which less
        than half is used shrinks to twice what is used."""
        self.available = np.where(came.full & (came.link > 0.0), came.link, self.capacity)
        if self.control.even:
            return
        hops = flows.path[live, 1:]
        queued = (came.full[np.maximum(hops, 0)] & (hops >= 0)).any(axis=1)
        used = flows.rate[live] / np.maximum(self.rate[live], 1e-9)
        idle = live[~queued & (used < 0.5)]
        self.window[idle] = np.maximum(self.window[idle] * 2.0 * used[~queued & (used < 0.5)], FIRST_WINDOW)
        sawn = self.after[live] > 0.0
        kept = live[sawn & (queued | (used >= 0.5))]
        self.window[kept] = self.after[kept]
        growing = live[(queued | (used >= 0.9)) & ~sawn]
        self.after[live] = 0.0
        most = 2.0 * (flows.line * self.rtt_s + self.buffer_bytes)
        self.kernel.grow(
            growing, self.window, self.rate, self.slot_s, self.rtt_s, most,
            self.control.gains * SEGMENT_BYTES, self.control.gains_above * SEGMENT_BYTES, self.top,
        )  # fmt: skip

    def over(self, rows: Ints, flows: FlowSet) -> None:
        """Remember when a flow ended."""
        self.ended[rows[rows < len(self.ended)]] = self._slot


def missed_bytes(rate: Floats, rtt_s: float = RTT_S) -> Floats:
    """What a flow that ends up at this rate sends less because its window has to double up to it from ten segments:
    over k = log2(rate RTT / 10 segments) round trips it sends (2^k - 1) x 10 segments and not k x rate x RTT."""
    pipe = rate * rtt_s
    trips = np.log2(np.maximum(pipe / FIRST_WINDOW, 1.0))
    missed: Floats = trips * pipe - (pipe - np.minimum(FIRST_WINDOW, pipe))
    return missed


# how each is written, ideal-cubic as ideal
_KINDS = {kind: kind for kind in (*VARIANTS, "ideal", *(f"ideal-{v}" for v in VARIANTS))} | {"ideal-cubic": "ideal"}
_BBR_GOODPUT = 0.98  # it drains its queue for 0.2 s of every 10


@dataclass(eq=False)
class Tcp(Pace):
    """`tcp` is CUBIC; `tcp:reno`, `tcp:cubic`, `tcp:bbr`, `tcp:dctcp`, `tcp:dctcp-ecn`; `tcp:ideal` shares fairly."""

    steers = True
    natural = True

    name = "tcp"
    kind: str = setting("cubic", words=_KINDS, shown=True)
    buffer_bytes: float = setting(BUFFER_BYTES, "buffer", within="[0, 999999999]", unit="kB", whole=True)
    goodput: float = setting(1.0, "goodput", within="[1, 100]", unit="%", whole=True)
    rtt_s: float = setting(RTT_S, "rtt", within="[0.001, 10000]", unit="ms")

    def __post_init__(self) -> None:
        """Refuse settings that such senders do not have."""
        super().__post_init__()
        self.ideal = self.kind.startswith("ideal")
        self.variant = "cubic" if self.kind == "ideal" else self.kind.removeprefix("ideal-")
        if self.ideal and (self.goodput != 1.0 or self.buffer_bytes != BUFFER_BYTES):
            raise StackError(f"{self.name}: tcp:ideal has no buffer and no goodput to set; write tcp:{self.kind}")
        control = CONTROLS[self.variant]
        if self.buffer_bytes != BUFFER_BYTES and (control.even or control.smooth):
            raise StackError(
                f"{self.name}: {self.variant} loses nothing to a full buffer here; only cubic and reno take buffer="
            )

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows as fast as random loss lets them; of what they send a part counts, where that was measured."""
        return Transport(
            opened=True,
            loss_limit=loss_limit(self.variant, packet_loss, self.rtt_s),
            goodput=self.goodput * (_BBR_GOODPUT if self.variant == "bbr" else 1.0),
        )

    def rates(self) -> RateRule | None:
        """The rule of one run; ideal ones need none."""
        return None if self.ideal else TcpRule(self.variant, self.buffer_bytes, self.rtt_s)
