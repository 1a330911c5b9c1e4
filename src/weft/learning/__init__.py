"""Learned policies: `Chooser` asks for one job after another; `QueueEnv` is the same as a Gymnasium environment.

docs/learning.md shows how one is trained and compared. `QueueEnv` needs the extra `weft[gym]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.learning.chooser import FEATURES, Chooser, Seen

if TYPE_CHECKING:
    from weft.learning.env import QueueEnv

__all__ = ["FEATURES", "Chooser", "QueueEnv", "Seen"]


def __getattr__(name: str) -> Any:
    if name != "QueueEnv":
        raise AttributeError(f"module 'weft.learning' has no attribute {name!r}")
    try:
        from weft.learning.env import QueueEnv
    except ModuleNotFoundError as error:
        raise ImportError("weft.learning.QueueEnv needs Gymnasium: pip install 'weft[gym]'") from error
    return QueueEnv
