"""weft: transfers share links, except where sharing loses more than waiting, or where others' traffic competes."""

from __future__ import annotations

from weft.policies.pace.base import Admission, Pace
from weft.policies.pace.shortest import Shortest

# The weight of one of our jobs, in foreign flows. Others get about as much as beside `flow`, and our jobs end sooner.
WEIGHT = 1000.0


class Weft(Pace):
    """Where k transfers on a server take longer than k times one (the constant eta of k-way contention is more than 0),
    one at a time is let in, in the order of jobs; under fair sharing that would gain nothing, and all may start.

    Where traffic of others shares the links and single flows can be given rates, `shortest` paces (see `suited`).
    """

    name = "weft"
    steers = True

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """One at a time where sharing costs."""
        return Admission("at-most", 1) if eta_s_per_byte > 0.0 else Admission("all")

    def suited(self, others: bool) -> Pace:
        """The pace for a network on which others send, or not."""
        return Shortest(WEIGHT) if others else self
