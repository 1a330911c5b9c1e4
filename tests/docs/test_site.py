"""What `make site` is told by tools/site.py; that it builds without a warning, `make site` itself says."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tools import site

DOCS = Path(__file__).parents[2] / "docs"


def pages(items: list[Any]) -> list[str]:
    """All pages of a navigation, in its order."""
    found: list[str] = []
    for item in items:
        found += [item] if isinstance(item, str) else [page for below in item.values() for page in pages(below)]
    return found


def test_every_page_has_one_place() -> None:
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert sorted(pages(site.navigation())) == sorted(there | set(site.OUTSIDE) | {"python.md"})
    sections = [next(iter(section)) for section in site.navigation()]
    assert sections[:6] == ["Start", "For researchers", "For operators", "Reference", "Evidence", "Design"]


def test_pages_may_come_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "papers" / "one").mkdir(parents=True)
    for name in ("tutorial.md", "new.md", "papers/one.md", "papers/one/README.md"):
        (tmp_path / name).write_text("# Page\n")
    monkeypatch.setattr(site, "DOCS", tmp_path)
    found = {name: below for section in site.navigation() for name, below in section.items()}
    assert found["Start"] == ["index.md", "tutorial.md"]
    assert found["Evidence"] == ["papers/one/README.md", "papers/one.md"]
    assert found["More"] == ["new.md"]


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("index.md", "docs/tutorial.md", "tutorial.md"),
        ("index.md", "benchmarks/README.md", "benchmarks.md"),
        ("index.md", "LICENSE", "files/LICENSE"),
        ("tutorial.md", "../README.md", "index.md"),
        ("tutorial.md", "../examples/all.txt", "files/examples/all.txt"),
        ("baselines/tiresias.md", "../../examples/all.txt", "../files/examples/all.txt"),
        ("benchmarks.md", "../docs/design.md", "design.md"),
        ("design.md", "https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_as_the_site_has_them(page: str, link: str, there: str) -> None:
    class Page:
        class file:  # noqa: N801
            src_uri = page

    assert (
        site.on_page_markdown(f"see [it]({link}#part)", page=Page, config=None, files=None) == f"see [it]({there}#part)"
    )  # type: ignore[arg-type]


def test_the_python_page_names_what_is_there() -> None:
    pytest.importorskip("gymnasium", reason="make dev installs it")
    for shown, module, names in site.PYTHON.values():
        for name in names.split():
            value = getattr(import_module(module), name)
            assert value.__doc__
            assert getattr(import_module(shown), name) is value
