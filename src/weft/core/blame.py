"""Names the policy, its file and its line where a policy's own code raises an error or loops endlessly."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import TYPE_CHECKING

from weft.core.stack import Stack

if TYPE_CHECKING:
    from weft.core.cycle import Core

SLOW_S = 10.0  # a decision that takes longer is told, once
_LOOK_S = 0.5


def policies(stack: Stack) -> dict[str, str]:
    """The module of each policy of a stack that is not weft's own: what kind it is, and its name."""
    planner = stack.planner
    layers = {"order": getattr(planner, "order", None), "place": getattr(planner, "place", None)}
    layers |= {"planner": planner, "interleave": stack.interleave, "pace": stack.pace, "route": stack.route}
    found: dict[str, str] = {}
    for kind, policy in layers.items():
        for base in type(policy).__mro__ if policy is not None else ():
            if base.__module__.partition(".")[0] not in ("weft", "weft_live", "weft_evidence", "builtins", "abc"):
                found.setdefault(base.__module__, f"{kind} {getattr(policy, 'name', type(policy).__name__)}")
    return found


def whose(frames: Iterator[tuple[FrameType, int]], stack: Stack) -> str:
    """The policy whose code is the last of these frames, with file and line; empty if none of them is a policy's."""
    named, said = policies(stack), ""
    for frame, line in frames:
        if policy := named.get(frame.f_globals.get("__name__", "")):
            said = f"{policy}, {frame.f_code.co_filename}:{line}"
    return said


def of_error(error: BaseException, stack: Stack) -> str:
    """The policy that raised this error; empty if it comes from elsewhere."""
    return whose(walk_tb(error.__traceback__), stack)


@contextmanager
def watching(core: Core) -> Iterator[None]:
    """Warn once if policies take longer than `SLOW_S` for a decision, which may be an endless loop."""
    over, thread = threading.Event(), threading.get_ident()

    def watch() -> None:
        cycle, looks = -1, 0
        while not over.wait(_LOOK_S):
            same = core.deciding and core.cycle == cycle
            cycle, looks = core.cycle, looks + 1 if same else 0
            if looks * _LOOK_S >= SLOW_S:
                frame = sys._current_frames().get(thread)
                where = whose(reversed(list(walk_stack(frame))), core.stack) if frame else ""
                logging.getLogger("weft").warning(
                    "still waiting for a decision after %g s, at %g s of the run: %s",
                    SLOW_S, core.view.now, where or f"stack {core.stack.name}",
                )  # fmt: skip
                return

    threading.Thread(target=watch, name="weft-slow-decisions", daemon=True).start()
    try:
        yield
    finally:
        over.set()
