"""PipeDream profiles (`graph.txt`): operators with times, activation and parameter sizes, and the edges between them.

One line per operator, `nodeN -- description -- forward_compute_time=ms, backward_compute_time=ms,
activation_size=bytes, parameter_size=bytes`, then tab-indented lines `nodeA -- nodeB`. A size may be a list,
`[a; b; c]`, of several outputs. The result is a Work, which every way to parallelise takes. Operators called Input
are left out: their time is data loading (and dominates some files).
"""

from __future__ import annotations

import graphlib
import math
import re
from pathlib import Path

from weft.errors import TraceError
from weft.workload.graphs.work import LayerWork, Work
from weft.workload.profiles.layers import read_text

__all__ = ["parse_pipedream", "read_pipedream"]

_NODE = re.compile(r"(node\d+) -- (.*) -- (forward_compute_time=.*)")
_EDGE = re.compile(r"\s+(node\d+) -- (node\d+)\s*")
_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")


def read_pipedream(path: str | Path, *, batch: int = 0, keep_input: bool = False) -> Work:
    """Read a PipeDream profile (plain or gzip); the file does not say its batch size."""
    return parse_pipedream(read_text(path), str(path), batch=batch, keep_input=keep_input)


def parse_pipedream(text: str, path: str = "graph.txt", *, batch: int = 0, keep_input: bool = False) -> Work:
    """Parse the text of a PipeDream profile; operators come in an order that follows the edges."""
    nodes: dict[str, LayerWork] = {}
    before: dict[str, list[str]] = {}
    for n, line in enumerate(text.splitlines(), 1):
        if node := _NODE.fullmatch(line.rstrip()):
            if node[1] in nodes:
                raise TraceError(f"{path}: line {n}: {node[1]} is there twice; remove one")
            nodes[node[1]] = _operator(node[1], node[2], node[3], path, n)
            before.setdefault(node[1], [])
        elif edge := _EDGE.fullmatch(line):
            for end in (edge[1], edge[2]):
                if end not in nodes:
                    raise TraceError(f"{path}: line {n}: an edge names {end}, which no line above describes")
            before[edge[2]].append(edge[1])
        elif line.strip():
            raise TraceError(f"{path}: line {n}: it is neither an operator nor an edge; remove or correct it")
    try:
        turn = list(graphlib.TopologicalSorter(before).static_order())
    except graphlib.CycleError as error:
        raise TraceError(f"{path}: its edges run in a circle; correct them") from error
    layers = tuple(nodes[name] for name in turn if keep_input or not nodes[name].name.startswith("Input"))
    if not layers:
        raise TraceError(f"{path}: it has no operators; add lines like nodeN -- name -- forward_compute_time=...")
    name = Path(path).name.removesuffix(".gz").removesuffix(".graph.txt")
    return Work(name, layers, batch, source=f"PipeDream profile {Path(path).name}")


def _operator(node: str, what: str, numbers: str, path: str, n: int) -> LayerWork:
    values: dict[str, float] = {}
    for part in numbers.split(", "):
        key, _, text = part.partition("=")
        try:
            values[key] = sum(float(item) for item in text.strip("[]").split(";"))
        except ValueError as error:
            raise TraceError(f"{path}: line {n}: {key} is {text!r}; it must be a number") from error
    for key in _FIELDS:
        if not 0 <= values.get(key, math.nan) < math.inf:
            raise TraceError(f"{path}: line {n}: {node} has no {key} of at least 0; add it")
    forward_ms, backward_ms, activation, parameters = (values[key] for key in _FIELDS)
    return LayerWork(what, forward_ms / 1e3, backward_ms / 1e3, (parameters,) if parameters else (), activation)
