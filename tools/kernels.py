"""What `make bounds` runs on, as one hash: python -m tools.kernels prints it. `.ci/kernels.passed` holds that of the
last state that has passed; `.ci/run` runs `make bounds` where they differ."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

from weft import kernels

ROOT = Path(__file__).resolve().parent.parent


def files(root: Path = ROOT) -> list[Path]:
    """The kernels, what they are compiled from, what hands memory to them, what tests hold them against, and the
    tests that `make bounds` runs."""
    (words,) = re.findall(r"^KERNELS *:= (.*)$", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    folders = [root / word for word in words.split() if not word.startswith("--")]
    rooms = {file.parent for file in (root / "src").rglob("*_kernel.py")}
    found = {file for folder in (*folders, *rooms, root / "src/weft/sim/engine") for file in folder.rglob("*.py")}
    found |= {*(root / "tests" / "sim").glob("*.py"), *(root / "testkit" / "oracles").glob("*.py")}
    found |= {*(root / "live" / "src" / "weft_live" / "flow").glob("*.py")}
    found |= {root / "testkit" / name for name in ("draws.py", "paced.py")}
    for folder in rooms:
        found |= {*kernels.sources(".".join(folder.relative_to(root / "src").parts))}
    return sorted(found)


def digest(root: Path = ROOT) -> str:
    """Independent of the machine and of where the sources lie."""
    result = hashlib.sha256()
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (numba,) = (line for line in project["dependencies"] if line.startswith("numba"))
    result.update(numba.encode())
    for file in files(root):
        result.update(f"{file.relative_to(root)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return result.hexdigest()


if __name__ == "__main__":
    print(digest())
