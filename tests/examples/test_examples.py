"""Every example prints what the page beside it says, and so do the commands in the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.examples import EXAMPLES, ROOT, pages, rendered


@pytest.mark.parametrize("page", pages(), ids=lambda p: str(p.relative_to(ROOT)))
def test_output_is_as_written(page: Path) -> None:
    assert rendered(page) == page.read_text(encoding="utf-8"), "run: make docs"


def test_every_example_has_a_page() -> None:
    inputs = [p for p in EXAMPLES.rglob("*") if p.suffix in (".toml", ".json", ".py")]
    assert inputs
    assert [p.name for p in inputs if not p.with_suffix(".txt").exists()] == []
