"""Lowering: a job on given GPUs becomes a program.

Without GPU sharing all workers of a job move together, so a compute task is one node whatever the number of workers
(the iteration is a barrier and jitter is per worker and iteration, so the slowest worker sets the pace of all tasks).
With GPU sharing each worker is a lane of its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import APART, Compute, Profile, Transfer
from weft.network.collectives import open_collective, route_collective
from weft.network.cost import shape_of
from weft.policies.pace.rates import Transport
from weft.sim.compiled.state import TRANSFER
from weft.sim.engine.program import LinkUnits, NodeSpec, Program, compute_node, make_program, transfer_node
from weft.sim.spec import NetworkSpec

if TYPE_CHECKING:
    from weft.network.collectives import Chosen, OpenFlow, RoutedCollective


_NODES = 200_000  # most nodes of programs that are kept, of either sort


class _Kept:
    """Programs that may be asked for again, with their profiles, whose ids are part of the keys; those that nobody has
    asked for longest go first."""

    def __init__(self) -> None:
        self._programs: OrderedDict[tuple[object, ...], tuple[Profile, Program]] = OrderedDict()
        self._n_nodes = 0

    def find(self, key: tuple[object, ...]) -> Program | None:
        """The program of that key, which is the last to go from here on."""
        if key not in self._programs:
            return None
        self._programs.move_to_end(key)
        return self._programs[key][1]

    def keep(self, key: tuple[object, ...], profile: Profile, program: Program) -> Program:
        """Note a program."""
        self._programs[key] = (profile, program)
        self._n_nodes += len(program.nodes)
        while self._n_nodes > _NODES:
            self._n_nodes -= len(self._programs.popitem(last=False)[1][1].nodes)
        return program


class Lowering:
    """Turns (profile, placement) into programs for one cluster and network; routes of a placement are kept."""

    def __init__(
        self,
        cluster: Cluster,
        network: NetworkSpec,
        shared_gpus: bool = False,
        transport: Transport | None = None,
        finest: int = 1,
    ) -> None:
        self.finest = finest  # parts of a flow in which links are counted
        self.cluster = cluster
        self.network = network
        self.shared_gpus = shared_gpus
        self.transport = transport or Transport()
        self.good = self.transport.goodput * (1.0 - network.packet_loss)  # part of the bytes on the wire that count
        self.kway_b = network.b_s_per_byte if network.sharing == "k-way" else None
        self.capacity: npt.NDArray[np.float64]
        if self.kway_b is None:
            self.capacity = cluster.topology.capacity
            self.ports = np.array([link.tier == "nic" for link in cluster.topology.links], dtype=np.bool_)
        else:  # k-way sharing knows servers, not links
            self.capacity = np.full(len(cluster.servers), 1.0 / self.kway_b)
            self.ports = np.ones(len(cluster.servers), np.bool_)
        self._units = LinkUnits.of(self.capacity, finest)
        self.cost = network.cost
        self._kept: dict[tuple[int, float | None], tuple[Profile, Program]] = {}
        self._placed = _Kept()  # programs of jobs on their GPUs
        self._shapes = _Kept()  # one program of each profile and number of groups that its transfers have

    def program(
        self, profile: Profile, gpus: Placement, model: str = "", flow_key: int = 0, chosen: Chosen | None = None
    ) -> Program:
        """One iteration of a job on these GPUs. `flow_key` (one per job) spreads its flows over equal-cost paths, or a
        route policy has chosen them."""
        delay_s = None  # with a cost model, all exposed communication is one delay after the last task
        if self.cost is not None:
            delay_s = self.cost.exposed_s(profile, model, shape_of(self.cluster, gpus))
        # Shapes that cost the same share a program. On one server (most jobs of most traces) there is no link and no
        # route, so it is the same wherever it is.
        same = not self.shared_gpus and (
            delay_s is not None or (self._on_one_server(gpus) and not self._leaves(profile))
        )
        key = (id(profile), delay_s)
        if same:
            if key not in self._kept:
                self._kept[key] = (profile, self._made(profile, gpus, flow_key, chosen, delay_s))
            return self._kept[key][1]
        if chosen is not None:
            return self._made(profile, gpus, flow_key, chosen, delay_s)
        where = (id(profile), gpus if self.shared_gpus else self.cluster.ends(gpus), flow_key)
        if (known := self._placed.find(where)) is not None:
            return known
        return self._placed.keep(where, profile, self._made(profile, gpus, flow_key, None, delay_s))

    def _made(
        self, profile: Profile, gpus: Placement, flow_key: int, chosen: Chosen | None, delay_s: float | None
    ) -> Program:
        if self.shared_gpus or self.transport.opened or self.kway_b is not None or delay_s is not None:
            return self._laid_out(self._nodes(profile, gpus, flow_key, chosen, delay_s))
        # Transfers of a kind have one route and size, so each kind is lowered once; the rest is as on other GPUs.
        rows, starts = list[NodeSpec](), [0]
        routes: dict[object, RoutedCollective | tuple[OpenFlow, ...]] = {}
        firsts, of_task = profile.sent
        for t in firsts:
            task = profile.tasks[t]
            assert isinstance(task, Transfer)
            self._add_transfer(rows, profile, t, task, gpus, (), routes, flow_key, chosen)
            starts.append(len(rows))
        shape = (id(profile), *starts)
        make = partial(self._nodes, profile, gpus, flow_key, chosen, None)
        if (known := self._shapes.find(shape)) is None:
            return self._shapes.keep(shape, profile, self._laid_out(make()))
        first, count = np.array(starts)[of_task], np.diff(starts)[of_task]
        which = np.arange(count.sum()) + np.repeat(first - np.cumsum(count) + count, count)
        return known.placed(self._laid_out(rows), np.flatnonzero(known.nodes["kind"] == TRANSFER), which, make)

    def _nodes(
        self, profile: Profile, gpus: Placement, flow_key: int, chosen: Chosen | None, delay_s: float | None
    ) -> list[NodeSpec]:
        nodes: list[NodeSpec] = []
        self._add_tasks(nodes, profile, gpus, flow_key, chosen, transfers=delay_s is None)
        if delay_s is not None and delay_s > 0:
            waited_for = {p for spec in nodes for p in spec.after}
            last = tuple(i for i in range(len(nodes)) if i not in waited_for)
            nodes.append(transfer_node(len(profile.tasks), 0.0, (), last, latency=delay_s))
        return nodes

    def _laid_out(self, nodes: list[NodeSpec]) -> Program:
        return make_program(nodes, self.capacity, kway_b=self.kway_b, link_units=self._units)

    def _leaves(self, profile: Profile) -> bool:
        """Whether it sends to other servers wherever its workers are."""
        return any(
            isinstance(t, Transfer) and (t.collective or self.network.collective) == APART for t in profile.tasks
        )

    def _on_one_server(self, gpus: Placement) -> bool:
        server = self.cluster.server_of_gpu
        return len(gpus) == 1 or len({int(server[g]) for g in gpus}) == 1

    def _add_tasks(
        self,
        nodes: list[NodeSpec],
        profile: Profile,
        gpus: Placement,
        flow_key: int,
        chosen: Chosen | None,
        transfers: bool,
    ) -> None:
        ends: list[dict[int, int] | tuple[int, ...]] = []  # per task: the node of each rank, or its last nodes
        routes: dict[object, RoutedCollective | tuple[OpenFlow, ...]] = {}
        for t, task in enumerate(profile.tasks):
            if isinstance(task, Compute):
                ends.append(self._add_compute(nodes, profile, t, task, gpus, ends))
                continue
            before = tuple(sorted({n for p in task.after for n in _nodes(ends[p])}))
            if transfers:
                before = self._add_transfer(nodes, profile, t, task, gpus, before, routes, flow_key, chosen)
            ends.append(before)

    def _add_compute(
        self,
        nodes: list[NodeSpec],
        profile: Profile,
        index: int,
        task: Compute,
        gpus: Placement,
        ends: list[dict[int, int] | tuple[int, ...]],
    ) -> dict[int, int] | tuple[int, ...]:
        ranks = tuple(profile.ranks(task))
        if not self.shared_gpus:
            before = tuple(sorted({n for p in task.after for n in _nodes(ends[p])}))
            nodes.append(compute_node(index, task.seconds, before, weight=len(ranks), ranks=ranks))
            return (len(nodes) - 1,)
        mine: dict[int, int] = {}
        for rank in ranks:
            after: set[int] = set()
            for p in task.after:
                lanes = ends[p]
                after |= {lanes[rank]} if isinstance(lanes, dict) and rank in lanes else set(_nodes(lanes))
            nodes.append(compute_node(index, task.seconds, tuple(sorted(after)), gpu=gpus[rank], ranks=(rank,)))
            mine[rank] = len(nodes) - 1
        return mine

    def _add_transfer(
        self,
        nodes: list[NodeSpec],
        profile: Profile,
        index: int,
        task: Transfer,
        gpus: Placement,
        before: tuple[int, ...],
        routes: dict[object, RoutedCollective | tuple[OpenFlow, ...]],
        flow_key: int,
        chosen: Chosen | None,
    ) -> tuple[int, ...]:
        """Append a collective; returns what ends it (what came before, if nothing is sent)."""
        collective = task.collective or self.network.collective
        key = (collective, task.workers, task.servers)
        if key not in routes:
            where = [gpus[r] for r in profile.ranks(task)]
            opened: tuple[OpenFlow, ...] = ()
            if self.transport.opened:
                opened = open_collective(
                    collective, where, self.cluster, n_ps=task.servers, flow_key=flow_key, chosen=chosen
                )
            routes[key] = opened or route_collective(
                collective, where, self.cluster, n_ps=task.servers, flow_key=flow_key, chosen=chosen
            ).within(self.cluster, profile.nic_bytes_per_s)
        route = routes[key]
        if isinstance(route, tuple):
            return self._add_opened(nodes, index, task, before, route)
        return self._add_groups(nodes, index, task, before, route, self.transport.claim * profile.link_weight)

    def _add_groups(
        self,
        nodes: list[NodeSpec],
        index: int,
        task: Transfer,
        before: tuple[int, ...],
        route: RoutedCollective,
        claim: int,
    ) -> tuple[int, ...]:
        """A chain of lock-step groups, whose flows have this weight."""
        groups = route.groups(task.bytes, task.demand_bytes_per_s)
        if self.kway_b is not None and (ports := sorted({port for group in groups for port in group.ports})):
            links = [(port, 1) for port in ports]
            cap = float("inf") if task.demand_bytes_per_s is None else task.demand_bytes_per_s
            size = task.bytes / self.good
            nodes.append(transfer_node(index, size, links, before, demand=cap, latency=self.network.a_s))
            return (len(nodes) - 1,)
        for i, g in enumerate(groups):
            cap, size = g.demand_bytes_per_s, g.bytes
            if g.links:
                cap, size = min(cap, self.transport.loss_limit), size / self.good
            nodes.append(
                transfer_node(
                    index, size, g.links, before, demand=cap, latency=g.latency_s, continued=i > 0, claim=claim,
                )
            )  # fmt: skip
            before = (len(nodes) - 1,)
        return before

    def _add_opened(
        self, nodes: list[NodeSpec], index: int, task: Transfer, before: tuple[int, ...], route: tuple[OpenFlow, ...]
    ) -> tuple[int, ...]:
        """Single flows that follow each other. Where a pace starts them one after the other they do not follow, but
        wait."""
        if task.bytes <= 0:
            return before
        base, waited_for = len(nodes), set[int]()
        for flow in route:
            feed, after = flow.feed, flow.after
            if self.transport.start_after and flow.chunk <= 0.0 and feed[0] < feed[1]:
                feed, after = (0, 0), feed
            earlier = tuple(range(base + after[0], base + after[1]))
            waited_for.update(earlier)
            cap = flow.demand_bytes_per_s if task.demand_bytes_per_s is None else task.demand_bytes_per_s
            cap, size = min(cap, flow.demand_bytes_per_s), flow.share * task.bytes
            if flow.path:
                cap, size = min(cap, self.transport.loss_limit), size / self.good
            nodes.append(
                transfer_node(
                    index, size, [(link, 1) for link in flow.path], earlier or before, demand=cap,
                    latency=flow.latency_s, leads=tuple(range(base + feed[0], base + feed[1])),
                    chunk=flow.chunk * task.bytes / self.good, continued=bool(earlier),
                    claim=self.transport.claim,
                )
            )  # fmt: skip
        return tuple(i for i in range(base, len(nodes)) if i not in waited_for)


def _nodes(ends: dict[int, int] | tuple[int, ...]) -> Iterable[int]:
    return ends.values() if isinstance(ends, dict) else ends
