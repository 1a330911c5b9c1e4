"""Tests draw a quarter of their random cases. WEFT_THOROUGH asks for a share of those that tests draw themselves, and
for all those of Hypothesis."""

import pytest

from testkit.draws import examples, thorough


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (15, 15)),
        ({"WEFT_THOROUGH": "10"}, (600, 60)),
        ({"WEFT_THOROUGH": "0.25"}, (15, 60)),
        ({"WEFT_THOROUGH": ""}, (15, 60)),
    ],
)
def test_numbers(variables: dict[str, str], expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_THOROUGH", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (thorough(60), examples(60)) == expected


def test_nobody_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_THOROUGH", "0.01")
    assert thorough(4) == 1
