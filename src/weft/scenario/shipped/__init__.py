"""Scenarios that come with weft: the set-ups of papers, as files that anyone can copy and change."""

from __future__ import annotations

from pathlib import Path

from weft.errors import InputError

_FOLDER = Path(__file__).parent


def scenario_path(name: str) -> Path:
    """The file of that name."""
    path = _FOLDER / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in _FOLDER.glob("*.toml")))
        raise InputError(f"there is no shipped scenario {name}; known are {known}")
    return path
