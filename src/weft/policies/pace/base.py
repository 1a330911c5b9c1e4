"""Pace: which transfers run now, how fast? The answer is a value that the engine applies (or a rule that it asks)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from weft.model.flows import Ask
from weft.model.policy import Policy
from weft.policies.pace.rates import RateRule, Transport, rehearse

MOST_TRANSFERS = 1000  # most transfers on a server that a rule may be written for


@dataclass(frozen=True, slots=True)
class Admission:
    """Rule by which a transfer that is ready may start.

    kind "all": at once. "at-most": while every server it uses has fewer than `k` transfers. "ratio": on servers with
    m = 1..k-1 transfers only if (remaining bytes of each of those) / (its own bytes) > `ratios[m-1]`; with k or more
    it waits (AdaDUAL is k = 2 with ratio 2 (b + eta) / b). "ask": when `ask` says so; it is asked about every waiting
    transfer whenever one becomes ready or one ends. That is Python in the middle of the physics: slow, and nothing is
    skipped; but any rule can be written so. Waiting transfers are looked at in order of their job's turn
    (p0 + p1 x iterations left), then by job.
    """

    kind: str = "all"
    k: int = 0
    ratios: tuple[float, ...] = ()
    ask: Ask | None = None


class Pace(Policy):
    """One answer to "which transfers run now, how fast?"."""

    holds_back: bool = False  # may delay a transfer that is ready; contradicts time-shifts
    steers: bool = False  # asks more of the world than fair sharing (holding back implies it)
    natural: bool = False  # its rule is a model of what real senders do by themselves: a real network needs none

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """How its transfers go over the network, given the share of packets that are lost at random."""
        return Transport()

    def prepare(self) -> None:
        """Compile what its rule needs, by asking it about a transfer."""
        if (rule := self.rates()) is not None:
            rehearse(rule)

    def rates(self) -> RateRule | None:
        """A fresh rule that caps, weighs and ranks transfers while they run; None leaves that to the network."""
        return None

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """The rule by which transfers start, given the contention constants of the sharing model (eta = 0 under fair
        sharing); by default they start at once."""
        return Admission("all")


class RatedPace(Pace):
    """A pace that sets rates: everything may start at once, and the rule of a run says how fast it goes."""

    steers = True

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows, whose senders keep the rate they were given whatever is lost."""
        return Transport(opened=True, reacts=False)

    @abstractmethod
    def rates(self) -> RateRule:
        """The rule of one run."""
