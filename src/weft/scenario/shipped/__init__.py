"""Scenarios that come with weft: the set-ups of papers, as files that anyone can copy and change."""

from __future__ import annotations

from pathlib import Path

from weft.errors import InputError

_FOLDER = Path(__file__).parent


def names() -> list[str]:
    """What they are called."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def scenario_path(name: str) -> Path:
    """The file of that name."""
    if name not in names():
        raise InputError(f"there is no shipped scenario {name}; known are {', '.join(names())}")
    return _FOLDER / f"{name}.toml"
