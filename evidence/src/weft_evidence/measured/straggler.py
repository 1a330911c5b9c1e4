"""Recorded steps of hybrid-parallel jobs, replayed operation by operation, and what they would take without stragglers.

A trace is a table of operations (FILE.ops.csv, gzipped or not): `op, stage, dp, step, i, start_us, dur_us`. One rank
stands for its tensor and sequence group. `f` and `b` compute, the others communicate: `ag` and `rs` among the workers
of a stage, `fs` with `fr` and `bs` with `br` between neighbouring stages, `emb` between the first and the last stage,
`clip` among all; `ln` and `opt` concern one worker. An operation starts when those are done that it waits for.
Communication lasts from the latest start in its group to its end, so that waiting does not count.

Beside a trace may lie FILE.published.json with what its authors found: replayed step times, and slowdowns over an ideal
step, in which each computation takes the mean of its operation and each transfer the median."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.errors import InputError, near
from weft.model.flows import FlowGroup
from weft.model.profile import Compute, Profile, Transfer
from weft.network.iteration import Sharing, play
from weft_evidence.measured import Row, Say

TITLE = "Recorded steps of three hybrid-parallel jobs"
SOURCE = "ByteDance-Seed/StragglerAnalysis (OSDI 2025), commit 8efcd7f3"
CONSTANTS: dict[str, float] = {}  # nothing is fitted

COLUMNS = ("op", "stage", "dp", "step", "i", "start_us", "dur_us")
NAMES = {  # as the authors call them
    "ag": "params-all-gather", "f": "forward-compute", "b": "backward-compute", "fs": "forward-pp-comm",
    "bs": "backward-pp-comm", "ln": "layernorm-grads-all-reduce", "emb": "embedding-grads-all-reduce",
    "rs": "grads-reduce-scatter", "clip": "optimizer-clip-main-grad", "opt": "optimizer",
}  # fmt: skip
PARTS = ("op", "stage", "dp")  # an operation is one of the first, of a worker that has a place in the others
COMPUTES = frozenset(("f", "b", "opt"))
_TAIL = ("ln", "emb", "rs", "clip", "opt")  # after the last backward pass, in this order
_GZIP = b"\x1f\x8b"
_RATE = 1e9  # bytes per second of a transfer that has a duration instead of bytes
Op = tuple[str, int, int, int]  # operation, stage, data-parallel rank, number
Node = tuple[Any, ...]  # what happens once for a group of operations
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Step:
    """A training step as a graph: its nodes come after those they wait for."""

    nodes: tuple[Node, ...]
    after: tuple[tuple[int, ...], ...]
    seconds: Floats
    members: tuple[tuple[Op, ...], ...]
    spans: tuple[tuple[float, ...], ...]  # of each member: from the latest start in its group to its own end

    def replayed_s(self, seconds: Floats) -> Floats:
        """How long the step takes with these durations of its nodes; or one column of them for each question."""
        ends = list(seconds)
        for n, before in enumerate(self.after):
            if before:
                ends[n] = ends[n] + reduce(np.maximum, [ends[p] for p in before])
        found: Floats = reduce(np.maximum, ends)
        return found

    @cached_property
    def profile(self) -> Profile:
        """The same graph as an iteration of a job of weft's: computing on workers, transfers among them."""
        workers = sorted({(op[1], op[2]) for ops in self.members for op in ops})
        rank = {worker: n for n, worker in enumerate(workers)}
        tasks: list[Compute | Transfer] = []
        for node, before, seconds, ops in zip(self.nodes, self.after, self.seconds, self.members, strict=True):
            who = tuple(sorted({rank[op[1], op[2]] for op in ops}))
            name = ".".join(map(str, node))
            if node[0] in COMPUTES:
                tasks.append(Compute(name, float(seconds), before, who))
            else:
                tasks.append(Transfer(name, float(seconds) * _RATE, before, who))
        return Profile("step", tuple(tasks), len(workers))

    def played_s(self) -> float:
        """How long weft says that an iteration takes whose transfers have these durations."""
        chains = tuple(
            (n, (FlowGroup(task.bytes, (), (), _RATE),))
            for n, task in enumerate(self.profile.tasks)
            if isinstance(task, Transfer)
        )
        return play(self.profile, chains, (), Sharing("ideal")).seconds


