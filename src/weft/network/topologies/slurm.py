"""Slurm's topology.conf as text, and topology.yaml (since 25.05) as the topology.conf that says the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from weft.errors import InputError
from weft.network.topologies.fabric import MAX_SERVERS
from weft.network.topologies.hostlist import expand

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
    try:
        upwards(switches)
    except CycleError as error:
        looped = switches[error.args[1][0]]
        why = f"switch {looped.name} is, by a loop, above itself; remove one of its children"
        raise _wrong(source, looped.line, why) from None
    first = next(iter(switches.values()))
    joined = _joined_to(first.name, switches)
    for switch in switches.values():
        if switch.name not in joined:
            both = f"{first.name} (line {first.line}) and {switch.name}"
            raise _wrong(source, switch.line, f"no path joins {both}; add a SwitchName line over both")


def upwards(switches: Mapping[str, Switch]) -> list[str]:
    """Names of the switches, each after those below it."""
    return list(TopologicalSorter({name: switch.switches for name, switch in switches.items()}).static_order())


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


def as_topology_conf(text: str, source: str = "topology.yaml") -> str:
    """The lines of a topology.conf for the default topology of a topology.yaml, or for its first one."""
    entries = _parse(text, source)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries) or not entries:
        raise InputError(f"{source}: it is no list of topologies; a topology.yaml begins with - topology: NAME")
    chosen = next((entry for entry in entries if entry.get("cluster_default") == "true"), entries[0])
    if "tree" in chosen:
        rows = _rows(chosen["tree"], "switches", source)
        return "".join(_yaml_switch(row, source) for row in rows)
    if "block" in chosen:
        rows = _rows(chosen["block"], "blocks", source)
        return "".join(f"BlockName={_need(row, 'block', source)} Nodes={_need(row, 'nodes', source)}\n" for row in rows)
    if "flat" in chosen:
        return ""
    raise InputError(f"{source}: topology {chosen.get('topology')!r} is none that weft reads: a tree or blocks")


def _yaml_switch(row: dict[str, Any], source: str) -> str:
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
    """YAML in which every scalar is text: names of hosts may look like numbers."""
    import yaml  # next to no run reads any

    try:
        return yaml.load(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InputError(f"{source}: line {line}: it is no YAML ({error.problem or error.context})") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{source}: it is no YAML ({str(error).splitlines()[0]})") from None
