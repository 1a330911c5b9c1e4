"""tcp:reno, tcp:cubic, tcp:bbr, tcp:dctcp, tcp:dctcp-ecn: fluid models of what a kernel's congestion control reaches.

Among themselves flows share links fairly. What sets the variants apart is random loss: by the steady-state laws of
each, with an RTT of 0.2 ms and segments of 1,460 bytes. Slow start and every other transient are left out, and buffers
are taken to be deep enough to keep a link busy.
"""

from __future__ import annotations

import math
from typing import Self

from weft.errors import StackError
from weft.pace.base import Pace
from weft.pace.rates import Transport

__all__ = ["VARIANTS", "Tcp", "loss_limit"]

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
