"""The planner of flow scheduling, to be read: Algorithm 1 and the rules of Algorithm 2, for one flow at one host.

flow_kernel.py in the core does the same operations in the same order for all flows of a data centre. Rates are bytes
per second; "left" is bytes left over the length of a slot, so that a rate for one slot can be taken from it.
"""

from __future__ import annotations

from collections.abc import Sequence

ENOUGH = 1.0 - 2e-9  # a schedule that carries this part of what is left carries all of it: caps are rounded down
ROUNDING = 1e-9  # loads that differ by this part are equal; they are sums and differences of rates
TIGHT, LOOSE = 1.0 - ROUNDING, 1.0 + ROUNDING


def price(load: float, available: float) -> float:
    """lambda_l(t), what a byte per second costs on a link, in slots: load / available^2.

    It increases with the load; filling one link that is nearly full for a slot costs nearly as much as being a slot
    later. (The paper wants any price that increases with the load.)
    """
    return load * (1.0 / (available * available)) if available > 0.0 else 0.0


def path_state(
    loads: Sequence[Sequence[float]],
    available: Sequence[float],
    slots: int,
    own: Sequence[float] | None = None,
    mates: Sequence[tuple[int, Sequence[float]]] | None = None,
) -> tuple[list[float], list[float], list[float]]:
    """From the load of all other flows on each link of a path, by slot: what is free, path load and price, by slot.

    `mates` are, by link, how many other flows of the same job send over it, and what of the load is theirs. Constraint
    (7) is that of a whole job: b is the load of other jobs, and of what they leave the job's flows have equal parts. A
    job whose flows gave way to each other would hold itself up: no broadcast begins before the last push does. `own` is
    what the flow itself has posted. Where late or lost messages let more be posted than a link has, every host keeps
    its part of it: otherwise hosts that see each other late would give way to each other for ever."""
    free, path_load, prices = [float("inf")] * slots, [0.0] * slots, [0.0] * slots
    posted = own if own is not None else [0.0] * slots
    for n, (load, room) in enumerate(zip(loads, available, strict=True)):
        count, theirs = mates[n] if mates is not None else (0, ())
        per_byte, part, least = price(1.0, room), 1.0 / (count + 1.0), ROUNDING * room
        for t in range(slots):
            b = load[t] if load[t] > 0.0 else 0.0
            others = b - theirs[t] if count else b
            if others > least:
                path_load[t] += others
                prices[t] += others * per_byte
            else:
                others = 0.0
            rest, mine = room - b, posted[t]
            if mine > 0.0 and mine + b > room * LOOSE:
                rest = room * mine / (mine + b)
            free[t] = min(free[t], rest, (room - others) * part)
    return [max(room, 0.0) for room in free], path_load, prices


def plan(left: float, free: Sequence[float], load: Sequence[float], prices: Sequence[float]) -> list[float]:
    """Algorithm 1: rates for the next slots, the cheapest schedule that carries `left`; all that is free if none does.

    For each deadline D the slots up to D are filled by increasing path load, earlier first on ties; the cost is
    D + sum_t r(t) x price(t). A deadline that alone costs as much as the cheapest schedule so far ends the search.
    """
    k = len(free)
    best, best_order, order, room = float("inf"), list[int](), list[int](), 0.0
    if sum(free, 0.0) < left * ENOUGH:  # no deadline holds
        return list(free)
    for d in range(k):
        if d + 1.0 >= best:
            break
        at = d
        while at > 0 and load[order[at - 1]] * TIGHT > load[d]:
            at -= 1
        order.insert(at, d)
        room += free[d]
        if room < left * ENOUGH:
            continue
        cost, rest = d + 1.0, left
        for t in order:
            give = min(free[t], rest)
            cost += give * prices[t]
            rest -= give
        if cost < best:
            best, best_order = cost, order.copy()
    rates, rest = [0.0] * k, left
    for t in best_order:
        rates[t] = min(free[t], rest)
        rest -= rates[t]
    return rates


def allowance(sent: float, chunk: float, feeders: Sequence[float]) -> float:
    """The most a flow may send in this slot: its first chunk plus what the least advanced feeder will have delivered.

    All in units of rate: bytes over the length of a slot; `feeders` are F, what each has sent plus its plan for now.
    """
    return max(min(feeders) + chunk - sent, 0.0) if feeders else float("inf")


def adjusted(
    rate: float, sent: float, feeders: Sequence[float], followers: Sequence[float], most: float, free: float
) -> float:
    """Algorithm 2: the planned rate, raised so that dependent flows keep step.

    A ring flow and a broadcast are raised to the least advanced feeder, a push to the furthest follower: by (F - F_i)+.
    The raised rate is at most `most` (B_i: the best rate of the last slots) and at most what is free on the path; the
    plan itself is never lowered for it.
    """
    target = min(feeders) if feeders else max(followers, default=0.0)
    increase = max(target - (sent + rate), 0.0)
    if increase <= 0.0:
        return rate
    return max(rate, min(rate + increase, most, free))
