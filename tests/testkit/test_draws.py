"""CI draws every random case, and a developer's runs draw a quarter of them. WEFT_THOROUGH asks for a share of the
cases that tests draw themselves, and for all those of Hypothesis."""

from __future__ import annotations

import pytest

from testkit.draws import examples, thorough


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WEFT_REQUIRE_ENGINES": "1"}, (60, 60)),
        ({"CI": "true"}, (60, 60)),
        ({}, (15, 15)),
        ({"WEFT_THOROUGH": "10"}, (600, 60)),
        ({"WEFT_THOROUGH": "0.25"}, (15, 60)),
        ({"WEFT_THOROUGH": "10", "CI": "true"}, (600, 60)),
    ],
)
def test_numbers(variables: dict[str, str], expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEFT_REQUIRE_ENGINES", "CI", "WEFT_THOROUGH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (thorough(60), examples(60)) == expected


def test_nobody_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_THOROUGH", "0.01")
    assert thorough(4) == 1
