"""Tests of measured times, and machines that stand still.

What a test measures while its machine stands still says nothing, whether it passes or fails. So tests that are marked
`alone` or `long` run beside a watcher, a process that does nothing but sleep. Where it slept for much too long, or a
hypervisor gave the processors to others, the run does not count and the test runs again; a few times at most, then it
is skipped and says why. Nothing runs again because it failed. A series of kills (WEFT_KILLS) counts whatever happens.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

__all__ = ["processor_time", "pytest_runtest_protocol", "standstill", "stolen_share"]

RUNS = 4
STALL_S = 0.05  # from which measured times mean nothing
STOLEN = 0.1  # the share of processor time from which they do not, either

WATCHER = """
import select, time
longest, told, before = 0.0, [], time.monotonic()
print(flush=True)
while not told:
    told = select.select([0], [], [], 0.005)[0]
    now = time.monotonic()
    longest, before = max(longest, now - before - 0.005), now
print(longest)
"""


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


@contextmanager
def standstill() -> Iterator[Callable[[], str]]:
    """Yields what says, afterwards, how the machine stood still meanwhile; nothing if it did not."""
    said = ""
    # A process of its own: a thread would wait for this interpreter. Ctrl-C is not for it.
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", WATCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as watcher:  # fmt: skip
        assert watcher.stdout is not None
        watcher.stdout.readline()
        before = processor_time()
        try:
            yield lambda: said
        finally:
            longest_s, share = float(watcher.communicate("\n")[0]), stolen_share(before, processor_time())
            if longest_s > STALL_S:
                said = f"the machine stood still for {1e3 * longest_s:.0f} ms"
            elif share > STOLEN:
                said = f"a hypervisor had {share:.0%} of the processor time"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test of measured times until the machine does not stand still meanwhile."""
    if "WEFT_KILLS" in os.environ or not any(item.get_closest_marker(name) for name in ("alone", "long")):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for _ in range(RUNS):
        with standstill() as why:
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        if not why() or any(report.skipped for report in reports):
            break
    else:
        for report in reports:
            if report.failed or report.when == "call":
                report.outcome = "skipped"
                longrepr = f"not judged: {why()}\n{report.longreprtext}".rstrip()
                report.longrepr = (str(item.path), item.location[1] or 0, longrepr)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
