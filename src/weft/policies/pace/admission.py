"""Paces that say who may start: fair (everybody), at-most, and adadual."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.policy import setting
from weft.policies.pace.base import MOST_TRANSFERS, Admission, Pace

SOME = f"[1, {MOST_TRANSFERS}]"


class Fair(Pace):
    """No admission control: the network's own sharing decides."""

    name = "fair"


@dataclass(eq=False)
class AtMost(Pace):
    """`at-most:N` (by default 1): a transfer waits while a server it uses has N others.

    SRSF(N) of the Ada-SRSF paper (section V-A): 1 avoids all contention, 2 accepts any two-way contention.
    """

    holds_back = True
    steers = True

    name = "at-most"
    n: int = setting(1, within=SOME, whole=True, shown=True)

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """Whatever the constants are."""
        return Admission("at-most", self.n)


def threshold(m: int, b_s_per_byte: float, eta_s_per_byte: float) -> float:
    """How many times its own bytes each of m transfers must have left for another one to start beside them.

    2 m (b + eta) / (m b + (m - 1) eta): then no later start gives the m + 1 a smaller sum of completion times. For
    m = 1 it is Theorem 2 of the paper, 2 (b + eta) / b. The derivation is in docs/papers/ada-srsf.md.
    """
    return 2.0 * m * (b_s_per_byte + eta_s_per_byte) / (m * b_s_per_byte + (m - 1) * eta_s_per_byte)


@dataclass(eq=False)
class AdaDual(Pace):
    """`adadual` is the paper's rule; `adadual:K` lets up to K transfers share a server.

    A transfer that is ready starts if no server it uses has K others, and each of those it meets there has more bytes
    left than the threshold for their number times its own. Where it meets others on several servers the strictest
    answer counts (the printed algorithm looks at the first server only). What others have left is looked at, not
    changed.
    """

    holds_back = True
    steers = True

    name = "adadual"
    k: int = setting(2, within=SOME, whole=True)

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """Thresholds from the constants of the network; under fair sharing (eta = 0) all of them are 2."""
        ratios = tuple(threshold(m, b_s_per_byte, eta_s_per_byte) for m in range(1, self.k))
        return Admission("ratio", self.k, ratios)
