import math
import re
from pathlib import Path

import pytest

from testkit.draws import share
from testkit.engines import required
from tools.examples import EXAMPLES, ROOT, pages, rendered

# Long contended runs are chaotic: the last bit of one number, which another processor may round differently, moves
# their averages by some percent. Pages about the demo are compared with that in mind, all others to the letter.
DEMO = re.compile(r"^\$ .*(demo\.toml|compare\.py)", re.MULTILINE)
NUMBER = re.compile(r"^[\[(]?-?\d[\d,]*(\.\d+)?[\]),]?$")


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_output_is_as_written(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "README.md" and share() < 1 and not required():
        pytest.skip("40 runs of the demo take a minute: CI makes them, and so does WEFT_THOROUGH=1 make test")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    written, now = page.read_text(encoding="utf-8"), rendered(page)
    if DEMO.search(written):
        assert_near(written, now)
    else:
        assert now == written, "run: make docs"


def assert_near(written: str, now: str) -> None:
    """The same words, and numbers within 15 % (or 0.05, where they are next to nothing)."""
    expected, actual = words(written), words(now)
    assert [w for w in expected if not NUMBER.match(w)] == [w for w in actual if not NUMBER.match(w)], "run: make docs"
    assert len(expected) == len(actual), "run: make docs"
    for a, b in zip(expected, actual, strict=True):
        if NUMBER.match(a):
            assert math.isclose(value(a), value(b), rel_tol=0.15, abs_tol=0.05), f"{a} is now {b}; run: make docs"


def words(text: str) -> list[str]:
    return re.sub(r"[─═╭╮╰╯│║]", " ", text).split()


def value(word: str) -> float:
    return float(word.strip("[](),").replace(",", ""))


def test_a_page_that_is_out_of_date_is_noticed() -> None:
    assert_near("fifo 100.0 [0.9, 1.1]", "fifo  101.0 [0.91, 1.1]")
    for wrong in (
        "srsf 100.0 [0.9, 1.1]",
        "fifo 130.0 [0.9, 1.1]",
        "fifo 100.0 [0.9, 1.4]",
        "fifo 100.0",
        "fifo 100.0 [0.9, high]",
    ):
        with pytest.raises(AssertionError):
            assert_near("fifo 100.0 [0.9, 1.1]", wrong)


def test_every_example_has_a_page() -> None:
    """What it prints, or, for examples that need root and print what they measure, a page that shows them."""
    inputs = [p for p in EXAMPLES.rglob("*") if p.suffix in (".toml", ".json", ".py")]
    assert inputs
    page = (EXAMPLES.parent / "docs" / "real-network.md").read_text(encoding="utf-8")
    shown = [p for p in inputs if p.parent.name == "ddp" and f"examples/ddp/{p.name}" in page]
    assert [p.name for p in inputs if not p.with_suffix(".txt").exists() and p not in shown] == []
