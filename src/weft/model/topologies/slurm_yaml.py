"""Slurm's topology.yaml (since 25.05), as the topology.conf that says the same.

Only as much of YAML is read as such a file has: mappings, lists of mappings, lists in brackets, comments and quotes.
"""

from __future__ import annotations

import re
from typing import Any

from weft.errors import InputError

__all__ = ["as_topology_conf"]

_KEY = re.compile(r"""(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*:(?:\s+(.*))?$""")


def as_topology_conf(text: str, source: str = "topology.yaml") -> str:
    """The lines of a topology.conf for the default topology of a topology.yaml, or for its first one."""
    entries = _parse(text, source)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries) or not entries:
        raise InputError(f"{source}: it is no list of topologies; a topology.yaml begins with - topology: NAME")
    chosen = next((entry for entry in entries if entry.get("cluster_default") == "true"), entries[0])
    if "tree" in chosen:
        rows = _rows(chosen["tree"], "switches", source)
        return "".join(_switch(row, source) for row in rows)
    if "block" in chosen:
        rows = _rows(chosen["block"], "blocks", source)
        return "".join(f"BlockName={_need(row, 'block', source)} Nodes={_need(row, 'nodes', source)}\n" for row in rows)
    if "flat" in chosen:
        return ""
    raise InputError(f"{source}: topology {chosen.get('topology')!r} is neither a tree nor blocks; those are read")


def _switch(row: dict[str, Any], source: str) -> str:
    below = f"Switches={row['children']}" if row.get("children") else f"Nodes={_need(row, 'nodes', source)}"
    speed = f" LinkSpeed={row['link_speed']}" if row.get("link_speed") else ""
    return f"SwitchName={_need(row, 'switch', source)} {below}{speed}\n"


def _rows(value: Any, name: str, source: str) -> list[dict[str, Any]]:
    rows = value.get(name) if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source}: {name} is missing or no list; write one entry for each")
    return rows


def _need(row: dict[str, Any], key: str, source: str) -> str:
    value = row.get(key)
    if isinstance(value, list):
        return ",".join(map(str, value))
    if not isinstance(value, str) or not re.fullmatch(r"[^\s=]+", value):
        raise InputError(f"{source}: {key} is {value!r:.60}; give a name or a list of hosts")
    return value


def _parse(text: str, source: str) -> Any:
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*$", "", line).rstrip()
        if bare.strip() and bare.strip() != "---":
            if "\t" in bare[: len(bare) - len(bare.lstrip())]:
                raise InputError(f"{source}: line {number}: is indented with a tab; YAML takes blanks")
            lines.append((number, len(bare) - len(bare.lstrip()), bare.strip()))
    value, rest = _block(lines, 0, lines[0][1] if lines else 0, source)
    if rest < len(lines):
        raise InputError(f"{source}: line {lines[rest][0]}: does not belong to what is above it; check its indentation")
    return value


def _block(lines: list[tuple[int, int, str]], at: int, indent: int, source: str, depth: int = 0) -> tuple[Any, int]:
    """What begins at a line, and the line after it; a list if its entries begin with a dash, else a mapping."""
    if depth > 20:
        raise InputError(f"{source}: line {lines[at][0]}: is nested too deep for a topology")
    found_list: list[Any] = []
    found: dict[str, Any] = {}
    while at < len(lines) and lines[at][1] == indent:
        number, _, text = lines[at]
        if text == "-" or text.startswith("- "):
            inner = text[1:].strip()
            lines[at] = (number, indent + 1 + len(text[1:]) - len(text[1:].lstrip()), inner)
            if inner and not _KEY.match(inner):
                found_list.append(_scalar(inner))
                at += 1
                continue
            value, at = _block(lines, at if inner else at + 1, _next_indent(lines, at, inner), source, depth + 1)
            found_list.append(value)
            continue
        match = _KEY.match(text)
        if match is None or found_list:
            raise InputError(f"{source}: line {number}: {text!r:.60} is not KEY: VALUE")
        key = match[1] or match[2] or match[3]
        at += 1
        if match[4]:
            found[key] = _scalar(match[4])
        elif at < len(lines) and (lines[at][1] > indent or (lines[at][1] == indent and lines[at][2].startswith("-"))):
            found[key], at = _block(lines, at, lines[at][1], source, depth + 1)
        else:
            found[key] = ""
    return (found_list or found), at


def _next_indent(lines: list[tuple[int, int, str]], at: int, inner: str) -> int:
    return lines[at][1] if inner else lines[at + 1][1] if at + 1 < len(lines) else 0


def _scalar(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part) for part in text[1:-1].split(",") if part.strip()]
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
