"""equal: single flows, each of which has its fair share of every link: what `flow` is measured against."""

from __future__ import annotations

from weft.pace.base import Pace
from weft.pace.rates import Transport

__all__ = ["Equal"]


class Equal(Pace):
    """Rings and parameter servers as single flows that keep step, and no scheduling at all."""

    name = "equal"
    steers = True

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows, and a transport that loses nothing by packet loss but what is sent again."""
        return Transport(opened=True)
