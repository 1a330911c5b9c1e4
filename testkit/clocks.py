"""Tests on real clocks: real processes against real time, which a machine that stands still can fail.

Such a failure says nothing about a change. So these tests have further attempts in CI; those that hold measured times
against computed ones, as all on real sockets do, run one after the other with nothing beside them (`make engines`); and
if one of those fails again while a hypervisor keeps the processors from this machine, CI does not judge it and says so.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from testkit.engines import required

__all__ = ["ATTEMPTS", "on_real_clocks", "processor_time", "pytest_runtest_makereport", "stolen_share"]

ATTEMPTS = 4  # in CI
PLACES = ("live/tests/", "tests/cli/test_interrupt.py")
STOLEN = 0.1  # the share of processor time from which measured times mean nothing

_BEGAN: pytest.StashKey[tuple[int, int]] = pytest.StashKey()


def on_real_clocks(item: pytest.Item) -> bool:
    """Whether a test runs real processes against real time: on a cluster, an engine or a network of the kernel's."""
    marked = any(item.get_closest_marker(name) for name in ("engine", "alone"))
    return marked or item.nodeid.startswith(PLACES)


def processor_time(stat: Path = Path("/proc/stat")) -> tuple[int, int]:
    """Ticks that a hypervisor gave to others while this machine wanted them, and all ticks; zeros where unknown."""
    try:
        ticks = [int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    return (ticks[7], sum(ticks)) if len(ticks) == 8 else (0, 0)


def stolen_share(before: tuple[int, int], after: tuple[int, int]) -> float:
    """The share of processor time between two looks at it that others had."""
    ticks = after[1] - before[1]
    return (after[0] - before[0]) / ticks if ticks > 0 else 0.0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, turn the second failure of a test that runs alone into a skip if the machine was kept from running."""
    if call.when == "setup":
        item.stash[_BEGAN] = processor_time()
    report = yield
    if required() and report.failed and (reason := unjudged(item)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1] or 0, f"{reason}\n{report.longreprtext}")
    return report


def unjudged(item: pytest.Item) -> str:
    """Why a failure is not judged, or nothing if it is."""
    again = getattr(item, "execution_count", 1) > 1
    if item.get_closest_marker("alone") is None or not again or _BEGAN not in item.stash:
        return ""
    share = stolen_share(item.stash[_BEGAN], processor_time())
    return f"not judged: a hypervisor had {share:.0%} of the processor time" if share > STOLEN else ""
