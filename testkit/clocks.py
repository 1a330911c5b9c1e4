"""Tests of measured times, and machines that stand still.

What a test measures while its machine stands still says nothing, whether it passes or fails. So tests that are marked
`alone` or `long` run beside a watcher, a process that does nothing but sleep. Where it slept for much too long, or a
hypervisor gave the processors to others, the run does not count and the test runs again; a few times at most, then it
is skipped and says why. Nothing runs again because it failed. A series of kills (WEFT_KILLS) counts whatever happens.
"""

import os

import pytest
from _pytest.runner import runtestprotocol

from weft_live.testbed.stillness import processor_time, standstill, stolen_share

__all__ = ["processor_time", "pytest_runtest_protocol", "standstill", "stolen_share"]

RUNS = 4


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
