"""Program: one job's iteration as the engine executes it, with GPUs, routes and rates filled in.

Index ranges in a program are relative; attaching it to an engine adds the offsets of the arenas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import accumulate, chain
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.sim.compiled.state import COMPUTE, CONTINUED, FLOW, LEAD, NODE, TRANSFER, UNLIMITED, rate_unit

_T = TypeVar("_T")

PARTS = ("nodes", "succ", "flows", "ranks", "leads", "follows")  # what a program is copied into the arenas as


def as_bytes(rows: npt.NDArray[Any]) -> npt.NDArray[np.void]:
    """The rows of an array as they lie in memory."""
    return rows.view(_rows_of(rows.dtype.itemsize))


@lru_cache(maxsize=64)
def _rows_of(size: int) -> np.dtype[np.void]:
    return np.dtype((np.void, size))


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
    claim: int = 1  # weight of each of its flows where links are shared
    level: int = 0  # priority: links serve level 0 first
    continued: bool = False  # a later stage of its task, which a gate of that task does not hold up again


compute_node = partial(NodeSpec, COMPUTE)  # a compute task on one lane: its task, seconds, and what it comes after


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
    claim: int = 1,
    level: int = 0,
    continued: bool = False,
) -> NodeSpec:
    """A lock-step group of flows (or one flow of an opened group)."""
    return NodeSpec(
        TRANSFER, task, flow_bytes, after, links=tuple(links), demand=demand, latency=latency, leads=leads, chunk=chunk,
        claim=claim, level=level, continued=continued,
    )  # fmt: skip


@dataclass(frozen=True)
class Program:
    """Arrays to copy into the engine's arenas, and what makes the specs that they stand for."""

    make_specs: Callable[[], Sequence[NodeSpec]] = field(repr=False)
    nodes: npt.NDArray[Any] = field(repr=False)
    succ: npt.NDArray[np.int32] = field(repr=False)
    flows: npt.NDArray[Any] = field(repr=False)
    ranks: npt.NDArray[np.int32] = field(repr=False)
    leads: npt.NDArray[Any] = field(repr=False)
    follows: npt.NDArray[np.int32] = field(repr=False)
    serial: bool = True  # its transfers never overlap each other
    sizes: tuple[int, ...] = field(init=False, repr=False)  # length of each of its PARTS
    bytes: tuple[npt.NDArray[np.void], ...] = field(init=False, repr=False)  # the same rows, without their fields

    def __post_init__(self) -> None:
        parts = [getattr(self, part) for part in PARTS]
        object.__setattr__(self, "sizes", tuple([len(part) for part in parts]))
        object.__setattr__(self, "bytes", tuple([as_bytes(part) for part in parts]))

    @cached_property
    def specs(self) -> tuple[NodeSpec, ...]:
        """Its nodes, one by one: few read them."""
        return tuple(self.make_specs())

    def placed(
        self,
        rows: Program,
        at: npt.NDArray[np.intp],
        which: npt.NDArray[np.intp],
        make_specs: Callable[[], Sequence[NodeSpec]],
    ) -> Program:
        """The same on other links: its node `at[i]` sends what the node `which[i]` of `rows` sends."""
        nodes = as_bytes(self.nodes).copy().view(NODE)
        for name in _SENDS:
            nodes[name][at] = rows.nodes[name][which]
        first = rows.nodes["flow0"][which]
        count = np.zeros(len(nodes) + 1, np.int64)
        count[at + 1] = n = rows.nodes["flow1"][which] - first
        ends = np.cumsum(count)
        nodes["flow0"], nodes["flow1"] = ends[:-1], ends[1:]
        flows = as_bytes(rows.flows)[np.arange(ends[-1]) + np.repeat(first - ends[at], n)].view(FLOW)
        return replace(self, make_specs=make_specs, nodes=nodes, flows=flows)


def whole_units(rate: float, unit: float) -> int:
    """A rate in whole units, rounded down."""
    return int(rate / unit) if rate < math.inf else UNLIMITED


@dataclass(frozen=True, slots=True)
class LinkUnits:
    """Capacities in the unit in which max-min counts rates, for `finest` parts of a flow: kept where many programs are
    made for the same links."""

    unit: float
    of_link: tuple[int, ...]
    finest: int = 1

    @classmethod
    def of(cls, capacity: npt.NDArray[np.float64], finest: int = 1) -> LinkUnits:
        """For links of these capacities."""
        unit = rate_unit(capacity, finest)
        return cls(unit, tuple([whole_units(c, unit) * finest for c in capacity.tolist()]), finest)


