"""Hooks of mkdocs.yml: the site's navigation, the pages that lie outside docs/, and links as the site has them.

Links in the repository lead from file to file. What they lead to outside docs/ is copied: pages under a name of their
own (`OUTSIDE`), everything else below files/.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r'(\]\(|<img[^>]* src=")([^)"\s#]+)')
OUTSIDE = {
    "index.md": "README.md", "benchmarks.md": "benchmarks/README.md", "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md", "changelog.md": "CHANGELOG.md",
}  # fmt: skip
# Sections and their pages; a page that is not there is left out, one that is named nowhere stands under "More".
NAV: dict[str, tuple[str, ...]] = {
    "Start": ("index.md", "summary.md", "tutorial.md"),
    "For researchers": ("policy-in-20-lines.md", "learning.md", "stacks.md", "stack-weft.md", "stack-weft-rules.md",
                        "traces.md", "workloads.md", "models.md", "profiles.md", "adding-a-paper.md"),
    "For operators": ("advise.md", "slurm.md", "slurm-stacks.md", "slurm-cases.md", "live.md",
                      "agents.md", "real-network.md"),
    "Reference": ("commands.md", "scenario.md", "python.md", "api.md"),
    "Evidence": ("verdicts.md",),
    "Design": ("design.md", "words.md", "physics.md", "speed.md", "benchmarks.md", "contributing.md", "security.md",
               "changelog.md"),
}  # fmt: skip
# Headings, and below them: where names are imported from, where they are defined, the names.
PYTHON = {
    "Runs": ("weft", "weft.api", "simulate compare sweep replay Comparison Sweep"),
    "Combinations": ("weft", "weft.runs.cross", "cross Cross"),
    "Results": ("weft", "weft.results.run", "RunResult"),
    "Scenarios": ("weft", "weft.scenario.scenario", "Scenario"),
    "In a training script": ("weft", "weft.training", "progress resume_step"),
    "Learned policies": ("weft.learning", "weft.learning.chooser", "Chooser Seen"),
    "Learned policies: the environment": ("weft.learning", "weft.learning.env", "QueueEnv"),
    "Policies": ("weft.model.policy", "weft.model.policy", "Policy setting"),
    "Order": ("weft.policies.order.base", "weft.policies.order.base", "Order Ranking Claim"),
    "Place": ("weft.policies.place.base", "weft.policies.place.base", "Place Answer"),
    "Joint planners": ("weft.policies.planners.base", "weft.policies.planners.base", "Planner"),
    "Interleave": ("weft.policies.interleave.base", "weft.policies.interleave.base", "Interleave Pick"),
    "Pace": ("weft.policies.pace.base", "weft.policies.pace.base", "Pace Admission"),
    "Route": ("weft.policies.route.base", "weft.policies.route.base", "Route Routing"),
    "Conformance": (
        "weft.testing",
        "weft.testing.check_policies",
        "check_order check_place check_planner check_interleave check_pace",
    ),
    "Errors": ("weft", "weft.errors", "WeftError"),
}


def on_config(config: Any) -> Any:
    """The navigation, from what is there."""
    config.nav = navigation()
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add what lies outside docs/."""
    from mkdocs.structure.files import File

    for uri, path in OUTSIDE.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    files.append(File.generated(config, "python.md", content=python_page()))
    for path in sorted(linked()):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Links as the site has them."""
    uri = page.file.src_uri
    return LINK.sub(lambda m: m[1] + _on_the_site(m[2], uri), markdown)


def navigation() -> list[dict[str, Any]]:
    """Sections with their pages, as mkdocs takes them."""
    there = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} | set(OUTSIDE) | {"python.md"}
    sections: dict[str, list[Any]] = {name: [page for page in pages if page in there] for name, pages in NAV.items()}
    papers = _folder(there, "papers")
    sections["Evidence"] += sorted(papers, key=lambda page: (not page.endswith("README.md"), page))
    sections["Evidence"] += _folder(there, "measured")
    policies = _folder(there, "baselines")
    if policies:
        sections["Reference"].append({"Policies from papers": policies})
    named = {page for pages in sections.values() for page in pages if isinstance(page, str)} | set(policies)
    sections["More"] = sorted(there - named)
    return [{name: pages} for name, pages in sections.items() if pages]


def python_page() -> str:
    """The page of the Python API: docstrings, from the code."""
    parts = ["# Python API\n\nWhat `import weft` offers, and the bases of policies. Examples run in the tests."]
    for title, (shown, module, names) in PYTHON.items():
        parts.append(f"## {title}")
        parts += [f"::: {module}.{name}\n    options:\n      heading: {shown}.{name}" for name in names.split()]
    return "\n\n".join(parts) + "\n"


def linked() -> set[str]:
    """Files outside docs/ that pages lead to, from the repository's root."""
    found = set()
    for uri in [*(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")), *OUTSIDE]:
        for _, target in LINK.findall(_source(uri).read_text(encoding="utf-8")):
            path = _path(target, uri)
            if path is not None and path.is_file() and not path.is_relative_to(DOCS) and path not in _pages():
                found.add(str(path.relative_to(ROOT)))
    return found


def _folder(there: Iterable[str], folder: str) -> list[str]:
    return sorted(page for page in there if page.startswith(f"{folder}/"))


def _pages() -> dict[Path, str]:
    return {ROOT / path: uri for uri, path in OUTSIDE.items()}


def _source(uri: str) -> Path:
    """The file of a page."""
    return ROOT / OUTSIDE[uri] if uri in OUTSIDE else DOCS / uri


def _path(target: str, uri: str) -> Path | None:
    """Where a link leads in the repository; None if it leads elsewhere."""
    if "://" in target or target.startswith("mailto:"):
        return None
    return (_source(uri).parent / target).resolve()


def _on_the_site(target: str, uri: str) -> str:
    path = None if uri == "python.md" else _path(target, uri)
    if path is None:
        return target
    if path.is_dir():
        pages = _folder((str(p.relative_to(DOCS)) for p in path.rglob("*.md")), str(path.relative_to(DOCS)))
        there = pages[0] if pages else target
    elif path in _pages():
        there = _pages()[path]
    elif path.is_relative_to(DOCS):
        there = str(path.relative_to(DOCS))
    else:
        there = f"files/{path.relative_to(ROOT)}"
    return posixpath.relpath(there, posixpath.dirname(uri) or ".")
