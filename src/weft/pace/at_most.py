"""at-most: no more than so many transfers on a server at a time."""

from __future__ import annotations

from typing import Self

from weft.errors import StackError
from weft.pace.base import MOST_TRANSFERS, Admission, Pace

__all__ = ["AtMost"]


class AtMost(Pace):
    """`at-most:N` (by default 1): a transfer waits while a server it uses has N others.

    SRSF(N) of the Ada-SRSF paper (section V-A): 1 avoids all contention, 2 accepts any two-way contention.
    """

    holds_back = True
    steers = True

    def __init__(self, n: int = 1) -> None:
        self.n = n
        self.name = f"at-most:{n}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`at-most` or `at-most:N`."""
        if arg is None:
            return cls()
        if not (arg.isascii() and arg.isdecimal()) or not 1 <= int(arg) <= MOST_TRANSFERS:
            raise StackError(f"at-most:{arg}: write at-most:N with a whole number N from 1 to {MOST_TRANSFERS}")
        return cls(int(arg))

    def admission(self, b_s_per_byte: float, eta_s_per_byte: float) -> Admission:
        """Whatever the constants are."""
        return Admission("at-most", self.n)
