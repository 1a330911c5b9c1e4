"""The table of what each rule of `weft` is worth: its first row is that of the page, and a rule that is gone shows."""

from unittest.mock import patch

import pytest

from weft_evidence.weft.ablation import RULES, measured


def test_the_demo_is_that_of_the_page() -> None:
    seconds, stops = measured("demo")
    assert (seconds, stops) == (pytest.approx(92.4, abs=0.05), pytest.approx(1.0, abs=0.5))
    with patch.object(*RULES["every job with a smaller key stops others"]):
        assert measured("demo")[0] > 1.05 * seconds


@pytest.mark.parametrize("words", RULES)
def test_every_rule_has_its_method(words: str) -> None:
    owner, name, _ = RULES[words]
    assert callable(getattr(owner, name))
