"""The profiler: measures one training iteration of a PyTorch model on the device at hand.

    import weft
    weft.profile(model, batch, out="mine.json")     # inside your training script
    $ weft profile resnet50 --batch 64              # a model of the zoo

The profiler needs torch (`pip install weft[torch]`); nothing here imports it before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft_live.profiling.measure import profile

__all__ = ["profile"]


def __getattr__(name: str) -> Any:
    if name == "profile":
        from weft_live.profiling.measure import profile

        return profile
    raise AttributeError(f"module 'weft_live.profiling' has no attribute {name!r}")
