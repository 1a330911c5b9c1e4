"""What somebody sees who calls weft from Python."""

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import weft
from tests.test_api import scenario
from weft.runs.watched import watched


class Terminal(io.StringIO):
    """A stderr that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    weft.compare(scenario(), ["fifo", "srsf"], [1], workers=1)
    assert "runs" in err.getvalue()
    assert "2/2" in err.getvalue()


def test_a_file_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    weft.simulate(scenario())
    assert capsys.readouterr() == ("", "")


def test_a_notebook_shows_one_cell_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []
    display = ModuleType("IPython.display")
    display.HTML = str  # type: ignore[attr-defined]
    handle = SimpleNamespace(update=shown.append)
    display.display = lambda html, display_id: handle  # type: ignore[attr-defined]
    shell = ModuleType("IPython")
    shell.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with watched("runs", None) as tell:
        tell(1, 4)
        tell(2, 4)  # too soon to be drawn
    assert len(shown) == 2
    assert "value='1' max='4'" in shown[0]
    assert shown[1] == ""


def test_the_first_run_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import weft.sim.compiled.load as load

    monkeypatch.setattr(load, "is_cached", lambda: False)
    weft.simulate(scenario())
    assert capsys.readouterr().err.startswith("compiling kernels")


def test_every_result_is_a_table_in_a_notebook() -> None:
    sweep = weft.sweep(scenario(), {"cluster.oversubscription": [1, 4]}, ["fifo", "srsf"], [1], workers=1)
    assert sweep._repr_html_().count("<tr>") == 5
    cross = weft.cross(
        scenario(), [1], order=["fifo", "srsf"], place=["first-fit"], interleave=["none"], pace=["fair"], workers=1
    )
    assert cross._repr_html_().count("<tr>") == 3
