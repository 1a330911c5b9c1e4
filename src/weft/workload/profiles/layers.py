"""Layer files of ASTRA-sim and its variants, and PipeDream profiles: one iteration, layer by layer.

In a layer file, line 1 names the parallelisation and its options, line 2 the number of layers; then comes one layer per
line: name, reserved, forward time, its collective and bytes, input-gradient time, collective, bytes, weight-gradient
time, collective, bytes, update delay. Times are cycles of 1 ns. The known quirks are taken care of:
- fields are separated by any amount of white space;
- the count on line 2 is often wrong: the layers that are there count, and a note says so;
- some files repeat the total forward time as a last line and glued to the front of layer names: it is removed;
- the group of a collective may follow its name (ALLGATHER_DP_EP).
The update delay is computing that a layer does once its weights are summed. ASTRA-sim lets such delays pass side by
side and counts them as communication; here a GPU does one thing at a time, so they follow the backward pass in turn.

A PipeDream profile (`graph.txt`) has one line per operator, `nodeN -- description -- forward_compute_time=ms,
backward_compute_time=ms, activation_size=bytes, parameter_size=bytes`, then tab-indented lines `nodeA -- nodeB`. A size
may be a list of several outputs, `[a; b; c]`. The result is a Work, which can be parallelised in any way. Operators
called Input are left out: their time is data loading, which dominates some files.
"""

from __future__ import annotations

import graphlib
import gzip
import itertools
import math
import re
import zlib
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from weft.errors import InputError, TraceError
from weft.model.policy import number
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.workload.graphs.work import LayerWork, Work

