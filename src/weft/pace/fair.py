"""fair: every transfer starts when it is ready and shares the links with the others."""

from __future__ import annotations

from weft.pace.base import Pace

__all__ = ["Fair"]


class Fair(Pace):
    """No admission control: the network's own sharing decides."""

    name = "fair"
