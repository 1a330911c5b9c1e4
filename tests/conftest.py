"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

from tests.engines import missing_engine
from weft.bench._simgrid import find as find_simgrid

# No deadline: the first example of a test may compile a kernel, and CI machines are slow at times.
settings.register_profile("weft", deadline=None, max_examples=60, print_blob=True)
settings.load_profile("weft")


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, before worker processes start to do so side by side."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from weft.api import compile_kernels

        compile_kernels(print)


@pytest.fixture(scope="session")
def simgrid_python() -> str:
    """An interpreter that can import SimGrid (Debian's python3-simgrid serves the system's own)."""
    python = find_simgrid()
    if python is None:
        missing_engine("SimGrid (apt-get install python3-simgrid)")
    assert python is not None
    return python


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as their "summary": figures that CI is to show though the test passed."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    lines = [value for r in reports for name, value in getattr(r, "user_properties", ()) if name == "summary"]
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.line(line)
