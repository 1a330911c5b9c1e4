"""Policy: what all layers have in common: a name, what they must know about jobs, and how their text is read."""

from __future__ import annotations

import math
from abc import ABC
from typing import Self

from weft.errors import StackError
from weft.model.plan import State
from weft.model.view import Fact


class Policy(ABC):  # noqa: B024 - each layer has its own question
    """One answer to one layer's question. Stateless itself: its memory is the `state` it is given and returns."""

    name: str = ""
    needs: frozenset[Fact] = frozenset()

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """The policy from what follows the colon of its name (`lwf:1`); by default it takes nothing."""
        if arg is not None:
            raise StackError(f"{cls.name}:{arg}: {cls.name} takes no parameter; write {cls.name}")
        return cls()

    def initial_state(self) -> State:
        """Memory before the first cycle."""
        return {}


def number(text: str) -> float:
    """A parameter as a number, or NaN if it is none: no bound lets NaN through."""
    try:
        return float(text)
    except ValueError:
        return math.nan
