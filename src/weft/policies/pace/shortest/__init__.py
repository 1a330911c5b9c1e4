"""shortest (ours): foreign flows get what prices owe them, then the job nearest to its communication's end goes first.

Foreign flows are served first. What each of them is owed follows from an alpha-fair sharing in which a job pays for all
links on which it meets foreign flows: it takes more than a fair share where it meets one, and less where it would take
from several. Among our jobs, those that send for a smaller part of their iterations weigh more, because each of their
iterations costs others less. What is left is ours, and goes to jobs one after the other: shortest remaining iteration
first. `owed` and `rates` are meant to be read; shortest_kernel.py does the same for thousands of jobs.

`shortest:patient` (patient.py) learns how long foreign flows last. A job either pushes them aside or waits for them,
whichever costs less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Self

import numpy as np

from weft.errors import StackError
from weft.kernels import load
from weft.model.flows import FlowSet
from weft.policies.pace.base import RatedPace
from weft.policies.pace.rates import NOBODY, Demand, Ints, Limits, Moment, Others, RateRule, Transport

WEIGHT = 8.0  # a job of ours weighs as much as so many foreign flows on a link
ROUNDS = 40  # in which prices are settled; where flows meet on one link the first is exact


def owed(
    jobs: Sequence[Mapping[int, int]], weights: Sequence[float], others: Sequence[tuple[Sequence[int], float]],
    capacity: Sequence[float],
) -> list[float]:  # fmt: skip
    """Bytes per second that are foreign flows' own, given the flows of each job on each link and its weight, and of
    foreign flows the links and the most that they ask for.

    Every link has a price. A foreign flow has 1 / s^2, where s is the sum of prices on its path; each flow of a job has
    weight / s^2, where s is what one more byte per second of all of its flows costs. Prices rise where more is asked
    for than a link carries, and fall where it is less (utility 2 sqrt(x): alpha-fair sharing with alpha = 1/2). Links
    without foreign flows have no price.
    """
    met = list(dict.fromkeys(link for links, _ in others for link in links))
    ours = [{link: n for link, n in flows.items() if link in met} for flows in jobs]
    asked = dict.fromkeys(met, 0.0)
    for flows, weight in zip(ours, weights, strict=True):
        for link, n in flows.items():
            asked[link] += weight / n
    for links, _ in others:
        for link in links:
            asked[link] += 1.0
    price = {link: math.sqrt(asked[link] / capacity[link]) for link in met}
    rates = [0.0] * len(others)
    for _ in range(ROUNDS):
        asked = dict.fromkeys(met, 0.0)
        for flows, weight in zip(ours, weights, strict=True):
            cost = sum(n * price[link] for link, n in flows.items())
            for link, n in flows.items():
                asked[link] += n * weight / (cost * cost)
        for k, (links, most) in enumerate(others):
            cost = sum(price[link] for link in links)
            rates[k] = min(1.0 / (cost * cost), most)
            for link in links:
                asked[link] += rates[k]
        price = {link: price[link] * math.sqrt(math.sqrt(asked[link] / capacity[link])) for link in met}
    crowded = {link: max(asked[link] / capacity[link], 1.0) for link in met}
    return [rate / max(crowded[link] for link in links) for rate, (links, _) in zip(rates, others, strict=True)]


def rates(
    jobs: Sequence[Sequence[tuple[Sequence[int], float]]], room: Sequence[float], capacity: Sequence[float]
) -> list[list[float]]:
    """Rates of the flows of jobs, given for each the links and the bytes left, on what is ours of each link.

    The order is by the most seconds that any link still has to do for a job. All flows of a job have one rate, as large
    as its links have room for; then what is left of links goes to single flows, in the same order.
    """
    room, found = list(room), [[0.0] * len(flows) for flows in jobs]
    need: list[dict[int, float]] = [{} for _ in jobs]
    count: list[dict[int, int]] = [{} for _ in jobs]
    for j, flows in enumerate(jobs):
        for links, left in flows:
            for link in links:
                need[j][link] = need[j].get(link, 0.0) + left / capacity[link]
                count[j][link] = count[j].get(link, 0) + 1
    seconds = [max(needs.values(), default=0.0) for needs in need]
    order = sorted(range(len(jobs)), key=seconds.__getitem__)  # stable: of several the one that came first
    for j in order:
        rate = min((room[link] / n for link, n in count[j].items()), default=0.0)
        for link, n in count[j].items():
            room[link] = max(room[link] - rate * n, 0.0)
        found[j] = [rate] * len(jobs[j])
    for j in order:
        for k, (links, _) in enumerate(jobs[j]):
            more = min((room[link] for link in links), default=0.0)
            found[j][k] += more
            for link in links:
                room[link] -= more
    return found


class ShortestRule(RateRule):
    """Asked when transfers start or end, foreign ones too: between these the order does not change, since who goes
    first gets shorter."""

    slot_s = math.inf
    everyone = True
    minds_others = True

    def __init__(self, weight: float = WEIGHT) -> None:
        self.weight = weight

    def begin(self, demand: Demand) -> None:
        """Nobody else sends yet."""
        self.capacity = demand.capacity
        self.part: dict[int, float] = {}  # by a job's uid: the fraction of an iteration alone for which it sends
        self.others(NOBODY)

    @property
    def kernel(self) -> ModuleType:
        """weft.policies.pace.shortest.shortest_kernel, compiled by numba when first called."""
        return load("weft.policies.pace.shortest.shortest_kernel")

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """What a job computes and sends in an iteration is known from its profile."""
        busy: dict[int, float] = {}
        for row in rows[flows.size[rows] > 0.0].tolist():
            for link in flows.path[row].tolist():
                if link >= 0:
                    busy[link] = busy.get(link, 0.0) + float(flows.size[row] / self.capacity[link])
        if busy:
            uid, sends_s, compute_s = int(flows.uid[rows[0]]), max(busy.values()), float(flows.compute_s[rows].max())
            self.part[uid] = sends_s / (sends_s + compute_s)

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """Forget it."""
        for uid in set(flows.uid[rows].tolist()):
            self.part.pop(uid, None)

    def others(self, there: Others) -> None:
        """Remember them."""
        self.there = there

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """Caps, job by job, on what each link has left when others have had what they are owed."""
        uids, job = np.unique(flows.uid[live], return_inverse=True)
        part = np.array([self.part.get(uid, 1.0) for uid in uids.tolist()])
        weights, caps = self.weight * (part.mean() if len(part) else 1.0) / part, np.zeros(len(flows))
        self.kernel.decide(
            live, job, flows.path, flows.size - flows.sent, self.capacity, self.there.path, self.there.most, weights,
            ROUNDS, caps,
        )  # fmt: skip
        return Limits(caps)


class Shortest(RatedPace):
    """`shortest`, or `shortest:X` for jobs that weigh as much as X foreign flows on one link. `shortest:patient`, or
    `shortest:patient=X` for another price of what others lose."""

    def __init__(self, weight: float = WEIGHT, price: float | None = None) -> None:
        from weft.policies.pace.shortest.patient import PRICE

        self.weight, self.price = weight, price
        if price is not None:
            self.name = "shortest:patient" if price == PRICE else f"shortest:patient={price:g}"
        else:
            self.name = "shortest" if weight == WEIGHT else f"shortest:{weight:g}"

    @classmethod
    def from_text(cls, arg: str | None) -> Self:
        """`shortest`, `shortest:X`, `shortest:patient` or `shortest:patient=X`."""
        from weft.policies.pace.shortest.patient import PRICE

        if arg is None or arg == "patient":
            return cls(price=None if arg is None else PRICE)
        number = arg.removeprefix("patient=")
        try:
            value = float(number)
        except ValueError:
            value = 0.0
        if not 1e-3 <= value <= 1e6:
            raise StackError(
                f"shortest:{arg}: write shortest, shortest:X, shortest:patient, or shortest:patient=X, with a number X "
                "from 0.001 to 1000000"
            )
        return cls(value) if number == arg else cls(price=value)

    def transport(self, packet_loss: float = 0.0) -> Transport:
        """Single flows whose senders keep the rate they were given: it leaves others what they are owed."""
        return Transport(opened=True, reacts=False)

    def rates(self) -> RateRule:
        """The rule of one run."""
        from weft.policies.pace.shortest.patient import PatientRule

        return ShortestRule(self.weight) if self.price is None else PatientRule(self.price)
