"""Program: one job's iteration as the engine executes it, with GPUs, routes and rates filled in.

Index ranges in a program are relative; attaching it to an engine adds the offsets of the arenas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.network.state import COMPUTE, FLOW, LEAD, NODE, TRANSFER, UNLIMITED, rate_unit

__all__ = ["PARTS", "NodeSpec", "Program", "as_bytes", "compute_node", "make_program", "transfer_node"]


PARTS = ("nodes", "succ", "flows", "ranks", "leads", "follows")  # what a program is copied into the arenas as


def as_bytes(rows: npt.NDArray[Any]) -> npt.NDArray[np.void]:
    """The rows of an array as they lie in memory."""
    return rows.view(np.dtype((np.void, rows.dtype.itemsize)))


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A task of an iteration on one lane of workers.

    `amount` is seconds (compute) or bytes per flow (transfer). `leads` are nodes that this transfer may never be ahead
    of, but for its first `chunk` bytes. `gpu` is a queue of a shared GPU, or -1; `weight` the workers it stands for.
    """

    kind: int
    task: int
    amount: float
    after: tuple[int, ...] = ()
    gpu: int = -1
    weight: float = 1.0
    ranks: tuple[int, ...] = (0,)
    links: tuple[tuple[int, int], ...] = ()
    demand: float = math.inf
    latency: float = 0.0
    leads: tuple[int, ...] = ()
    chunk: float = 0.0


def compute_node(
    task: int,
    seconds: float,
    after: tuple[int, ...] = (),
    *,
    gpu: int = -1,
    weight: float = 1.0,
    ranks: tuple[int, ...] = (0,),
) -> NodeSpec:
    """A compute task on one lane."""
    return NodeSpec(COMPUTE, task, seconds, after, gpu, weight, ranks)


def transfer_node(
    task: int,
    flow_bytes: float,
    links: Sequence[tuple[int, int]],
    after: tuple[int, ...] = (),
    *,
    demand: float = math.inf,
    latency: float = 0.0,
    leads: tuple[int, ...] = (),
    chunk: float = 0.0,
) -> NodeSpec:
    """A lock-step group of flows (or one flow of an opened group)."""
    return NodeSpec(
        TRANSFER, task, flow_bytes, after, links=tuple(links), demand=demand, latency=latency, leads=leads, chunk=chunk
    )


@dataclass(frozen=True)
class Program:
    """Arrays to copy into the engine's arenas, and the specs they were made from."""

    specs: tuple[NodeSpec, ...]
    nodes: npt.NDArray[Any] = field(repr=False)
    succ: npt.NDArray[np.int32] = field(repr=False)
    flows: npt.NDArray[Any] = field(repr=False)
    ranks: npt.NDArray[np.int32] = field(repr=False)
    leads: npt.NDArray[Any] = field(repr=False)
    follows: npt.NDArray[np.int32] = field(repr=False)
    serial: bool = True  # its transfers never overlap each other
    gpu_s: float = 0.0  # GPU seconds of one iteration, jitter aside
    sizes: tuple[int, ...] = field(init=False, repr=False)  # of its PARTS
    bytes: tuple[npt.NDArray[np.void], ...] = field(init=False, repr=False)  # the same rows, without their fields

    def __post_init__(self) -> None:
        parts = [getattr(self, part) for part in PARTS]
        object.__setattr__(self, "sizes", tuple([len(part) for part in parts]))
        object.__setattr__(self, "bytes", tuple([as_bytes(part) for part in parts]))


def whole_units(rate: float, unit: float) -> int:
    """A rate in whole units, rounded down."""
    return int(rate / unit) if rate < math.inf else UNLIMITED


