"""What all tests share."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import settings

from tests import clocks
from tests.clocks import pytest_runtest_makereport  # noqa: F401, a hook
from tests.engines import missing_engine, required
from weft.research.bench._simgrid import find as find_simgrid

# No deadline: the first example of a test may compile a kernel, and CI machines are slow at times.
settings.register_profile("weft", deadline=None, max_examples=60, print_blob=True)
# CI judges a change, so it draws the same examples each time; everybody else's runs look for new ones.
settings.register_profile("ci", settings.get_profile("weft"), derandomize=True)
settings.load_profile("ci" if required() else "weft")


os.environ["WEFT_RESULTS_MB"] = "0"  # tests run what they test, whatever earlier ones have left behind


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, before worker processes start to do so side by side."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from weft.api import compile_kernels

        others = subprocess.Popen([sys.executable, "-m", "tests.warm"], cwd=config.rootpath)
        compile_kernels(print)
        others.wait()  # if it fails, tests say why


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give tests on real clocks further attempts in CI, some seconds later. Tests on a live cluster mostly wait: two
    worker processes begin with them, and the others compute meanwhile."""
    for item in items:
        if item.get_closest_marker("testbed") is not None:
            item.add_marker("alone")  # rates and times on real sockets
    if required() and config.pluginmanager.hasplugin("rerunfailures"):
        for item in filter(clocks.on_real_clocks, items):
            item.add_marker(pytest.mark.flaky(reruns=clocks.ATTEMPTS - 1, reruns_delay=15))
    if hasattr(config, "workerinput"):
        items[:] = waiting_first(items, config.workerinput["workercount"])


def waiting_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Items in an order that, cut into as many even parts as there are workers (so --dist worksteal begins), has live
    tests at the head of two parts, each file of them in one."""
    live = [item for item in items if item.nodeid.startswith("tests/live/")]
    rest = [item for item in items if not item.nodeid.startswith("tests/live/")]
    files = list(dict.fromkeys(item.path for item in live))
    groups = [[item for item in live if item.path in files[k::2]] for k in range(2)]
    second = sum(_parts(len(items), workers)[: workers // 2])
    if workers < 2 or len(groups[0]) > second:
        return items
    between = second - len(groups[0])
    return [*groups[0], *rest[:between], *groups[1], *rest[between:]]


def _parts(n: int, workers: int) -> list[int]:
    """The sizes of even parts as xdist cuts them: what does not divide goes to the last."""
    parts = []
    for left in range(workers, 0, -1):
        parts.append(n // left)
        n -= parts[-1]
    return parts


@pytest.fixture(scope="session")
def simgrid_python() -> str:
    """An interpreter that can import SimGrid (Debian's python3-simgrid serves the system's own)."""
    python = find_simgrid()
    if python is None:
        missing_engine("SimGrid (apt-get install python3-simgrid)")
    assert python is not None
    return python


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as their "summary": figures that CI is to show though the test passed. Print, too, how
    tests failed that had another attempt."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    lines = [value for r in reports for name, value in getattr(r, "user_properties", ()) if name == "summary"]
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.line(line)
    if again := terminalreporter.stats.get("rerun"):
        terminalreporter.section("failed and had another attempt: look into these", red=True)
        for report in again:
            terminalreporter.line(f"{report.nodeid}\n{report.longreprtext}\n")
