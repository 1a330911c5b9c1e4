"""The examples in the docstrings of public names run."""

import doctest
from pathlib import Path
from typing import Any

import pytest

import weft
import weft.learning

ROOT = Path(__file__).resolve().parent.parent
NAMES = {name: getattr(weft, name) for name in weft.__all__ if name not in ("__version__", "profile", "Cross")}
NAMES["Chooser"] = weft.learning.Chooser


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_has_an_example_that_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`profile` needs PyTorch, and `Cross` is what `cross` returns."""
    monkeypatch.chdir(ROOT)
    found = doctest.DocTestParser().get_doctest(NAMES[name].__doc__ or "", {"weft": weft}, name, None, None)
    assert found.examples
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(found, out=said.append)
    assert result.failed == 0, "".join(said)
    assert result.attempted == len(found.examples)


def test_a_wrong_example_is_noticed() -> None:
    wrong: Any = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner().run(wrong, out=lambda _: None).failed == 1
