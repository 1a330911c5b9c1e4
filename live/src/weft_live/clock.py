"""Clock: seconds since a live world began. Nobody can set this clock, and it runs on while the server restarts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from weft_live.family import boot_id


@dataclass(frozen=True)
class Clock:
    """The machine's monotonic clock less its reading at the beginning; wall time is only for display."""

    began_s: float  # monotonic reading at the world's zero
    boot: str  # monotonic clocks start again at boot
    wall_s: float  # wall time of the world's zero

    @staticmethod
    def begin() -> Clock:
        """A world that begins now."""
        return Clock(time.monotonic(), boot_id(), time.time())

    @staticmethod
    def resume(saved: dict[str, Any], at_least_s: float) -> Clock:
        """A world that goes on: by the same clock, or after a reboot from the last moment that was written down."""
        clock = Clock(saved["began_s"], saved["boot"], saved["wall_s"])
        if clock.boot == boot_id() and clock.now() >= at_least_s:
            return clock
        return Clock(time.monotonic() - at_least_s, boot_id(), clock.wall_s)

    def now(self) -> float:
        """Seconds since the beginning."""
        return max(0.0, time.monotonic() - self.began_s)

    def monotonic(self, time_s: float) -> float:
        """A moment of this world as processes of this machine read it."""
        return self.began_s + time_s
