"""`make constraints`: the versions in an environment, as constraints for pip; run as a module, it writes them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "constraints.txt"
HEAD = "# What weft is tested with. make newest tries what has come since, make constraints takes it over.\n"
LEFT_OUT = {"torch"}  # its version stands in the Makefile, and depends on where it comes from


def constraints(frozen: str) -> str:
    """What pip freeze says, without packages that come from a folder or an address."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)$", frozen, re.MULTILINE)
    lines = [f"{name}=={version}\n" for name, version in pinned if name.lower() not in LEFT_OUT]
    return HEAD + "".join(sorted(lines, key=str.lower))


if __name__ == "__main__":
    frozen = subprocess.run([sys.executable, "-m", "pip", "freeze"], capture_output=True, text=True, check=True)
    FILE.write_text(constraints(frozen.stdout), encoding="utf-8")
