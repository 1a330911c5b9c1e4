"""mcs for a few jobs: mcs_kernel.py does the same operations in the same order for thousands."""

from collections.abc import Mapping, Sequence

FULL = 1e-6  # a NIC with no more than this part of its capacity left is full


def job_order(loads: Sequence[Mapping[int, float]]) -> list[int]:
    """The places of jobs, given the seconds that each still needs of each NIC, all stages of its iteration together.

    The sum of completion times is relaxed to a linear program with one family of inequalities for each NIC, and solved
    from the last place to the first (primal-dual): on the NIC with the most left the job that has the least weight for
    what it needs there goes last, and the others there pay its weight in proportion to what they need.
    """
    weight = [1.0] * len(loads)
    total: dict[int, float] = {}
    for mine in loads:
        for nic, seconds in mine.items():
            total[nic] = total.get(nic, 0.0) + seconds
    left, places = set(range(len(loads))), [0] * len(loads)
    for place in reversed(range(len(loads))):
        busiest = max(sorted(total), key=total.__getitem__, default=-1)
        there = [j for j in sorted(left) if loads[j].get(busiest, 0.0) > 0.0] or sorted(left)
        cost = {j: weight[j] / (loads[j].get(busiest, 0.0) or 1.0) for j in there}
        last = min(reversed(there), key=cost.__getitem__)  # if several cost the same, the one that came last
        for j in there:
            weight[j] -= cost[last] * loads[j].get(busiest, 0.0)
        places[last] = place
        left.discard(last)
        for nic, seconds in loads[last].items():
            total[nic] -= seconds
    return places


def bottleneck_s(
    flows: Sequence[tuple[int, int, float]], room: Sequence[float], capacity: Sequence[float]
) -> float:  # fmt: skip
    """Seconds that the busiest NIC of a coflow needs for it; infinite if one of its NICs is full."""
    load: dict[int, float] = {}
    for out, into, left in flows:
        load[out] = load.get(out, 0.0) + left
        load[into] = load.get(into, 0.0) + left
    longest = 0.0
    for link, amount in load.items():
        if room[link] <= FULL * capacity[link]:
            return float("inf")
        longest = max(longest, amount / room[link])
    return longest


def coflow_rates(
    job: Sequence[int], nics: Sequence[tuple[int, int]], left: Sequence[float], capacity: Sequence[float],
    places: Mapping[int, int],
) -> list[float]:  # fmt: skip
    """Rates of flows that may send; the flows of a job (side by side) are a coflow and end together. What is left of
    NICs then goes to single flows, in the same order."""
    coflows: dict[int, list[int]] = {}
    for i, name in enumerate(job):
        coflows.setdefault(name, []).append(i)
    room, rates = list(capacity), [0.0] * len(job)
    ranked = sorted(coflows, key=places.__getitem__)
    for name in ranked:
        seconds = bottleneck_s([(*nics[i], left[i]) for i in coflows[name]], room, capacity)
        if not 0.0 < seconds < float("inf"):
            continue
        for i in coflows[name]:
            rates[i] = left[i] / seconds
            for link in nics[i]:
                room[link] = max(room[link] - rates[i], 0.0)
    for name in ranked:
        for i in coflows[name]:
            more = min(room[nics[i][0]], room[nics[i][1]])
            rates[i] += more
            for link in nics[i]:
                room[link] -= more
    return rates
