"""Reading TOML and JSON files with errors a user can act on."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from weft.errors import ScenarioError

__all__ = ["read_json", "read_toml"]


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table."""
    try:
        return tomllib.loads(_read_text(path, f"write one with: weft init {path}"))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: not valid TOML: {_lower(str(error))}; mend that line") from None
    except RecursionError:
        raise ScenarioError(f"{path}: not valid TOML: nested too deeply; flatten it") from None


def read_json(path: Path, kind: str, command: str, shape: str) -> dict[str, Any]:
    """A JSON file whose top level is an object; a key written twice is an error, not a silent choice.

    What kind of file it is, which command reads it and the shape of its top level go into what a user is told.
    """
    text = _read_text(path, f"give the path of a {kind} (see: {command} --help)")
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _object(path, pairs))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ScenarioError(f"{path}: not valid JSON: {_lower(error.msg)} at {where}; mend that line") from None
    except RecursionError:
        raise ScenarioError(f"{path}: not valid JSON: nested too deeply; flatten it") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ScenarioError(
            f"{path}: not valid JSON: {_lower(str(error)).split(';')[0]}; shorten that number"
        ) from None
    if not isinstance(value, dict):
        raise ScenarioError(f"{path}: the top level is not an object; write {shape}")
    return value


def _object(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ScenarioError(f'{path}: the key "{twice}" is written twice in one object; rename or remove one')
    return table


def _read_text(path: Path, remedy: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file; {remedy}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{path}: is a directory; {remedy}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    except ValueError:
        raise ScenarioError(f"{str(path)!r}: not a file name; {remedy.split(':')[0]}") from None


def _lower(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].lower() + text[1:]
