"""Conformance suites for policies: `check_order(MyOrder)` passes, or raises AssertionError saying what is wrong.

Each suite runs the policy through the real core in ToyWorld, over random workloads with slow and failing starts,
lost servers and withdrawn jobs, and looks at every answer (weft.testing.watch).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import product

from weft.core.cycle import Core
from weft.core.layered import Layered
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import DecisionError, StackError
from weft.model.events import Submitted
from weft.model.flows import TransferView
from weft.model.plan import Candidate, Start, State
from weft.model.units import K_WAY_B_S_PER_BYTE, K_WAY_ETA_S_PER_BYTE
from weft.model.view import ClusterView
from weft.policies.interleave.base import Interleave, NoInterleave, Pick
from weft.policies.order.base import Order
from weft.policies.order.fifo import Fifo
from weft.policies.pace.base import Pace
from weft.policies.place.base import Place
from weft.policies.place.best_fit import BestFit
from weft.policies.planners.base import Planner
from weft.testing.toy import ToyWorld, toy_cluster, toy_job, workload
from weft.testing.watch import Watch, WatchedInterleave, WatchedOrder, WatchedPlace, WatchedPlanner, require

WORKLOADS = range(8)
_MAX_CYCLES = 20_000
_ADMISSIONS = ("all", "at-most", "ratio", "ask")


class OneOfThree(NoInterleave):
    """Asks for several candidates, so that they are checked too."""

    candidates = 3

    def pick(self, view: ClusterView, candidates: list[Candidate], state: State) -> Pick:  # type: ignore[override]
        """The last one: the planner must be able to go on from any."""
        return Pick(candidates[-1], state)


def check_order(make: Callable[[], Order], workloads: Iterable[int] = WORKLOADS) -> None:
    """An order: known jobs claimed once each, at sizes they run on, with reasons; pure; every job has its turn, and
    those with a higher priority have it first."""
    for number in workloads:
        watched = WatchedOrder(make)
        try_workload(number, Stack(watched.name, Layered(watched, BestFit())), watched)
    for scale in (5, 5000):  # jobs too short to be worth a restart, and jobs that are worth one
        _keeps_priorities(make(), scale)


def check_place(make: Callable[[], Place], workloads: Iterable[int] = WORKLOADS) -> None:
    """A place: as many free (or, if it shares, big enough) GPUs as asked for, with reasons; pure; everybody fits, those
    with a shape too."""
    for number in workloads:
        watched = WatchedPlace(make)
        try_workload(number, Stack(watched.name, Layered(Fifo(backfill=True), watched), OneOfThree()), watched)
    _starts_shapes(lambda: Layered(Fifo(backfill=True), make()), make().name)


def check_planner(make: Callable[[], Planner], workloads: Iterable[int] = WORKLOADS) -> None:
    """A planner: one to n different plans that can be carried out, with reasons; pure; every job has its turn, those
    with a shape too if the planner says that it keeps shapes."""
    if make().keeps_shapes:
        _starts_shapes(make, make().name)
    for number in workloads:
        for interleave in (NoInterleave(), OneOfThree()):
            watched = WatchedPlanner(make)
            try_workload(number, Stack(watched.name, watched, interleave), watched)


def check_interleave(make: Callable[[], Interleave], workloads: Iterable[int] = WORKLOADS) -> None:
    """An interleave: one of the plans proposed, with gates only on tasks of placed jobs; pure; jobs still finish."""
    for number in workloads:
        watched = WatchedInterleave(make)
        try_workload(number, Stack(watched.name, Layered(Fifo(backfill=True), BestFit()), watched), watched)


def check_pace(make: Callable[[], Pace]) -> None:
    """A pace: an admission rule that the engine knows, the same whenever it is asked for."""
    pace = make()
    what = type(pace).__name__
    require(bool(pace.name), f"{what} has no name")
    for eta in (0.0, K_WAY_ETA_S_PER_BYTE):
        rule = pace.admission(K_WAY_B_S_PER_BYTE, eta)
        same = rule == pace.admission(K_WAY_B_S_PER_BYTE, eta) == make().admission(K_WAY_B_S_PER_BYTE, eta)
        require(same, f"{what}.admission answers the same question differently")
        require(rule.kind in _ADMISSIONS, f"{what}.admission: kind {rule.kind!r} is none of {', '.join(_ADMISSIONS)}")
        if rule.kind == "all":
            continue
        require(pace.holds_back, f"{what} holds transfers back ({rule.kind}) and does not say so: holds_back = True")
        if rule.kind == "ask":
            first = TransferView("a", 0, 1.0, frozenset({0}), 0.0)
            fine = rule.ask is not None and rule.ask(first, ())
            require(fine, f"{what}.admission: ask does not let a transfer start that is alone; it would wait for ever")
            continue
        require(rule.k >= 1, f"{what}.admission: k is {rule.k}; at least one transfer must be let through")
        if rule.kind == "ratio":
            fine = len(rule.ratios) == rule.k - 1 and all(0 <= ratio < float("inf") for ratio in rule.ratios)
            require(fine, f"{what}.admission: ratios {rule.ratios} are not {rule.k - 1} numbers for k = {rule.k}")


def _keeps_priorities(order: Order, iterations: int) -> None:
    """Six jobs, each as large as the cluster: whoever has a higher priority starts first, whatever else it is like."""
    priorities = {"a": 0, "b": 2, "c": 1, "d": 2, "e": 0, "f": 1}
    jobs = [
        replace(toy_job(name, 16, iterations * (n % 3 + 1)), priority=priority)
        for n, (name, priority) in enumerate(priorities.items())
    ]
    world = ToyWorld(toy_cluster(), jobs)
    core = Core(Stack(order.name, Layered(order, BestFit())), world)
    first: dict[str, None] = {}
    run(core, world, on_progress=lambda _, core: first.update(dict.fromkeys(core.table.running)))
    found = [priorities[name] for name in first]
    what = f"{order.name}: jobs of priorities {found} start in this order; compare priorities first"
    require(found == sorted(found, reverse=True), what)


def _starts_shapes(make: Callable[[], Planner], name: str) -> None:
    """A job that is alone on an idle cluster, and must have a number of workers on each server, starts at once."""
    cluster = toy_cluster(2, 2, 8)
    for servers, each, message_bytes in product((1, 2, 3, 4), (1, 2, 3, 4, 8), (0.0, 1e8, 1e12)):
        plain = toy_job("a", servers * each, message_bytes=message_bytes)
        job = replace(plain, per_server=each, model="vgg16")  # the zoo knows it: one large tensor
        planner = make()
        world = ToyWorld(cluster.copied(2) if planner.dedicated else cluster, [job])
        starts = Core(Stack(name, planner), world).step(0.0, [Submitted(0.0, job)])
        placed = [
            cluster.counts([g % cluster.n_gpus for g in start.gpus]) for start in starts if isinstance(start, Start)
        ]
        what = f"{name}: a job of {each} GPUs on each of {servers} servers"
        require(bool(placed), f"{what} does not start at once on an idle cluster of 4 servers of 8 GPUs")
        require(set(placed[0].values()) == {each}, f"{what} gets {sorted(placed[0].values())}")


def try_workload(number: int, stack: Stack, watched: Watch) -> None:
    """Run a workload to its end with a watched stack; the world knows no more than the stack says it needs."""
    work = workload(number, shapes=stack.planner.keeps_shapes)
    world = work.world(stack.needs, uneven=stack.planner.uneven)
    if not (stack.planner.unequal or world.cluster.alike):
        try:
            Core(stack, world, seed=number)
        except StackError:
            return
        raise AssertionError(f"{stack.name} does not say that it handles unequal GPUs, and is not refused")
    core = Core(stack, world, seed=number)
    watched.core = core

    def limit(now: float, core: Core) -> None:
        require(core.cycle < _MAX_CYCLES, f"{stack.name}: workload {number} does not end; it is {now} s")

    try:
        run(core, world, on_progress=limit)
    except DecisionError as error:
        raise AssertionError(f"{stack.name}, workload {number}: {error}") from error
    stuck = sorted(core.table.jobs)
    require(not stuck, f"{stack.name}: {len(stuck)} jobs of workload {number} never finish, {stuck[:3]} among them")