def alone_units(
    spec: NodeSpec, capacity: npt.NDArray[np.float64], unit: float | None = None
) -> tuple[int, int]:  # fmt: skip
    """Max-min, in units of rate: (of each flow on an empty network, demand without caps that can never bind)."""
    unit = unit or rate_unit(capacity)
    demand = whole_units(spec.demand, unit)
    links = min((whole_units(float(capacity[k]), unit) // n for k, n in spec.links), default=UNLIMITED)
    return min(demand, links), (demand if demand < links else UNLIMITED)


def alone_rate(spec: NodeSpec, capacity: npt.NDArray[np.float64], kway_b: float | None) -> float:
    """Rate of each flow on an empty network."""
    return _rate(spec, kway_b, alone_units(spec, capacity)[0], rate_unit(capacity))


def _rate(spec: NodeSpec, kway_b: float | None, units: int, unit: float) -> float:
    if kway_b is not None:
        return min(spec.demand, 1.0 / kway_b) if spec.links else spec.demand
    return units * unit if units < UNLIMITED else math.inf


def make_program(
    specs: Sequence[NodeSpec], capacity: npt.NDArray[np.float64], *, kway_b: float | None = None
) -> Program:
    """Lay the specs out as arrays. `kway_b` is b of k-way sharing, None under the other models."""
    n, unit = len(specs), rate_unit(capacity)
    nodes = np.zeros(n, NODE)
    after: list[list[int]] = [[] for _ in range(n)]
    follows: list[list[int]] = [[] for _ in range(n)]
    flows: list[tuple[int, int, int]] = []
    ranks: list[int] = []
    leads: list[int] = []
    for i, spec in enumerate(specs):
        for p in spec.after:
            after[p].append(i)
        for p in spec.leads:
            follows[p].append(i)
        node = nodes[i]
        units = alone_units(spec, capacity, unit) if spec.kind == TRANSFER else (UNLIMITED, UNLIMITED)
        alone = _rate(spec, kway_b, units[0], unit) if spec.kind == TRANSFER else math.inf
        if alone <= 0.0:
            raise InputError(f"task {spec.task}: its demand or a link it uses has no capacity; give it more than 0")
        node["kind"], node["task"], node["amount"], node["preds"] = spec.kind, spec.task, spec.amount, len(spec.after)
        node["gpu"], node["weight"], node["latency"], node["chunk"] = spec.gpu, spec.weight, spec.latency, spec.chunk
        node["alone"], node["demand"], node["snap"] = alone, spec.demand, -1.0
        node["demand_units"] = units[1]
        node["flow0"], node["rank0"], node["lead0"] = len(flows), len(ranks), len(leads)
        flows += [(i, link, count) for link, count in spec.links if count > 0]
        ranks += spec.ranks if spec.kind == COMPUTE else ()
        leads += spec.leads
        node["flow1"], node["rank1"], node["lead1"] = len(flows), len(ranks), len(leads)
    for name, lists in (("succ", after), ("fol", follows)):
        ends = np.cumsum([len(x) for x in lists])
        nodes[f"{name}1"], nodes[f"{name}0"] = ends, ends - [len(x) for x in lists]
    flow_array = np.zeros(len(flows), FLOW)
    if flows:
        flow_array["node"], flow_array["link"], flow_array["n"] = np.array(flows).T
    lead_array = np.zeros(len(leads), LEAD)
    lead_array["node"] = leads
    return Program(
        tuple(specs),
        nodes,
        np.array([s for x in after for s in x], np.int32),
        flow_array,
        np.array(ranks, np.int32),
        lead_array,
        np.array([s for x in follows for s in x], np.int32),
        _transfers_in_turn(specs),
        sum(s.amount * s.weight for s in specs if s.kind == COMPUTE),
    )


def _transfers_in_turn(specs: Sequence[NodeSpec]) -> bool:
    """Whether the graph orders every two transfers."""
    reach: list[int] = []
    last = -1
    for i, spec in enumerate(specs):
        bits = 0
        for p in spec.after:
            bits |= reach[p] | 1 << p
        reach.append(bits)
        if spec.kind == TRANSFER:
            if last >= 0 and not bits >> last & 1:
                return False
            last = i
    return True