@dataclass(frozen=True)
class Trace:
    """The steps of a job, by their numbers."""

    name: str
    steps: Mapping[int, Step]

    @cached_property
    def ideal(self) -> dict[str, float]:
        """What each operation takes without stragglers: means of computations, medians of transfers."""
        spans: dict[str, list[float]] = {}
        for step in self.steps.values():
            for node, of in zip(step.nodes, step.spans, strict=True):
                spans.setdefault(node[0], []).extend(of)
        return {op: float((np.mean if op in COMPUTES else np.median)(of)) for op, of in spans.items()}

    def slowdown(self) -> float:
        """The mean step over the mean ideal step."""
        took = sum(float(step.replayed_s(step.seconds)) for step in self.steps.values())
        return took / sum(float(step.replayed_s(self._ideal_of(step))) for step in self.steps.values())

    def what_if(self, by: str) -> dict[str, float]:
        """Slowdowns if all is ideal but one operation (`op`), pipeline stage or data-parallel rank (`dp`)."""
        part = PARTS.index(by)
        seen = {op[part] for step in self.steps.values() for ops in step.members for op in ops}
        values = {value: n for n, value in enumerate(sorted(seen - {"fr", "br"}))}
        took, ideal = np.zeros(len(values)), 0.0
        for step in self.steps.values():
            best = self._ideal_of(step)
            kept = np.repeat(best[:, None], len(values), axis=1)
            for n, (node, ops, spans) in enumerate(zip(step.nodes, step.members, step.spans, strict=True)):
                longest: dict[Any, float] = {}
                for op, span in zip(ops, spans, strict=True):
                    value = node[0] if by == "op" else op[part]
                    longest[value] = max(span, longest.get(value, 0.0))
                others = best[n] if len(longest) > 1 else 0.0  # the rest of the group is ideal
                for value, span in longest.items():
                    kept[n, values[value]] = max(span, others)
            took += step.replayed_s(kept)
            ideal += float(step.replayed_s(best))
        return {NAMES.get(str(value), str(value)): float(took[n]) / ideal for value, n in values.items()}

    def _ideal_of(self, step: Step) -> Floats:
        return np.array([self.ideal[node[0]] for node in step.nodes])


def read(path: Path) -> Trace:
    """A trace from its table."""
    content = path.read_bytes()
    try:
        frame = pl.read_csv(gzip.decompress(content) if content[:2] == _GZIP else content)
    except (pl.exceptions.PolarsError, OSError, EOFError) as error:
        raise InputError(f"{path}: this is no table of operations ({str(error).splitlines()[0]})") from None
    if missing := [name for name in COLUMNS if name not in frame.columns]:
        raise InputError(f"{path}: no column {', '.join(missing)}; a trace has {', '.join(COLUMNS)}")
    if unknown := set(frame["op"].unique().to_list()) - {*NAMES, "fr", "br"}:
        raise InputError(
            f"{path}: operation {min(map(str, unknown))} is unknown; there are {', '.join([*NAMES, 'fr', 'br'])}"
        )
    try:
        whole = frame.with_columns(
            pl.col("stage", "dp", "step", "i").cast(pl.Int64), pl.col("start_us", "dur_us").cast(pl.Float64)
        )
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None
    parts = whole.partition_by("step", maintain_order=True)
    steps = {int(part["step"][0]): _step(path, part) for part in sorted(parts, key=lambda part: int(part["step"][0]))}
    return Trace(path.name.partition(".ops.")[0], steps)


def _step(path: Path, part: pl.DataFrame) -> Step:
    ops: dict[Op, tuple[float, float]] = {}
    for op, stage, dp, i, start, length in part.select("op", "stage", "dp", "i", "start_us", "dur_us").iter_rows():
        ops[op, stage, dp, i] = (start * 1e-6, (start + length) * 1e-6)
    members: dict[Node, list[Op]] = {}
    for key in ops:
        members.setdefault(_node(key), []).append(key)
    waits = _waits(ops)
    order = _in_order(path, list(members), waits)
    number = {node: n for n, node in enumerate(order)}
    spans = []
    for node in order:
        latest = max(ops[key][0] for key in members[node])
        spans.append(tuple(max(0.0, ops[key][1] - latest) for key in members[node]))
    return Step(
        tuple(order), tuple(tuple(sorted(number[p] for p in waits.get(node, ()))) for node in order),
        np.array([max(of) for of in spans]), tuple(tuple(members[node]) for node in order), tuple(spans),
    )  # fmt: skip


def _node(key: Op) -> Node:
    """What an operation is a part of."""
    op, stage, dp, i = key
    if op in ("ag", "rs"):
        return op, stage, i
    if op == "emb":
        return op, dp, i
    if op == "clip":
        return op, i
    if op == "fr":
        return "fs", stage - 1, dp, i
    if op == "br":
        return "bs", stage + 1, dp, i
    return key


