"""A failing test of measured times is excused only by processor time that somebody else had, and not at once."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from testkit import clocks
from testkit.clocks import processor_time, stolen_share

pytest_plugins = ["pytester"]

FAILING = """
import pytest

@pytest.mark.{mark}
@pytest.mark.flaky(reruns=3)
def test_time():
    assert False, "the measured time"
"""


def test_processor_time_is_read_from_the_kernel(tmp_path: Path) -> None:
    """user nice system idle iowait irq softirq steal: 5 of 36 ticks were stolen."""
    (tmp_path / "stat").write_text("cpu  1 2 3 20 4 0 1 5 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
    assert processor_time(tmp_path / "stat") == (5, 36)
    assert processor_time(tmp_path / "none") == (0, 0)
    assert stolen_share((5, 36), (15, 76)) == 0.25
    assert stolen_share((0, 0), (0, 0)) == 0.0


@pytest.mark.parametrize(
    ("stolen", "mark", "required", "outcomes"),
    [
        (50, "alone", "1", {"skipped": 1, "rerun": 1}),
        (5, "alone", "1", {"failed": 1, "rerun": 3}),  # little was stolen: the change is to blame
        (50, "engine", "1", {"failed": 1, "rerun": 3}),  # measures no times
        (50, "alone", "", {"failed": 1, "rerun": 3}),  # not in CI
    ],
)
def test_what_is_excused(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, stolen: int, mark: str, required: str, outcomes: dict
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("WEFT_REQUIRE_ENGINES", required)
    looks = itertools.count()
    monkeypatch.setattr(clocks, "processor_time", lambda: (stolen * (n := next(looks)), 100 * n))
    pytester.makeconftest("from testkit.clocks import pytest_runtest_makereport")
    pytester.makepyfile(FAILING.format(mark=mark))
    result = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider")
    result.assert_outcomes(**{name: n for name, n in outcomes.items() if name != "rerun"})
    result.stdout.fnmatch_lines([f"*{outcomes['rerun']} rerun*"])
    if "skipped" in outcomes:
        result.stdout.fnmatch_lines(["*not judged: a hypervisor had 50% of the processor time*"])