CYCLE_S = 1e-9
_LARGEST = 64 << 20  # bytes that a file may hold, unpacked
_HALF = ("ALLGATHER", "REDUCESCATTER", "BROADCAST")  # half the wire bytes of an all-reduce of the same size
_KINDS = ("ALLREDUCE", "ALLTOALL", *_HALF)
_GROUPS = ("", "DP", "EP", "DP_EP", "TP")


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of a layer: ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL or BROADCAST, its bytes and its group."""

    kind: str
    bytes: float
    group: str = ""


@dataclass(frozen=True, slots=True)
class AstraLayer:
    """One layer: three passes with their times in cycles, each followed by a collective or none, and the update."""

    name: str
    forward: float
    forward_comm: Collective | None
    input_gradient: float
    input_comm: Collective | None
    weight_gradient: float
    weight_comm: Collective | None
    update: float = 0.0  # cycles, once the weights are summed


@dataclass(frozen=True)
class LayerFile:
    """A whole file. `options` are the numbers of line 1 (model_parallel_NPU_group, ep, pp, ...)."""

    name: str
    options: dict[str, int]
    layers: tuple[AstraLayer, ...]
    notes: tuple[str, ...] = ()

    def profile(self, workers: int) -> Profile:
        """One iteration as a task graph.

        Forward passes in order, each waiting for its collective; then from the last layer to the first the weight
        gradient, whose collective goes on by itself, and the input gradient, which waits for its own. Collectives of
        weights follow one another, as on one communicator. A file that states the size of its model-parallel groups
        (consecutive workers) keeps forward and input-gradient collectives inside them and sums weights across; in
        other files every collective is among all workers. An all-gather, reduce-scatter or broadcast of M bytes is
        half an all-reduce of M.
        """
        writer = _Writer(self, workers)
        writer.write()
        source = "; ".join((f"layer file {self.name}", *self.notes))
        return Profile(self.name, tuple(writer.tasks), workers, source=source)


@dataclass
class _Writer:
    """The task list while it is being written, one chain per model-parallel group."""

    file: LayerFile
    workers: int
    tasks: list[Task] = field(default_factory=list)
    pending: list[float] = field(default_factory=list)  # seconds computed since the last task, by group
    last: list[int | None] = field(default_factory=list)
    sending: dict[tuple[int, ...], int] = field(default_factory=dict)  # group of workers -> last weight collective
    updates: list[tuple[str, float, list[int]]] = field(default_factory=list)  # name, cycles, collectives before it

    def __post_init__(self) -> None:
        f = self.file
        split = "model_parallel_NPU_group" in f.options
        self.model = f.options.get("model_parallel_NPU_group", self.workers)
        if self.workers < 1 or self.workers % self.model:
            raise InputError(
                f"layer file {f.name}: {self.workers} workers do not divide into groups of {self.model}; use a multiple"
            )
        self.replicas = self.workers // self.model
        self.chains = self.replicas if split else 1
        self.pending, self.last = [0.0] * self.chains, [None] * self.chains

    def write(self) -> None:
        """All layers forward, then backward."""
        for i, layer in enumerate(self.file.layers):
            self._pass(f"forward{i}", layer.forward, layer.forward_comm)
        for i, layer in reversed(list(enumerate(self.file.layers))):
            self._compute(layer.weight_gradient)
            sent = len(self.tasks)
            if layer.weight_comm:
                self._send_weights(f"weights{i}", layer.weight_comm)
            if layer.update > 0:
                sums = [k for k in range(sent, len(self.tasks)) if isinstance(self.tasks[k], Transfer)]
                self.updates.append((f"update{i}", layer.update, sums))
            self._pass(f"inputs{i}", layer.input_gradient, layer.input_comm)
        self._flush("compute")
        for name, cycles, sums in self.updates:
            self._update(name, cycles, sums)

    def _update(self, name: str, cycles: float, sums: list[int]) -> None:
        """New weights of a layer, on each worker once the collectives that sum its gradients are done."""
        for g in range(self.chains):
            mine = self._members(g)
            mine_too = (k for k in sums if mine is None or not set(mine).isdisjoint(self.tasks[k].workers or mine))
            after = tuple(sorted({*self._after(g), *mine_too}))
            self.last[g] = self._add(Compute(name, CYCLE_S * cycles, after, mine))

    def _pass(self, name: str, cycles: float, comm: Collective | None) -> None:
        self._compute(cycles)
        if comm:
            self._flush(f"{name}.compute")
            for g in range(self.chains):
                for ranks in self._inside(g, comm):
                    self.last[g] = self._add(_transfer(name, comm, self._after(g), ranks))

    def _compute(self, cycles: float) -> None:
        for g in range(self.chains):
            self.pending[g] += CYCLE_S * cycles

    def _flush(self, name: str) -> None:
        """Write what has been computed since the last task."""
        for g in range(self.chains):
            if self.pending[g] > 0 or self.last[g] is None:
                self.last[g] = self._add(Compute(name, self.pending[g], self._after(g), self._members(g)))
                self.pending[g] = 0.0

    def _send_weights(self, name: str, comm: Collective) -> None:
        self._flush(f"{name}.compute")
        for ranks in self._across(comm):
            causes = {*self.last, self.sending.get(ranks)}
            after = tuple(sorted(c for c in causes if c is not None))
            self.sending[ranks] = self._add(_transfer(name, comm, after, ranks))

    def _add(self, task: Task) -> int:
        self.tasks.append(task)
        return len(self.tasks) - 1

    def _after(self, g: int) -> tuple[int, ...]:
        last = self.last[g]
        return () if last is None else (last,)

    def _members(self, g: int) -> tuple[int, ...] | None:
        if self.chains == 1:
            return None
        return tuple(range(g * self.model, (g + 1) * self.model))

    def _inside(self, g: int, comm: Collective) -> list[tuple[int, ...]]:
        """Workers of a collective of the forward or input-gradient pass, started by chain g."""
        if self.chains == 1:
            return [tuple(range(self.workers))]
        if comm.group in ("EP", "DP", "DP_EP"):  # crosses chains: counted once, by the first chain of the group
            return [r for r in self._across(comm) if r[0] // self.model == g]
        return [tuple(range(g * self.model, (g + 1) * self.model))]

    def _across(self, comm: Collective) -> list[tuple[int, ...]]:
        """Groups of a collective over replicas: all of them, or blocks of `ep` replicas for expert parallelism."""
        if self.chains == 1:
            return [tuple(range(self.workers))]
        block = self.replicas
        if comm.group == "EP" and self.replicas % self.file.options.get("ep", self.replicas) == 0:
            block = self.file.options.get("ep", self.replicas)
        return [
            tuple(d * self.model + t for d in range(first, first + block))
            for first in range(0, self.replicas, block)
            for t in range(self.model)
        ]


def read_layers(path: str | Path) -> LayerFile:
    """Read a layer file (plain or gzip)."""
    return parse_layers(read_text(path), str(path))


def parse_layers(text: str, path: str = "layer file") -> LayerFile:
    """Parse the text of a layer file; `path` is for messages."""
    lines = [(n, line.split()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    if len(lines) < 3:
        raise TraceError(f"{path}: it has {len(lines)} lines; a layer file has a kind, a count and layers")
    (_, head), (count_line, count), *rows = lines
    if not re.fullmatch(r"[A-Z][A-Z_]*", head[0]):
        raise TraceError(f"{path}: line 1: {head[0]!r} is no kind of parallelism; it should be like DATA")
    declared = _number(count[0], path, count_line, "the number of layers")
    notes = []
    glued = ""
    if len(rows[-1][1]) == 1 and rows[-1][1][0].isdigit():
        glued = rows.pop()[1][0]
        notes.append(f"the total forward time {glued} is a last line and stands before layer names; it was removed")
    layers = tuple(_layer(fields, n, path, glued) for n, fields in rows)
    if not layers:
        raise TraceError(f"{path}: it has no layers; add one line per layer")
    if declared != len(layers):
        notes.append(f"line 2 says {declared:g} layers, there are {len(layers)}")
    return LayerFile(Path(path).name, _options(head[1:]), layers, tuple(notes))


def read_text(path: str | Path) -> str:
    """The text of a file that may be compressed; an InputError where it is neither."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.GzipFile(fileobj=file) if packed else nullcontext(file) as source:
                raw = source.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise InputError(f"{path}: it holds more than {_LARGEST >> 20} MiB; name a smaller file")
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: it is not UTF-8 text; give a text file, plain or gzip") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: its compression is damaged ({error}); fetch it again") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; check the path") from error


