"""Slurm's topology.conf as text: lines into switches or blocks, checked, before anything is built from them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from weft.errors import InputError
from weft.model.topologies.checks import MAX_SERVERS
from weft.model.topologies.hostlist import expand

__all__ = ["Block", "Switch", "parse_topology_conf"]

_TOKEN = re.compile(r'\s*([A-Za-z0-9_]+)\s*=\s*("[^"]*"|[^\s"]+)(?=\s|$)')
_SPEED = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(?:g|gb|gbps|gbit/s)?\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Switch:
    """A SwitchName line: it lists nodes (a leaf) or switches, never both."""

    line: int
    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    link_gbps: float | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A BlockName line: nodes that Slurm's block plugin keeps together."""

    line: int
    name: str
    nodes: tuple[str, ...]


def parse_topology_conf(text: str, source: str) -> list[Switch] | list[Block]:
    """The switches, or the blocks, of a topology.conf in the order of the file.

    Every refusal names the source and the line. Nodes appear once, switches exist and make no loop, and every node can
    reach every other.
    """
    switches: list[Switch] = []
    blocks: list[Block] = []
    for line, content in _logical_lines(text):
        fields = _fields(content, source, line)
        if "switchname" in fields:
            switches.append(_switch(fields, source, line))
        elif "blockname" in fields:
            blocks.append(_block(fields, source, line))
        elif set(fields) == {"blocksizes"}:
            _check_block_sizes(fields["blocksizes"], source, line)
        else:
            raise _wrong(source, line, "it begins with neither SwitchName, BlockName nor BlockSizes; remove it")
    if switches and blocks:
        raise _wrong(source, blocks[0].line, "switches and blocks in one file; keep the lines of one plugin")
    _check_names(switches or blocks, source)
    if blocks:
        return blocks
    if not switches:
        raise InputError(f"{source}: it has no SwitchName or BlockName line; give at least one")
    _check_tree({switch.name: switch for switch in switches}, source)
    return switches


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of its first line, content) without comments, with continued lines joined."""
    begun, held = 0, ""
    for number, raw in enumerate(text.split("\n"), start=1):
        content = raw.split("#", 1)[0].rstrip()
        begun = begun or number
        if content.endswith("\\"):
            held += content[:-1] + " "
            continue
        if (held + content).strip():
            yield begun, held + content
        begun, held = 0, ""
    if held.strip():
        yield begun, held


def _fields(content: str, source: str, line: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    at = 0
    content = content.strip()
    while at < len(content):
        match = _TOKEN.match(content, at)
        if match is None:
            raise _wrong(source, line, f"{content[at : at + 40].strip()!r} is not Name=value; write it so")
        name = match[1].lower()
        if name not in ("switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"):
            raise _wrong(
                source, line, f"{match[1]!r} is unknown; use SwitchName, Nodes, Switches, LinkSpeed, BlockName"
            )
        if name in fields:
            raise _wrong(source, line, f"{match[1]} is there twice; keep one")
        fields[name] = match[2].strip('"').strip()
        at = match.end()
    return fields


def _switch(fields: Mapping[str, str], source: str, line: int) -> Switch:
    name = _name(fields["switchname"], "SwitchName", source, line)
    if "blockname" in fields or "blocksizes" in fields:
        raise _wrong(source, line, f"switch {name} with a block's field; keep the fields of one plugin")
    if ("nodes" in fields) == ("switches" in fields):
        raise _wrong(source, line, f"switch {name} needs either Nodes or Switches; give exactly one of them")
    speed = fields.get("linkspeed")
    gbps: float | None = None
    if speed is not None:
        match = _SPEED.match(speed)
        gbps = float(match[1]) if match else 0.0
        if match and gbps == 0:  # newer versions show 0 where no speed was given
            gbps = None
        elif not 1e-9 <= gbps <= 1e9:
            raise _wrong(source, line, f"LinkSpeed is {speed[:40]!r}; give Gbit/s as a number, such as 400")
    nodes = _hosts(fields["nodes"], source, line) if "nodes" in fields else ()
    switches = _hosts(fields["switches"], source, line) if "switches" in fields else ()
    return Switch(line, name, nodes, switches, gbps)


def _block(fields: Mapping[str, str], source: str, line: int) -> Block:
    name = _name(fields["blockname"], "BlockName", source, line)
    if set(fields) != {"blockname", "nodes"}:
        raise _wrong(source, line, f"block {name} needs Nodes and nothing else; write BlockName=b1 Nodes=n[1-4]")
    return Block(line, name, _hosts(fields["nodes"], source, line))


def _check_block_sizes(value: str, source: str, line: int) -> None:
    for size in value.split(","):
        if not (size.isascii() and size.isdigit() and int(size[:9]) > 0):
            raise _wrong(source, line, f"BlockSizes has {size[:40]!r}; give whole numbers, such as 18,36")


def _name(value: str, key: str, source: str, line: int) -> str:
    names = _hosts(value, source, line)
    if len(names) != 1:
        raise _wrong(source, line, f"{key} is {value[:40]!r}; name one per line")
    return names[0]


def _hosts(value: str, source: str, line: int) -> tuple[str, ...]:
    try:
        return tuple(expand(value))
    except InputError as error:
        raise _wrong(source, line, str(error)) from None


def _check_names(rows: list[Switch] | list[Block], source: str) -> None:
    """Each node and each switch once, and no node called like a switch."""
    seen: dict[str, int] = {}
    for row in rows:
        if row.name in seen:
            raise _wrong(source, row.line, f"{row.name!r} is there already on line {seen[row.name]}; rename one")
        seen[row.name] = row.line
    n_nodes = 0
    for row in rows:
        for node in row.nodes:
            if node in seen:
                raise _wrong(source, row.line, f"{node!r} is there already on line {seen[node]}; list each name once")
            seen[node] = row.line
        n_nodes += len(row.nodes)
        if n_nodes > MAX_SERVERS:
            raise _wrong(source, row.line, f"more than {MAX_SERVERS} nodes so far; shorten the file")


def _check_tree(switches: Mapping[str, Switch], source: str) -> None:
    """Children exist, nothing is above itself, and all nodes are joined."""
    for switch in switches.values():
        for child in switch.switches:
            if child not in switches:
                raise _wrong(source, switch.line, f"switch {child!r} has no line of its own; add SwitchName={child}")
        if len(set(switch.switches)) < len(switch.switches):
            raise _wrong(source, switch.line, f"switch {switch.name} lists a child twice; list it once")
    waiting = dict(switches)
    while waiting:
        ready = [name for name, s in waiting.items() if not any(child in waiting for child in s.switches)]
        if not ready:
            first = next(iter(waiting.values()))
            raise _wrong(
                source, first.line, f"switch {first.name} is, by a loop, above itself; remove one of its children"
            )
        for name in ready:
            del waiting[name]
    first = next(iter(switches.values()))
    joined = _joined_to(first.name, switches)
    for switch in switches.values():
        if switch.name not in joined:
            both = f"{first.name} (line {first.line}) and {switch.name}"
            raise _wrong(source, switch.line, f"no path joins {both}; add a SwitchName line over both")


def _joined_to(start: str, switches: Mapping[str, Switch]) -> set[str]:
    neighbours: dict[str, list[str]] = {name: list(s.switches) for name, s in switches.items()}
    for switch in switches.values():
        for child in switch.switches:
            neighbours[child].append(switch.name)
    joined, frontier = {start}, [start]
    while frontier:
        for name in neighbours[frontier.pop()]:
            if name not in joined:
                joined.add(name)
                frontier.append(name)
    return joined


def _wrong(source: str, line: int, why: str) -> InputError:
    return InputError(f"{source}, line {line}: {why}")
