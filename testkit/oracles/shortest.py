"""shortest and shortest:patient for a few jobs: shortest_kernel.py does the same for thousands."""

import math
from collections.abc import Mapping, Sequence

from weft.policies.pace.shortest.rule import ROUNDS


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


def shares(flows: Sequence[tuple[Sequence[int], float]], room: Sequence[float]) -> list[float]:
    """Max-min rates of foreign flows, given the links of each and the most that it asks for."""
    room, rate = list(room), [-1.0] * len(flows)
    while any(r < 0.0 for r in rate):
        left = [k for k, r in enumerate(rate) if r < 0.0]
        part = {link: room[link] / sum(link in flows[k][0] for k in left) for k in left for link in flows[k][0]}
        most = {k: min(flows[k][1], *(part[link] for link in flows[k][0])) for k in left}
        least = min(most.values())
        for k in (k for k in left if most[k] <= least * (1.0 + 1e-12)):
            rate[k] = least
            for link in flows[k][0]:
                room[link] = max(room[link] - least, 0.0)
    return rate


def pushing(
    jobs: Sequence[tuple[Mapping[int, int], float]], others: Sequence[tuple[Sequence[int], float]],
    capacity: Sequence[float], costs: Sequence[float], price: float,
) -> list[bool]:  # fmt: skip
    """Which jobs push, given the flows of each on each link, its seconds left, and what waiting is expected to cost
    it."""
    room, pushes = list(capacity), [False] * len(jobs)
    for j in sorted(range(len(jobs)), key=lambda j: jobs[j][1]):
        flows, seconds = jobs[j]
        rate = min((room[link] / n for link, n in flows.items()), default=0.0)
        alone = min((capacity[link] / n for link, n in flows.items()), default=0.0)
        if rate <= 1e-6 * alone:
            continue
        then = [max(free - rate * flows.get(link, 0), 0.0) for link, free in enumerate(room)]
        lost = (sum(shares(others, room)) - sum(shares(others, then))) / min(capacity[link] for link in flows)
        if lost <= 1e-6 or price * lost * seconds * alone / rate < costs[j]:
            room, pushes[j] = then, True
    return pushes
