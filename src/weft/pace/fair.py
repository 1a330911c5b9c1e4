"""fair: every transfer starts when it is ready and shares the links with the others."""

from __future__ import annotations

from weft.pace.base import Admission, Pace

__all__ = ["Fair"]


class Fair(Pace):
    """No admission control: the network's own sharing decides."""

    name = "fair"

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """Everything at once."""
        return Admission("all")