def _layer(fields: list[str], n: int, path: str, glued: str) -> AstraLayer:
    if len(fields) < 12:
        raise TraceError(f"{path}: line {n}: {len(fields)} fields, a layer has 12; complete or remove the line")
    name = fields[0].removeprefix(glued) or fields[0]
    times = [_number(fields[i], path, n, f"field {i + 1}") for i in (2, 5, 8, 11)]
    comms = [_collective(fields[i], fields[i + 1], path, n) for i in (3, 6, 9)]
    return AstraLayer(name, times[0], comms[0], times[1], comms[1], times[2], comms[2], times[3])


def _collective(word: str, size: str, path: str, n: int) -> Collective | None:
    amount = _number(size, path, n, "the bytes of a collective")
    kind, _, group = word.partition("_")
    if word == "NONE":
        return None
    if kind not in _KINDS or group not in _GROUPS:
        raise TraceError(f"{path}: line {n}: {word!r} is no collective; use NONE or one of {', '.join(_KINDS)}")
    return Collective(kind, amount, group) if amount > 0 else None


def _number(text: str, path: str, n: int, what: str) -> float:
    value = number(text)
    if not 0 <= value < math.inf:
        raise TraceError(f"{path}: line {n}: {what} is {text!r}; it must be a number of at least 0")
    return value


def _options(words: list[str]) -> dict[str, int]:
    """Pairs of `name: number` on line 1; other words are left alone."""
    found: dict[str, int] = {}
    for key, value in itertools.pairwise(words):
        if key.endswith(":") and re.fullmatch(r"[0-9]{1,9}", value) and int(value) > 0:
            found[key[:-1]] = int(value)
    return found


def _transfer(name: str, comm: Collective, after: tuple[int, ...], ranks: tuple[int, ...]) -> Transfer:
    if comm.kind in _HALF:
        return Transfer(name, comm.bytes / 2, after, ranks, "ring")
    return Transfer(name, comm.bytes, after, ranks, "all-to-all" if comm.kind == "ALLTOALL" else None)


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
