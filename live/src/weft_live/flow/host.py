"""HostScheduler: the scheduler of one server (section IV-C of the paper), fed slot by slot with what it may know.

It knows its own flows, what its peers told it (how far they are and what they plan for now), and the load vectors that
switches on its paths answered. It returns a rate and a schedule to post for each of its flows. It has no clock, no
network and no sockets: a daemon that paces real sockets and a test that plays a data centre call the same object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft_live.flow.plan import ENOUGH, adjusted, allowance, path_state, plan

WINDOW = 4  # slots over which the best rate of a flow, and the load of a link, are remembered


@dataclass(frozen=True)
class OwnFlow:
    """A flow that this host sends: what is fixed while it lasts. `line` is the rate of its slowest known link."""

    id: int
    size_bytes: float
    chunk_bytes: float
    path: tuple[int, ...]  # its own NIC first
    line_bytes_per_s: float
    feeders: tuple[int, ...] = ()  # flows that bring what it sends on
    followers: tuple[int, ...] = ()  # flows that send on what it brings


@dataclass(frozen=True)
class Answer:
    """What is known of a link: everybody's planned load by slot, and the bandwidth that is ours to plan with.

    `mates` is how many other flows of the asking flow's job have bytes left for it, `mates_load` what of the load is
    theirs: the hosts of a job know its placement and tell each other their schedules.
    """

    load: Sequence[float]
    available: float
    mates: int = 0
    mates_load: Sequence[float] = ()


@dataclass(frozen=True)
class Peers:
    """What peers told, by flow: bytes sent in this iteration, and the rate planned for this slot.

    A flow that begins in this slot and has told nothing yet is in neither; it holds nobody back.
    """

    sent: Mapping[int, float]
    planned: Mapping[int, float]

    def reach(self, flows: Sequence[int], slot_s: float, part: float) -> list[float]:
        """F of those that told: what each will have sent by the end of this slot, of which `part` is left, over the
        length of a slot."""
        return [self.sent[j] / slot_s + part * self.planned[j] for j in flows if j in self.planned]


@dataclass(frozen=True)
class Schedule:
    """A message to the switches on a flow's path: its rates from this slot on. The first is the rate to send at now."""

    flow: int
    slot: int
    rates: tuple[float, ...]


@dataclass
class _Known:
    """One of its own flows, as it stands."""

    flow: OwnFlow
    sent_bytes: float = 0.0
    rates: list[float] = field(default_factory=list)  # posted, from this slot on
    reached: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))


class HostScheduler:
    """See the module; `slots` is the horizon K."""

    def __init__(self, slot_s: float = 0.06, slots: int = 10) -> None:
        self.slot_s, self.slots = slot_s, slots
        self._flows: dict[int, _Known] = {}

    def begin(self, flow: OwnFlow) -> None:
        """A flow of this host has bytes to send."""
        self._flows[flow.id] = _Known(flow, rates=[0.0] * self.slots)

    def end(self, flow: int) -> None:
        """All of its bytes are sent, or its job is gone."""
        self._flows.pop(flow, None)

    def carried(self, flow: int, sent_bytes: float, rate_bytes_per_s: float) -> None:
        """What the slot came to: bytes sent so far in this iteration, and the rate it reached."""
        known = self._flows[flow]
        known.sent_bytes = sent_bytes
        known.reached.append(rate_bytes_per_s)

    def advance(self) -> None:
        """A slot has passed."""
        for known in self._flows.values():
            known.rates = [*known.rates[1:], 0.0]

    def decide(
        self, flow: int, slot: int, links: Mapping[int, Answer] | None, peers: Peers, part: float = 1.0
    ) -> Schedule:
        """Algorithm 2 for one flow. `links` holds the answers for its path (for links it has none for, nothing is
        assumed); None if the answer was lost: then what was planned before goes on. `part` is what is left of the
        slot: a flow starts at once, in the middle of one."""
        known = self._flows[flow]
        own, s = known.flow, self.slot_s
        done = known.sent_bytes / s
        feeders = peers.reach(own.feeders, s, part)
        left = max((own.size_bytes - known.sent_bytes) / s, 0.0)
        allowed = allowance(done, own.chunk_bytes / s, feeders)
        if links is None:
            known.rates[0] = min(known.rates[0], min(allowed, left) / part)
            return Schedule(flow, slot, tuple(known.rates))
        asked = [links[link] for link in own.path if link in links]
        others = [[b - r for b, r in zip(answer.load, known.rates, strict=True)] for answer in asked]
        mates = [(answer.mates, answer.mates_load) for answer in asked]
        free, load, prices = path_state(others, [answer.available for answer in asked], self.slots, known.rates, mates)
        free = [min(room, own.line_bytes_per_s) for room in free]
        free[0] *= part
        rates = plan(left, free, load, prices)
        followers = peers.reach(own.followers, s, part)
        rate = adjusted(rates[0], done, feeders, followers, part * self.best(flow), free[0])
        rate = min(rate, allowed, left)
        if rate != rates[0]:
            rates = [rate, *plan(left - rate, free[1:], load[1:], prices[1:])]
        rates[0] = rate / part
        if rate >= left * ENOUGH:  # the last bytes go out as fast as they can
            rates[0] = max(rates[0], free[0] / part)
        known.rates = rates
        return Schedule(flow, slot, tuple(rates))

    def rest(self, flow: int, slot: int) -> Schedule:
        """The flow has nothing to send until its feeders have: until then it plans nothing."""
        known = self._flows[flow]
        known.rates = [0.0] * self.slots
        return Schedule(flow, slot, tuple(known.rates))

    def cut(self, flow: int, slot: int, peers: Peers, part: float = 1.0) -> Schedule | None:
        """A feeder told that it is slower than this flow planned for: less in this slot (None: nothing changes)."""
        known = self._flows[flow]
        feeders = peers.reach(known.flow.feeders, self.slot_s, part)
        most = allowance(known.sent_bytes / self.slot_s, known.flow.chunk_bytes / self.slot_s, feeders) / part
        if known.rates[0] <= most:
            return None
        known.rates[0] = most
        return Schedule(flow, slot, (most,))

    def planned(self, flow: int) -> float:
        """The rate of this slot."""
        return self._flows[flow].rates[0]

    def best(self, flow: int) -> float:
        """B_i: the best rate of the last slots; the line's while none is known."""
        known = self._flows[flow]
        most = max(known.reached, default=0.0)
        return most if most > 0.0 else known.flow.line_bytes_per_s
