import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit import clocks
from testkit.clocks import processor_time, standstill, stolen_share
from weft_live.testbed import stillness

pytest_plugins = ["pytester"]

# Fixtures of all scopes note when they begin and end; the test, what it was given.
MEASURING = """
import pytest

def noting(scope):
    def note():
        log.append(scope)
        yield len(log)
        log.append("/" + scope)
    return pytest.fixture(scope=scope, name=scope[0])(note)

log = []
s, m, f = map(noting, ("session", "module", "function"))

@pytest.mark.{mark}
def test_time(s, m, f, tmp_path):
    (tmp_path / "once").mkdir()
    log.append("run")
    assert {passes}, "the measured time"

def test_after():
    print("LOG", *log)
"""


def test_processor_time_is_read_from_the_kernel(tmp_path: Path) -> None:
    """user nice system idle iowait irq softirq steal: 5 of 36 ticks were stolen."""
    (tmp_path / "stat").write_text("cpu  1 2 3 20 4 0 1 5 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    assert processor_time(tmp_path / "stat") == (5, 36)
    assert processor_time(tmp_path / "none") == (0, 0)
    assert stolen_share((5, 36), (15, 76)) == 0.25
    assert stolen_share((0, 0), (0, 0)) == 0.0


def test_a_watcher_that_is_stopped_says_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[str]] = []
    start = subprocess.Popen

    def noted(*args: object, **given: object) -> subprocess.Popen[str]:
        made.append(start(*args, **given))  # type: ignore[call-overload]
        return made[-1]

    monkeypatch.setattr(subprocess, "Popen", noted)
    with standstill() as why:
        os.kill(made[0].pid, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(made[0].pid, signal.SIGCONT)
    assert why().startswith("the machine stood still for ")
    assert int(why().split()[-2]) >= 190


def test_what_a_hypervisor_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([(0, 100), (50, 200)])
    monkeypatch.setattr(stillness, "processor_time", lambda: next(ticks))
    monkeypatch.setattr(stillness, "STALL_S", 3600.0)
    with standstill() as why:
        pass
    assert why() == "a hypervisor had 50% of the processor time"


INTERRUPTED = """
import os, signal, pytest

@pytest.mark.alone
def test_that_is_interrupted():
    os.killpg(0, signal.SIGINT)  # what a terminal does
    signal.pause()
"""


def test_ctrl_c_ends_the_tests_and_nothing_else_is_said(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from testkit.clocks import pytest_runtest_protocol\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    (tmp_path / "test_it.py").write_text(INTERRUPTED)
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite in the background is deaf to it
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
            env={**os.environ, "PYTHONPATH": str(Path(clocks.__file__).parents[1])}, capture_output=True, text=True,
            start_new_session=True, check=False,
        )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, heard)
    assert done.returncode == pytest.ExitCode.INTERRUPTED
    assert (done.stderr, "KeyboardInterrupt" in done.stdout) == ("", True)


RUN = ["function", "run", "/function"]


@pytest.mark.parametrize(
    ("mark", "stalls", "passes", "runs", "outcome"),
    [
        ("alone", [], True, 1, "passed"),
        ("alone", [], False, 1, "failed"),  # the change is to blame
        ("alone", ["it stood"], True, 2, "passed"),
        ("long", ["it stood", "again"], False, 3, "failed"),
        ("alone", 4 * ["it stood"], True, 4, "skipped"),
        ("alone", 4 * ["it stood"], False, 4, "skipped"),
        ("engine", 4 * ["it stood"], False, 1, "failed"),  # measures no times
    ],
)
def test_what_runs_again(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch,
    mark: str, stalls: list[str], passes: bool, runs: int, outcome: str,
) -> None:  # fmt: skip
    """And each run has fixtures and a folder of its own."""
    left = iter(stalls)

    @contextmanager
    def told() -> Iterator[Callable[[], str]]:
        said = next(left, "")
        yield lambda: said

    monkeypatch.setattr(clocks, "standstill", told)
    pytester.makeconftest("from testkit.clocks import pytest_runtest_protocol")
    pytester.makepyfile(MEASURING.format(mark=mark, passes=passes))
    result = pytester.runpytest_inprocess("-rs", "-s", "-p", "no:cacheprovider")
    outcomes = {"passed": 1, outcome: 1} if outcome != "passed" else {"passed": 2}
    result.assert_outcomes(**outcomes)
    (log,) = (line.partition("LOG ")[2].split() for line in result.outlines if "LOG " in line)
    assert log == ["session", "module", *(runs * RUN)]
    if outcome == "skipped":
        result.stdout.fnmatch_lines(["*not judged: it stood*"])
        assert any("the measured time" in line for line in result.outlines) is not passes
