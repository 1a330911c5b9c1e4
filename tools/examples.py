"""Expected output of examples and documentation: python -m tools.examples runs their commands and writes it.

A page is a text file beside the example: lines that start with "$ " are commands, run in the page's folder, and what
follows each is its stdout. In Markdown pages, fenced blocks that start with "$ " are the same, run in the repository's
root. Wall-clock times are masked.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

from weft.cli.main import run

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
    """What a command prints on stdout, without trailing blanks and wall-clock times."""
    program, *arguments = shlex.split(command)
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        code = run(arguments) if program == "weft" else _script(arguments[0])
    if code != 0:
        raise SystemExit(f"{folder}: {command}: exit code {code}: {said.getvalue().strip()}")
    text = "".join(f"{line.rstrip()}\n" for line in printed.getvalue().splitlines())
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text


def _script(path: str) -> int:
    """A Python script in a process of its own, as its reader would start it."""
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


def main() -> None:
    """Write every page anew."""
    for page in pages():
        page.write_text(rendered(page), encoding="utf-8")
        print(f"wrote {page.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
