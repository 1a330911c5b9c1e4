import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tools.reference import DOCS, PAGES
from weft import __version__
from weft.cli.main import app
from weft.stacks.registry import BUILT_IN, LAYERS

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
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        if "://" not in target:
            there = (page.parent / target if target else page).read_text(encoding="utf-8")
            headings = re.findall(r"^#+ (.+)$", there, re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}, target


GENERATED = re.compile(r"<!-- (\w+)( [\w-]+)? -->.*?<!-- /\1\2? -->|^```text\n\$ .*?^```$", re.MULTILINE | re.DOTALL)


def hand_written(page: Path) -> int:
    """Words that somebody wrote: not those that `make docs` and `python -m weft_evidence.pages` write."""
    words = GENERATED.sub("", page.read_text(encoding="utf-8")).split()
    return sum(any(map(str.isalnum, word)) for word in words)


def test_what_there_is_to_read_is_bounded() -> None:
    """40,000 words in all; a page of docs/ takes five minutes, at 280 words a minute."""
    words = {page: hand_written(page) for page in PAGES_WITH_LINKS if page not in {DOCS / name for name in PAGES}}
    assert sum(words.values()) <= 40_000
    assert {page.name: n for page, n in words.items() if page.is_relative_to(DOCS) and n > 1400} == {}


def test_every_built_in_policy_is_in_the_matrix_and_no_page_of_a_baseline_is_long() -> None:
    page = (DOCS / "policies.md").read_text(encoding="utf-8")
    for layer in LAYERS:
        for name in BUILT_IN[layer]:
            assert page.count(f"| `{name}` |") == sum(name in BUILT_IN[other] for other in LAYERS), name
    pages = {path.name: path.read_text(encoding="utf-8").split() for path in (DOCS / "baselines").glob("*.md")}
    assert {name for name, words in pages.items() if sum(any(map(str.isalnum, word)) for word in words) > 600} == set()
    assert {name.removesuffix(".md") for name in pages} <= {name for layer in LAYERS for name in BUILT_IN[layer]}


@pytest.mark.parametrize("page", PAGES_WITH_LINKS, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_named_on_a_page_exist(page: Path) -> None:
    """A page names files of the code by their path from the top, or from within a package."""
    if page.name == "CHANGELOG.md":  # says what was
        return
    packages = [ROOT / "src/weft", ROOT / "live/src/weft_live", ROOT / "evidence/src/weft_evidence"]
    bases = [page.parent, ROOT, *packages, *(package.parent for package in packages), ROOT / "src/weft/policies"]
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*/[a-z_]+\.py)`", page.read_text(encoding="utf-8")))
    assert sorted(name for name in named if not any((base / name).exists() for base in bases)) == []


def test_every_command_is_documented() -> None:
    page = (DOCS / "commands.md").read_text(encoding="utf-8")
    commands = list(typer.main.get_command(app()).commands)  # type: ignore[attr-defined]
    assert {"simulate", "compare", "replay", "stacks", "topology", "init"} <= set(commands)
    for command in commands:
        assert f"## weft {command}\n" in page or f"## weft {command} " in page


def test_readme_is_in_the_order_its_readers_need() -> None:
    """The two commands, the table and the picture that they give, the things people come for."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    first = re.search(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert first is not None
    assert first.start() == len("# weft\n\n")
    assert [" ".join(line.split()[:2]) for line in first[1].splitlines()] == ["make demo", "make test"]
    marks = ["$ weft compare examples/demo.toml", "<img ", "## What people come for"]
    assert sorted(marks, key=text.index) == marks
    section = text[text.index(marks[-1]) :].removeprefix(marks[-1]).partition("\n## ")[0]
    assert re.findall(r"^\*\*(.+?)\.\*\*", section, re.MULTILINE) == [
        "Compare schedulers on my cluster and trace", "Ask what to run on my cluster",
        "Write my own policy in 20 lines", "Run it on my Slurm cluster",
    ]  # fmt: skip


def test_all_say_the_same_version() -> None:
    packages = ("pyproject.toml", "live/pyproject.toml", "evidence/pyproject.toml")
    found = [tomllib.loads((ROOT / name).read_text(encoding="utf-8"))["project"] for name in packages]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {project["version"] for project in found} | {cited["version"]} == {__version__}
    ours = [line for project in found for line in (*project["dependencies"], *_extras(project)) if line[:4] == "weft"]
    assert [line.partition("==")[2] for line in ours] == [__version__] * len(ours)


def _extras(project: dict[str, Any]) -> list[str]:
    return [line for lines in project.get("optional-dependencies", {}).values() for line in lines]
