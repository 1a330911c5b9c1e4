"""A transfer as an admission rule written in Python sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Ask", "TransferView"]


@dataclass(frozen=True, slots=True)
class TransferView:
    """What a rule may know of a transfer; looking at it changes nothing."""

    job: str
    task: int
    bytes_left: float  # of each of its flows
    ports: frozenset[int]  # links of its servers that it uses, by number
    turn: float  # its job's key: smaller goes first


# May this transfer start, beside those that have started and use one of its ports?
Ask = Callable[[TransferView, tuple[TransferView, ...]], bool]
