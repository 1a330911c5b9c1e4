"""flow: every host plans its rates, every switch keeps a load table (Zhao, Wu and Zhu).

`flow` asks the switches, `flow:host-only` knows no link but its own NIC (Figure 14). A flow starts at once, at the rate
that is free for the rest of the slot, and the rate that it gives up is free at once. `flow:quantised` is the for-loop
over slots of section VII: a flow waits for the next slot, and has one rate throughout a slot. `flow:fill` (ours) gives
priorities instead of limits: jobs that have planned for this slot go first, and the others have what these leave.

`flow:leaves=40%` says how much of its fair share a foreign TCP flow keeps beside our senders (none of it by default,
since these do not react to loss; all of it if they do). `flow:pauses` follows the text to the letter where answers are
late: a host sends nothing in a slot until it has the answers for that slot. What else the authors' prototype does
otherwise than their text is the pace `flow-prototype` of weft-evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import StackError
from weft.kernels import load
from weft.model.flows import FlowSet
from weft.model.policy import setting
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import CLAIM, Carried, Demand, Floats, Ints, Limits, Moment, RateRule, Transport

WINDOW = 4  # slots
MOST_SLOTS = 1000  # that may be planned ahead


def available_bandwidth(capacity: Floats, carried: Floats, full: npt.NDArray[np.bool_]) -> Floats:
    """u_l, what is ours of each link: from the last slots (rows), what we carried and whether the link was full.

    A link that was asked for more than it has in the window is taken to have no more for us than the most that we got
    through it; any other is ours at line rate. We look again once in a window. (Beside paced senders foreign TCP gives
    way, so it is our own flows that fill a link: where messages are late or lost, or hosts know no switch.)
    """
    if not full.any():
        return capacity
    most: Floats = np.where(full.any(axis=0), carried.max(axis=0), capacity)
    return most


def first_of_its_job(flows: FlowSet, live: Ints, slot: int) -> int:
    """Where in `live` the decisions of a slot begin: at another job in each slot, and at the first flow of that job, so
    that its pushes have decided before its broadcasts ask how far they are."""
    if not len(live):
        return 0
    job = flows.job[live]
    at = slot % len(live)
    while at > 0 and job[at - 1] == job[at]:
        at -= 1
    return at


@dataclass
class _Heard:
    """What was said in a slot: the tables, the schedules in them, and F of each flow at the time it is heard."""

    slot: int
    table: Floats
    posted: Floats
    reach: Floats

    def grow(self, more: int) -> None:
        """Make room for flows that have come since; they had posted nothing."""
        self.posted = np.vstack([self.posted, np.zeros((more, self.posted.shape[1]))])
        self.reach = np.concatenate([self.reach, np.zeros(more)])

    def pass_by(self, slot: int) -> None:
        """Clear the columns of slots that are over: they now belong to later slots, for which nothing is posted yet."""
        k = self.table.shape[1]
        for past in range(self.slot, min(slot, self.slot + k)):
            self.table[:, past % k] = self.posted[:, past % k] = 0.0


@dataclass(frozen=True)
class FlowSpec:
    """How hosts and switches are set up. Some messages are lost; all arrive `delay_s` late.

    What a host knows of others is older by the whole slots of the delay. For the rest of the delay, at the start of
    each slot, a host has no answer yet and sends what it had planned before, or nothing if it pauses.
    """

    host_only: bool = setting(False, words={"host-only": True})
    fill: bool = setting(False, words={"fill": True})
    quantised: bool = setting(False, words={"quantised": True})
    pauses: bool = setting(False, words={"pauses": True})
    slot_s: float = setting(0.06, "slot", within="[0.1, 10000]", unit="ms")
    slots: int = setting(10, "slots", within=f"[1, {MOST_SLOTS}]", whole=True)
    delay_s: float = setting(0.0, "delay", within="[0, inf)", unit="ms")
    message_loss: float = setting(0.0, "loss", within="[0, 100)", unit="%")
    leaves: float = setting(0.0, "leaves", within="[0, 100]", unit="%")

    @cached_property
    def late(self) -> int:
        """Whole slots by which what others post is late."""
        return min(int(self.delay_s / self.slot_s + 1e-9), self.slots - 1)

    @cached_property
    def waiting(self) -> float:
        """Part of each slot that passes before the answers of this slot are there."""
        return min(max(self.delay_s / self.slot_s - self.late, 0.0), 1.0)


class Asked(NamedTuple):
    """How hosts are asked in `flow_kernel`."""

    start: int  # where in the list of flows the decisions begin
    slot: int
    part: float  # how much of the slot is still to come
    slot_s: float
    late: int
    waiting: float
    pauses: bool
    host_only: bool
    quantised: bool
    alike: bool
    loss: float
    seed: int


class Flows(NamedTuple):
    """What `flow_kernel` reads of a FlowSet."""

    job: npt.NDArray[np.int32]
    path: npt.NDArray[np.int32]
    feed0: npt.NDArray[np.int32]
    feed1: npt.NDArray[np.int32]
    next0: npt.NDArray[np.int32]
    next1: npt.NDArray[np.int32]
    size: Floats
    chunk: Floats
    sent: Floats


class Tables(NamedTuple):
    """What hosts and switches hold; see FlowRule."""

    line: Floats
    available: Floats
    table: Floats
    posted: Floats
    plans: Floats
    seen: Floats
    seen_posted: Floats
    told: Floats
    reached: Floats
    caps: Floats


class Workspace(NamedTuple):
    """Where `flow_kernel` works: by slot of the horizon, by link, and by flow."""

    free: Floats
    load: Floats
    prices: Floats
    rates: Floats
    order: Ints
    kept: Ints
    work: Floats
    mine: Floats  # what the job that decides now has posted on a link
    seen_mine: Floats
    mates: Floats  # its flows on a link
    marked: Ints
    known: Ints
    decided: npt.NDArray[np.bool_]


def _work_room(links: int, slots: int, flows: int) -> Workspace:
    free, load, prices, rates = (np.empty(slots) for _ in range(4))
    mine, seen_mine = np.empty((links, slots)), np.empty((links, slots))
    marked, known = np.empty(links, np.int64), np.empty(links, np.int64)
    order, kept, work = np.empty(slots, np.int64), np.empty(slots, np.int64), np.empty((4, slots))
    return Workspace(
        free, load, prices, rates, order, kept, work, mine, seen_mine, np.empty(links), marked, known,
        np.empty(flows, np.bool_),
    )  # fmt: skip


class FlowRule(RateRule):
    """All hosts and switches at once, as arrays; one host alone is HostScheduler (weft_live/flow/host.py)."""

    def __init__(self, spec: FlowSpec | None = None) -> None:
        self.spec = spec or FlowSpec()
        self.slot_s = self.spec.slot_s
        self._alike = self.spec.message_loss <= 0.0  # switches know every plan: one array serves both
        self.table: Floats = np.zeros((0, self.spec.slots))
        self.plans: Floats = np.zeros((0, self.spec.slots))  # rates by flow and slot, as its host means to send
        self.posted: Floats = np.zeros((0, self.spec.slots))  # as the switches know them
        self.reached: Floats = np.zeros((0, WINDOW))
        self.told: Floats = np.zeros(0)  # F of each flow, as its peers know it
        self.caps: Floats = np.zeros(0)  # rates at which flows send now
        self._last = -1

    @property
    def kernel(self) -> ModuleType:
        """weft.policies.pace.flow.flow_kernel, compiled by numba when first called."""
        return load("weft.policies.pace.flow.flow_kernel")

    def begin(self, demand: Demand) -> None:
        """Empty tables."""
        links, k = len(demand.capacity), self.spec.slots
        self.capacity, self.seed = demand.capacity, demand.seed
        self.table = np.zeros((links, k))
        self.available = demand.capacity.copy()
        self._carried, self._full = np.zeros((WINDOW, links)), np.zeros((WINDOW, links), np.bool_)
        self._room(0)
        self._history: list[_Heard] = []  # what was said in earlier slots and is on its way
        self._seen: tuple[Floats, Floats] = (self.table, self.posted)  # what hosts know of switches in this slot

    def _room(self, n: int) -> None:
        """Grow the tables to one row per flow."""
        k, more = self.spec.slots, n - len(self.plans)
        self.plans = np.vstack([self.plans, np.zeros((more, k))])
        self.posted = self.plans if self._alike else np.vstack([self.posted, np.zeros((more, k))])
        self.reached = np.vstack([self.reached, np.zeros((more, WINDOW))])
        self.told, self.caps = (np.concatenate([a, np.zeros(more)]) for a in (self.told, self.caps))
        self._work = _work_room(len(self.table), k, n)

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Every host in its turn; who is first changes from slot to slot."""
        slot, late = when.slot, self.spec.late
        if len(flows) != len(self.plans):
            for heard in self._history:
                heard.grow(len(flows) - len(self.plans))
            self._room(len(flows))
            self._seen = (self.table, self.posted) if not late else self._hear(slot, len(flows))
        if slot != self._last:
            for past in range(max(self._last, slot - self.spec.slots), slot) if self._last >= 0 else ():
                self.kernel.expire(past % self.spec.slots, self.table, self.posted, self.plans, self._alike)
            self._pass_idle(slot)
            self._last = slot
            self._seen = (self.table, self.posted) if not late else self._hear(slot, len(flows))
        if when.begins or not self.spec.quantised:
            self._plan(when, flows, live)
        if late and when.begins:
            soon = np.arange(slot, slot + late + 1) % self.spec.slots
            reach = flows.sent / self.slot_s + self.plans[:, soon].sum(axis=1)
            self._history.append(_Heard(slot, self.table.copy(), self.posted.copy(), reach))
        if self.spec.fill:
            return self._filling(flows, live, slot)
        return Limits(self.caps)

    def _plan(self, when: Moment, flows: FlowSet, live: Ints) -> None:
        """Plans, posted loads and caps of these flows."""
        spec = self.spec
        line = self.capacity[np.maximum(flows.path[:, 0], 0)] if spec.host_only else flows.line
        asked = Asked(
            first_of_its_job(flows, live, when.slot), when.slot, when.part, self.slot_s, spec.late, spec.waiting,
            spec.pauses, spec.host_only, spec.quantised, self._alike, spec.message_loss, self.seed,
        )  # fmt: skip
        job, size = self.planned(flows)
        of = Flows(
            job, flows.path, flows.feed0, flows.feed1, flows.next0, flows.next1, size, flows.chunk, flows.sent
        )  # fmt: skip
        tables = Tables(
            line, self.available, self.table, self.posted, self.plans, *self._seen, self.told, self.reached, self.caps
        )
        self.kernel.decide(asked, of, tables, self._work, live)

    def planned(self, flows: FlowSet) -> tuple[npt.NDArray[np.int32], Floats]:
        """The job of each flow, whose flows are no load for each other, and its bytes, as hosts plan them."""
        return flows.job, flows.size

    def estimated(self, carried: Floats, full: npt.NDArray[np.bool_]) -> Floats:
        """What is ours of each link."""
        return available_bandwidth(self.capacity, carried, full)

    def _filling(self, flows: FlowSet, live: Ints, slot: int) -> Limits:
        """No caps: jobs that have planned for this slot are served first."""
        planned = live[self.plans[live, slot % self.spec.slots] > 0.0]
        levels = np.zeros(len(flows), np.int64)
        levels[live] = ~np.isin(flows.job[live], flows.job[planned])
        weights = np.full(len(flows), CLAIM, np.int64) if 0.0 < self.spec.leaves < 1.0 else None
        return Limits(np.full(len(flows), np.inf), weights, levels)

    def _hear(self, slot: int, flows: int) -> tuple[Floats, Floats]:
        """What hosts hear in this slot: tables, schedules and their peers' F as they were posted `late` slots ago or,
        if nothing was posted then, before that."""
        arrived = [heard for heard in self._history if heard.slot <= slot - self.spec.late]
        if not arrived:
            self.told = np.zeros(flows)
            return np.zeros_like(self.table), np.zeros_like(self.posted)
        self._history = self._history[len(arrived) - 1 :]
        arrived[-1].pass_by(slot)
        self.told = arrived[-1].reach
        return arrived[-1].table, arrived[-1].posted

    def _pass_idle(self, slot: int) -> None:
        """Count slots without our flows, too, so that older observations are forgotten in time."""
        idle = range(max(self._last + 1, slot - WINDOW), slot)
        for past in idle:
            self._carried[past % WINDOW], self._full[past % WINDOW] = 0.0, False
        if idle:
            self.available = self.estimated(self._carried, self._full)

    def carried(self, slot: int, flows: FlowSet, live: Ints, came: Carried) -> None:
        """Hosts note the rates they reached, and what their links carried."""
        row = slot % WINDOW
        self.reached[: len(flows), row] = flows.rate[: len(self.reached)]
        self._carried[row], self._full[row] = came.link, came.full
        self.available = self.estimated(self._carried, self._full)

    def over(self, rows: Ints, flows: FlowSet) -> None:
        """What they had planned is withdrawn."""
        rows = rows[rows < len(self.plans)]
        self.kernel.forget(rows, self.table, self.posted, self.plans, flows.path)
        self.reached[rows], self.caps[rows] = 0.0, 0.0
        for heard in self._history:
            heard.reach[rows], heard.posted[rows] = 0.0, 0.0


@dataclass(eq=False)
class Flow(RatedPace):
    """`flow`, `flow:host-only`, `flow:slot=30ms,delay=6ms,loss=1%`."""

    name = "flow"
    hint = " (no-estimate, own-load and volume=X are settings of flow-prototype, which is in weft-evidence)"
    spec: FlowSpec = FlowSpec()

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        super().__post_init__()
        if self.spec.delay_s >= self.spec.slot_s * self.spec.slots:
            raise StackError(f"{self.name}: delay must be less than the horizon of all slots")
        if self.spec.fill and self.spec.quantised:
            raise StackError(f"{self.name}: fill sets no rates, so they cannot be quantised; choose one of the two")

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows that leave a foreign flow what the settings say."""
        return Transport.leaving(self.spec.leaves)

    def rates(self) -> RateRule:
        """The rule of one run."""
        return FlowRule(self.spec)
