"""Generated pages say what the program says, and no page links to a file that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.reference import DOCS, PAGES

ROOT = DOCS.parent
PAGES_WITH_LINKS = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]


@pytest.mark.parametrize("name", PAGES)
def test_generated_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run: make docs"


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r'<img[^>]* src="([^"]+)"', text)
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing


def test_every_command_is_documented() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    for command in ("simulate", "compare", "replay", "stacks", "topology", "bench", "init"):
        assert f"## weft {command}\n" in page
