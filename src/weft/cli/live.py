"""What the commands about a live run share: its folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

DirOption = Annotated[
    Path | None,
    typer.Option("--dir", metavar="DIR", help="Folder of the run (default: WEFT_DIR, or weft in ~/.local/state)."),
]


def run_folder(given: Path | None) -> Path:
    """The folder that was given, or the user's own."""
    if given is not None:
        return given
    if own := os.environ.get("WEFT_DIR"):
        return Path(own)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "weft"