def make_program(
    specs: Sequence[NodeSpec],
    capacity: npt.NDArray[np.float64],
    *,
    kway_b: float | None = None,
    link_units: LinkUnits | None = None,
) -> Program:
    """Lay the specs out as arrays. `kway_b` is b of k-way sharing, None under the other models."""
    link_units = link_units or LinkUnits.of(capacity)
    alone, demand_units = _alone(specs, kway_b, link_units)
    links = [[link for link in spec.links if link[1] > 0] for spec in specs]
    succ, *succ_ends = _ranges(named_in(specs, "after"))
    ranks, *rank_ends = _ranges([spec.ranks if spec.kind == COMPUTE else () for spec in specs])
    leads, *lead_ends = _ranges([spec.leads for spec in specs])
    edges: list[list[int]] = [[] for _ in specs]  # numbers of the leads that name each node
    for edge, lead in enumerate(leads):
        edges[lead].append(edge)
    follows, *follow_ends = _ranges(edges)
    flows, *flow_ends = _ranges(links)
    given = [
        (
            spec.kind, spec.task | CONTINUED * spec.continued, spec.amount, len(spec.after), spec.gpu, spec.weight,
            spec.latency, spec.chunk, spec.demand, -1.0, spec.claim, spec.level, *rest,
        )
        for spec, *rest in zip(
            specs, alone, demand_units, demand_units, *succ_ends, *follow_ends, *rank_ends, *lead_ends, *flow_ends,
            strict=True,
        )
    ]  # fmt: skip
    flow_array = _zeros(len(flows), FLOW)
    if flows:
        flow_array["link"], flow_array["n"] = [link for link, _ in flows], [count for _, count in flows]
    lead_array = _zeros(len(leads), LEAD)
    lead_array["node"], lead_array["by"] = leads, [i for i, spec in enumerate(specs) for _ in spec.leads]
    return Program(
        lambda: specs,
        _laid_out(given),
        np.array(succ, np.int32),
        flow_array,
        np.array(ranks, np.int32),
        lead_array,
        np.array(follows, np.int32),
        _transfers_in_turn(specs),
    )


_SENDS = ("amount", "latency", "demand", "alone", "demand_units", "limit")  # fields that depend on routes, with flows
# What a program knows of a node; the rest of its row is the engine's.
_GIVEN = (
    "kind", "task", "amount", "preds", "gpu", "weight", "latency", "chunk", "demand", "snap", "claim", "level",
    "alone", "demand_units", "limit",
    *(f"{name}{i}" for name in ("succ", "fol", "rank", "lead", "flow") for i in (0, 1)),
)  # fmt: skip
_GIVEN_ROW: np.dtype[np.void] = NODE[list(_GIVEN)]


def _zeros(n: int, dtype: np.dtype[np.void]) -> npt.NDArray[Any]:
    """np.zeros by way of bytes, because np.zeros itself is slow where there are many fields."""
    return np.zeros(n * dtype.itemsize, np.uint8).view(dtype)


def _laid_out(given: list[tuple[float, ...]]) -> npt.NDArray[Any]:
    """Nodes with the given values, filled row by row: programs are short, and numpy is slow for each field."""
    nodes = _zeros(len(given), NODE)
    nodes.view(_GIVEN_ROW)[:] = given
    return nodes


def _alone(
    specs: Sequence[NodeSpec], kway_b: float | None, link_units: LinkUnits
) -> tuple[list[float], list[int]]:  # fmt: skip
    """Rates of the nodes on an empty network, and what each demands in units, without caps that can never bind."""
    rates, demands = [], []
    for spec in specs:
        rate, demand = math.inf, UNLIMITED
        if spec.kind == TRANSFER:
            wanted = whole_units(spec.demand, link_units.unit)
            links = min([link_units.of_link[k] // n for k, n in spec.links], default=UNLIMITED)
            demand = wanted if wanted < links else UNLIMITED
            if kway_b is not None:
                rate = min(spec.demand, 1.0 / kway_b) if spec.links else spec.demand
            elif (units := min(wanted, links)) < UNLIMITED:
                rate = units * link_units.unit
            if rate <= 0.0:
                raise InputError(f"task {spec.task}: its demand or a link it uses has no capacity; give it more than 0")
        rates.append(rate)
        demands.append(demand)
    return rates, demands


def named_in(specs: Sequence[NodeSpec], name: str) -> list[list[int]]:
    """For each node, those that name it in that field."""
    named: list[list[int]] = [[] for _ in specs]
    for i, spec in enumerate(specs):
        for p in getattr(spec, name):
            named[p].append(i)
    return named


def _ranges(lists: Sequence[Sequence[_T]]) -> tuple[list[_T], list[int], list[int]]:
    """All lists one after another, and where that of each node begins and ends."""
    ends = list(accumulate([len(some) for some in lists], initial=0))
    return list(chain.from_iterable(lists)), ends[:-1], ends[1:]


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
