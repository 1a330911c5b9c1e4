"""Expected output of examples and documentation: python -m tools.examples runs their commands and writes it.

A page is a text file beside the example: lines that start with "$ " are commands, run in the page's folder, and what
follows each is its stdout. In Markdown pages, fenced blocks that start with "$ " are the same, run in the repository's
root. Wall-clock times are masked.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"

BLOCK = re.compile(r"^```text\n(\$ .*?)^```\n", re.MULTILINE | re.DOTALL)
MASKS = (
    (re.compile(r'("wall_s": )[-+.\de]+'), r"\g<1>0.0"),
    (re.compile(r"(took +)\S+ \S+"), r"\g<1>some time"),
    (re.compile(r"\S+ s of wall time"), "some wall time"),
)


def pages() -> list[Path]:
    """All pages with commands in them."""
    markdown = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [*sorted(EXAMPLES.rglob("*.txt")), *(page for page in markdown if BLOCK.search(page.read_text("utf-8")))]


def rendered(page: Path) -> str:
    """The page with the output of its commands as it is now."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return BLOCK.sub(lambda match: f"```text\n{transcript(match[1], ROOT)}```\n", text)
    return transcript(text, page.parent)


def transcript(text: str, folder: Path) -> str:
    """The commands in a text, each followed by what it prints."""
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    if not commands:
        raise SystemExit(f"{folder}: a page has no command; write one as: $ weft ...")
    return "\n".join(f"$ {command}\n{output(command, folder)}" for command in commands)


def output(command: str, folder: Path) -> str:
    """What a command prints, without trailing blanks and wall-clock times."""
    program, *arguments = shlex.split(command)
    start = {"weft": [sys.executable, "-m", "weft"], "python": [sys.executable]}[program]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(
        [*start, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{folder}: {command}: exit code {done.returncode}: {done.stderr.strip()}")
    text = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text


def main() -> None:
    """Write every page anew."""
    for page in pages():
        page.write_text(rendered(page), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