def _waits(ops: Mapping[Op, tuple[float, float]]) -> dict[Node, set[Node]]:
    """What each node waits for, from the order that each worker computed in."""
    waits: dict[Node, set[Node]] = {}

    def wait(key: Op, *before: Op) -> None:
        if key in ops:
            waits.setdefault(_node(key), set()).update(_node(p) for p in before if p in ops)

    workers: dict[tuple[int, int], list[Op]] = {}
    for key in ops:
        if key[0] in ("f", "b"):
            workers.setdefault(key[1:3], []).append(key)
    for (stage, dp), computed in workers.items():
        computed.sort(key=lambda key: ops[key][0])
        previous: Op = ("ag", stage, dp, 0)
        for key in computed:
            kind, i = key[0], key[3]
            wait(key, previous, (kind + "r", stage, dp, i))
            wait((kind + "s", stage, dp, i), key, (kind + "s", stage, dp, i - 1))
            wait((kind + "r", stage, dp, i), (kind + "r", stage, dp, i - 1), (kind, stage, dp, i - 1))
            previous = key
        first = next((n for n, key in enumerate(computed) if key[0] == "b"), 0)
        if first >= 2:  # gradients are sent and expected from the second forward pass before the first backward one
            for kind in ("bs", "br"):
                wait((kind, stage, dp, 0), computed[first - 2])
        for kind in _TAIL:
            wait((kind, stage, dp, 0), previous)
            previous = (kind, stage, dp, 0) if (kind, stage, dp, 0) in ops else previous
    return waits


def _in_order(path: Path, nodes: Sequence[Node], waits: Mapping[Node, set[Node]]) -> list[Node]:
    """Nodes after those that they wait for."""
    left = {node: len(waits.get(node, ())) for node in nodes}
    followers: dict[Node, list[Node]] = {}
    for node, before in waits.items():
        for p in before:
            followers.setdefault(p, []).append(node)
    order = [node for node in nodes if left[node] == 0]
    for node in order:
        for follower in followers.get(node, ()):
            left[follower] -= 1
            if left[follower] == 0:
                order.append(follower)
    if len(order) < len(nodes):
        raise InputError(f"{path}: operations wait for each other; is the order of start times right?")
    return order


def _paths(folder: Path) -> list[Path]:
    if not (paths := sorted(folder.glob("*.ops.csv*"))):
        raise InputError(f"{folder}: there is no table of operations, NAME.ops.csv or NAME.ops.csv.gz")
    return paths


def what_if(folder: Path, by: str, say: Say) -> dict[str, dict[str, float]]:
    """By trace, the slowdown if all is ideal but one operation, stage or data-parallel rank; `all` keeps everything."""
    if by not in PARTS:
        raise InputError(f"--what-if {by}: there are {', '.join(PARTS)}{near(by, list(PARTS))}")
    found = {}
    for path in _paths(folder):
        say(f"replaying {path.name}")
        trace = read(path)
        found[trace.name] = {"all": trace.slowdown(), **trace.what_if(by)}
    return found


def rows(folder: Path, say: Say) -> Iterator[Row]:
    """Step times and slowdowns of all traces of a folder that have something published."""
    published = {path: path.with_name(path.name.replace(".ops.csv", ".published.json")) for path in _paths(folder)}
    if not any(told.exists() for told in published.values()):
        raise InputError(f"{folder}: nothing is published beside the traces; ask --what-if op, stage or dp")
    for path, told in published.items():
        if told.exists():
            say(f"replaying {path.name}")
            content = told.read_bytes()
            yield from _rows(read(path), json.loads(gzip.decompress(content) if content[:2] == _GZIP else content))


def _rows(trace: Trace, told: Mapping[str, Any]) -> Iterator[Row]:
    for step in told["steps"]:
        seconds = trace.steps[step["step"]].played_s()
        yield Row(f"{trace.name}.step-{step['step']}", "replayed steps", "s", step["no_delay_s"], seconds)
    yield Row(f"{trace.name}.slowdown", "slowdowns", "x", told["blocking_slowdown"], trace.slowdown())
    for by, key in (("op", "blocking_by_optype"), ("stage", "blocking_by_stage"), ("dp", "blocking_by_dp_rank")):
        found = trace.what_if(by)
        for name, value in told[key].items():
            if name in found:
                yield Row(f"{trace.name}.{by}-{name}", f"slowdowns by {by}", "x", value, found[name])
