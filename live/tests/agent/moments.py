"""Waiting for what other processes and threads do: as long as a busy machine may need, and never for a time to pass."""

import time
from collections.abc import Callable

PATIENCE_S = 60.0


def wait(true: Callable[[], bool]) -> None:
    """Until something is so. The limit is for what never comes."""
    until = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < until, f"not within {PATIENCE_S:g} s"
        time.sleep(0.01)


class Moved:
    """A clock that a test moves."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def wait_until(true: Callable[[], bool], patience_s: float) -> float:
    """Seconds until it was true."""
    start = time.monotonic()
    while time.monotonic() - start < patience_s:
        if true():
            return time.monotonic() - start
        time.sleep(0.01)
    raise AssertionError(f"not within {patience_s} s")
