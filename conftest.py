"""What all tests share."""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import settings

from benchmarks._simgrid import find as find_simgrid
from testkit.clocks import pytest_runtest_protocol  # noqa: F401, a hook
from testkit.draws import examples
from testkit.engines import load_torch, missing_engine, required

# No deadline: the first example of a test may compile a kernel, and CI machines are slow at times.
settings.register_profile("new", deadline=None, max_examples=examples(60), print_blob=True)
# The same examples each time, so that make test has one answer; who asks for a share of them gets new ones, but not CI.
settings.register_profile("same", settings.get_profile("new"), derandomize=True)
settings.load_profile("new" if "WEFT_THOROUGH" in os.environ and not required() else "same")


os.environ["WEFT_RESULTS_MB"] = "0"  # tests run what they test, whatever earlier ones have left behind


LONG = ("tests/examples/", "tests/results/test_browser.py")  # minutes, if they come last


# Policies with kernels of their own that take as long to compile as the engine and MCS.
BESIDE = "interleave cassini pace flow pace shortest pace shortest:patient pace tcp"


ENGINES = frozenset(("slurm16", "simgrid_python"))  # fixtures that bring one


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, in two processes, before worker processes start to do so side by side."""
    if config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        from weft.kernels import cache_root
        from weft.runs.prepare import compile_kernels
        from weft.sim.warm import compile_all
        from weft.stacks.registry import make

        cache_root().mkdir(parents=True, exist_ok=True)
        with open(cache_root() / "tests.lock", "w") as lock, suppress(Exception):  # if one fails, tests say why
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run may begin beside this one
            with subprocess.Popen([sys.executable, "-m", "weft.runs.prepare", *BESIDE.split()]):
                compile_kernels(print)
                compile_all(make("pace", "mcs").rates)
                make("pace", "mcs").prepare()


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by what they need. Tests on a live cluster mostly wait: some worker processes begin with them, and the
    others compute meanwhile."""
    for item in items:
        if item.get_closest_marker("testbed") is not None:
            item.add_marker("alone")  # rates and times on real sockets
        if not ENGINES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("engine")  # also where nobody has thought of it
    if hasattr(config, "workerinput") and config.workerinput["workercount"] > 1:
        items[:] = waiting_first(items, config.workerinput["workercount"])


def waiting_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Items in an order that, cut into as many even parts as there are workers (so --dist worksteal begins), has live
    tests at the head of some parts, each file of them in one; as many parts as there are processors compute from the
    beginning (half of them, if they are few), what takes longest first."""
    alone = [item for item in items if item.get_closest_marker("alone") is not None]  # not chosen beside others
    live = [item for item in items if item.nodeid.startswith("live/tests/") and item not in alone]
    rest = [item for item in items if not item.nodeid.startswith("live/tests/") and item not in alone]
    rest.sort(key=lambda item: not item.nodeid.startswith(LONG))
    parts = _parts(len(live) + len(rest), workers)
    computing = min(workers - workers // 2, os.cpu_count() or 1)
    groups = [[] for _ in range(computing)] + even_groups(live, workers - computing)
    if any(len(group) > part for group, part in zip(groups, parts, strict=True)):
        return items
    left = iter(rest)
    ordered = [[*group, *islice(left, part - len(group))] for group, part in zip(groups, parts, strict=True)]
    return [item for part in (*ordered, alone) for item in part]


def even_groups(live: list[pytest.Item], n: int) -> list[list[pytest.Item]]:
    """Live tests in so many groups that take about as long, each file of them in one. Where an engine serves (Slurm),
    a test takes many times as long as elsewhere."""
    files: dict[Path, list[pytest.Item]] = {}
    for item in live:
        files.setdefault(item.path, []).append(item)

    def weight(tests: list[pytest.Item]) -> int:
        return sum(10 if item.get_closest_marker("engine") is not None else 1 for item in tests)

    groups: list[list[pytest.Item]] = [[] for _ in range(n)]
    for tests in sorted(files.values(), key=weight, reverse=True):
        min(groups, key=weight).extend(tests)
    return groups


def _parts(n: int, workers: int) -> list[int]:
    """The sizes of even parts as xdist cuts them: what does not divide goes to the last."""
    parts = []
    for left in range(workers, 0, -1):
        parts.append(n // left)
        n -= parts[-1]
    return parts


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Makes a folder of that name: once, by the first worker process that asks, for all that do."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def folder(name: str, make: Callable[[Path], None]) -> Path:
        done = base / name
        with open(base / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                new = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=base))
                make(new)
                new.rename(done)
        return done

    return folder


@pytest.fixture(scope="session")
def pytorch() -> None:
    """For tests that PyTorch runs in: skipped without it, failed in CI."""
    load_torch()


@pytest.fixture(scope="session")
def simgrid_python() -> str:
    """An interpreter that can import SimGrid (Debian's python3-simgrid serves the system's own)."""
    python = find_simgrid()
    if python is None:
        missing_engine("SimGrid (apt-get install python3-simgrid)")
    assert python is not None
    return python


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests recorded as their "summary": figures that are of interest though the test passed."""
    reports = [r for kind in ("passed", "failed") for r in terminalreporter.stats.get(kind, ())]
    lines = [value for r in reports for name, value in getattr(r, "user_properties", ()) if name == "summary"]
    if lines:
        terminalreporter.section("figures")
        for line in sorted(lines):
            terminalreporter.line(line)
