"""How fast jobs could be together beside cross traffic, if a pace knew all of it and planned for all jobs at once.

`python -m tools.knowing` runs `flows` and `flows-cloud` with a rule that is told all foreign flows of the next seconds.
Whenever transfers start or end, and every 0.1 s, it plays the next 3 s with every choice that it has, for one job after
the other: to follow a rule, to push now, to wait for a while and follow the rule then, to go before the other jobs or
after them, to push and go first. The rule is that of `shortest:patient` with X = 0.4, except that it is told when
foreign flows end and for how long they last in the mean. It takes what costs least: the seconds that jobs lose, each
times 1 plus the number of jobs that wait for GPUs, and what others lose at a price. It prints times over those with
MCS, and what others have by the end of both over what they have beside `fair`; for scale, also the time of `shortest`
where nobody else sends. Two numbers after it are another first seed and how many seeds. It takes about an hour of CPU
time, most of it for the cloud.

It is no bound: it looks 3 s ahead, chooses for one job at a time, and does not see jobs end or come. What it plays has
one rate for all flows of a job and takes a job's links until the last of its flows has ended, though in the run single
flows also have what is still free. So some transfers end sooner than it expects: in a slice of `flows` nine of ten are
within 0.09 s. What it may choose, how far it looks ahead and the X of the rule were chosen on seeds 1 to 5.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tools.flows import lost_bytes
from weft.compiled import load
from weft.model.cluster import Cluster
from weft.model.flows import FlowSet
from weft.pace.rates import Ints, Limits, Moment, RateRule, Transport
from weft.pace.shortest import Shortest
from weft.pace.shortest.patient import POWER, PatientRule
from weft.research.claims import Measured
from weft.research.flows.runs import MEAN, interval
from weft.results.run import RunResult
from weft.scenario import Scenario
from weft.scenario.build import Layers, build_cluster, build_stack, build_workload, physics
from weft.scenario.shipped import scenario_path
from weft.sim import simulate
from weft.sim.foreign import Others, delivered_alone
from weft.sim.spec import NetworkSpec

kernel = load("weft.pace.shortest.shortest_kernel")
by_jobs, give_rest, leave = kernel.by_jobs, kernel.give_rest, kernel.leave
rate_of, seconds_left, shares = kernel.rate_of, kernel.seconds_left, kernel.shares

Floats = npt.NDArray[np.float64]
AHEAD_S = 3.0
WAITS_S = np.array([0.1, 0.3, 0.6, 1.0])
RULE_PRICE = 0.4  # X of the rule that jobs follow where nothing was chosen for them
PRICES = (0.5, 0.6, 0.7)  # seconds of a job for a second of line rate of others
BETTER_S = 0.005  # a choice must be better by so much than one that was looked at before
FIRST, LAST = -1e3, 1e3  # added to the seconds that order jobs
TINY = 1e-9
WHERE = (("flows", "first-fit"), ("flows-cloud", "random"))


@njit(cache=True)
def take(j, rate, begins, link_of, n_of, room):  # type: ignore[no-untyped-def]
    """All flows of a job have this rate, and links so much less room."""
    for e in range(begins[j], begins[j + 1]):
        room[link_of[e]] = max(room[link_of[e]] - rate * n_of[e], 0.0)


@njit(cache=True)
def rates_by_rule(t, jobs, state, chosen, flows, there, price, rates, theirs):  # type: ignore[no-untyped-def]
    """Rates of jobs and of the foreign flows `there` at t seconds from now, and what is left of the links."""
    begins, link_of, n_of, capacity, alone = jobs[:5]
    sending, left, waited = state
    until, pushes, turn = chosen
    others, most, _, ends, usual = flows
    room, free, then = capacity.copy(), capacity.copy(), np.zeros(len(others))
    users, served = np.zeros(len(capacity), np.int64), np.zeros(len(left), np.bool_)
    shares(there, others, most, free, users, theirs)
    rates[:] = 0.0
    order = np.argsort(np.where(sending, left + turn, np.inf), kind="mergesort")[: sending.sum()]
    for j in order:
        rate = rate_of(j, begins, link_of, n_of, room)
        if until[j] > t + TINY or rate <= 1e-6 * alone[j]:
            continue
        free[:] = room
        mine = np.zeros(len(capacity), np.bool_)
        mine[link_of[begins[j] : begins[j + 1]]] = True
        take(j, rate, begins, link_of, n_of, free)
        shares(there, others, most, free, users, then)
        lost, stay = 0.0, 0.0
        for k in there:
            lost += (theirs[k] - then[k]) / capacity.min()
            for link in others[k]:
                if link >= 0 and mine[link]:
                    stay = max(stay, ends[k] - t)
        waits = usual + stay + 0.5 * waited[j]
        if lost <= 1e-6 or pushes[j] or price * lost * left[j] * alone[j] / rate < waits:
            served[j], rates[j] = True, rate
            take(j, rate, begins, link_of, n_of, room)
            theirs[there] = then[there]
    leave(others[there], theirs[there], room)
    for j in order:
        if not served[j]:
            rates[j] = rate_of(j, begins, link_of, n_of, room)
            take(j, rates[j], begins, link_of, n_of, room)
    return order, room


@njit(cache=True)
def played(ahead, jobs, state, chosen, flows, price, lost_price, value):  # type: ignore[no-untyped-def]
    """The cost of the next seconds: what others lose at its price, less the seconds by which jobs get on."""
    capacity, alone, computes, sends = jobs[3:]
    others, most, starts, ends, _ = flows
    sending, left, waited = state[0].copy(), state[1].copy(), state[2].copy()
    until, pushes, turn = chosen[0], chosen[1].copy(), chosen[2].copy()
    rates, theirs, users = np.zeros(len(left)), np.zeros(len(others)), np.zeros(len(capacity), np.int64)
    t, gained, lost = 0.0, 0.0, 0.0
    while t < ahead - TINY:
        there = np.flatnonzero((starts <= t + TINY) & (ends > t + TINY))
        shares(there, others, most, capacity.copy(), users, theirs)
        without = theirs[there].sum()
        now = (sending, left, waited)
        rates_by_rule(t, jobs, now, (until, pushes, turn), flows, there, price, rates, theirs)
        step = ahead - t
        for k in range(len(others)):
            if starts[k] > t + TINY:
                step = min(step, starts[k] - t)
            elif ends[k] > t + TINY:
                step = min(step, ends[k] - t)
        for j in range(len(left)):
            if not sending[j]:
                step = min(step, left[j])
            elif rates[j] > 0.0:
                step = min(step, left[j] * alone[j] / rates[j])
            if sending[j] and until[j] > t + TINY:
                step = min(step, until[j] - t)
        step = max(step, TINY)
        lost += (without - theirs[there].sum()) * step / capacity.min()
        for j in range(len(left)):
            done = step * rates[j] / alone[j] if sending[j] else step
            left[j] -= done
            waited[j] += step - done
            gained += done * value
            if left[j] <= 1e-7:
                sending[j] = not sending[j]
                left[j], waited[j] = sends[j] if sending[j] else computes[j], 0.0
                pushes[j], turn[j] = False, 0.0
        t += step
    return lost_price * lost - gained


@njit(cache=True)
def choices(ahead, waits, better, jobs, state, flows, price, lost_price, value):  # type: ignore[no-untyped-def]
    """For each job that sends, shortest first: until when it waits, whether it pushes, and its place in the order."""
    sending, left, _ = state
    n = len(left)
    until, pushes, turn = np.zeros(n), np.zeros(n, np.bool_), np.zeros(n)
    chosen = (until, pushes, turn)
    best = played(ahead, jobs, state, chosen, flows, price, lost_price, value)
    for j in np.argsort(np.where(sending, left, np.inf), kind="mergesort")[: sending.sum()]:
        kept = (0.0, False, 0.0)
        for i in range(4 + len(waits)):
            until[j], pushes[j] = waits[i - 4] if i >= 4 else 0.0, i in (0, 3)
            turn[j] = FIRST if i in (1, 3) else LAST if i == 2 else 0.0
            cost = played(ahead, jobs, state, chosen, flows, price, lost_price, value)
            if cost < best - better:
                best, kept = cost, (until[j], pushes[j], turn[j])
        until[j], pushes[j], turn[j] = kept
    return chosen


class Knowing(PatientRule):
    """Rates by plans over all jobs and over the foreign flows of the next seconds, which it is told."""

    slot_s = 0.1

    def __init__(self, lost_price: float, cluster: Cluster, network: NetworkSpec, seed: int) -> None:
        super().__init__(RULE_PRICE)
        assert network.cross_traffic is not None
        self.lost_price, self.cross, self.servers = lost_price, network.cross_traffic, len(cluster.servers)
        self._drawn, self._rounds = Others(cluster, network, seed, Transport()), dict[int, list[Any]]()
        self._jobs_there: dict[int, tuple[dict[int, int], float, float]] = {}  # by uid: flows by link, sends, computes
        self._ends: dict[int, float] = {}  # by uid: when it ends sending if nothing changes, or ended

    def came(self, rows: Ints, flows: FlowSet) -> None:
        """Its links, and what it computes and sends."""
        super().came(rows, flows)
        uid = int(flows.uid[rows[0]]) if len(rows) else -1
        if uid in self.part and flows.compute_s[rows].max() > 0.0:
            links = flows.path[rows[flows.size[rows] > 0.0]]
            count = {link: int((links == link).sum()) for link in np.unique(links[links >= 0]).tolist()}
            compute_s, part = float(flows.compute_s[rows].max()), self.part[uid]
            self._jobs_there[uid] = count, compute_s * part / (1.0 - part), compute_s

    def gone(self, rows: Ints, flows: FlowSet) -> None:
        """Forget it."""
        super().gone(rows, flows)
        for uid in {*flows.uid[rows].tolist()}:
            self._jobs_there.pop(uid, None)
            self._ends.pop(uid, None)

    def to_come(self, now_s: float) -> tuple[Ints, Floats, Floats, Floats]:
        """Foreign flows of the next seconds: their links, the most that they ask for, and from when until when."""
        first, last = (int((now_s + s) / self.cross.every_s + TINY) for s in (0.0, AHEAD_S))
        for turn in range(first, last + 1):
            if turn not in self._rounds:
                self._rounds[turn] = [self._drawn.drawn(server, turn) for server in range(self.servers)]
        found = [c for turn in range(first, last + 1) for c in self._rounds[turn] if c.end_s > now_s + TINY]
        starts, ends, most = (
            np.array([getattr(c, name) for c in found], float) for name in ("when_s", "end_s", "bytes_per_s")
        )
        return np.array([c.path for c in found], np.int64).reshape(len(found), -1), most, starts - now_s, ends - now_s

    def decide(self, when: Moment, flows: FlowSet, live: Ints) -> Limits:
        """All flows of a job have the rate of its plan; single flows have what is still free."""
        now_s, caps = when.now_s, np.zeros(len(flows))
        uids, job = np.unique(flows.uid[live], return_inverse=True)
        row = {uid: i for i, uid in enumerate(uids.tolist())}
        if not all(uid in self._jobs_there for uid in row):
            return super().decide(when, flows, live)
        by_job, first = by_jobs(job)
        left = seconds_left(live, by_job, first, flows.path, flows.size - flows.sent, self.capacity)
        began = {uid: self._began.setdefault(uid, [now_s, float(left[i])]) for uid, i in row.items()}
        state = (
            np.array([uid in row for uid in self._jobs_there]),
            np.array([
                left[row[uid]] if uid in row else max(compute_s - (now_s - self._ends.setdefault(uid, now_s)), 1e-3)
                for uid, (_, _, compute_s) in self._jobs_there.items()
            ]),
            np.array([
                max(now_s - began[uid][0] - (began[uid][1] - left[row[uid]]), 0.0) if uid in row else 0.0
                for uid in self._jobs_there
            ]),
        )  # fmt: skip
        counts = [count for count, _, _ in self._jobs_there.values()]
        jobs = (
            np.cumsum([0, *map(len, counts)]),
            np.array([link for count in counts for link in count]),
            np.array([n for count in counts for n in count.values()]),
            self.capacity, np.array([min(self.capacity[link] / n for link, n in count.items()) for count in counts]),
            np.array([each[2] for each in self._jobs_there.values()]),
            np.array([each[1] for each in self._jobs_there.values()]),
        )  # fmt: skip
        usual_s = 0.5 * (self.cross.shortest_s + self.cross.longest_s)
        price = self.price * (usual_s * self._jobs / self._sends_s) ** POWER / (1.0 + self.waiting)
        known = (*self.to_come(now_s), 0.5 * usual_s)
        chosen = choices(AHEAD_S, WAITS_S, BETTER_S, jobs, state, known, price, self.lost_price, 1.0 + self.waiting)
        there = np.flatnonzero((known[2] <= TINY) & (known[3] > TINY))
        rates, theirs = np.zeros(len(counts)), np.zeros(len(known[0]))
        order, room = rates_by_rule(0.0, jobs, state, chosen, known, there, price, rates, theirs)
        at = {uid: i for i, uid in enumerate(self._jobs_there)}
        for uid, i in row.items():
            rate = rates[at[uid]]
            caps[live[by_job[first[i] : first[i + 1]]]] = rate
            self._ends[uid] = now_s + (left[i] * jobs[4][at[uid]] / rate if rate > 0.0 else 0.0)
        numbers = [row[uid] for uid in np.array([*at])[order].tolist()]
        give_rest(np.array(numbers), live, by_job, first, flows.path, room, caps)
        return Limits(caps)


class KnowingPace(Shortest):
    """Its rules are told the cross traffic of one seed."""

    def __init__(self, lost_price: float, cluster: Cluster, network: NetworkSpec, seed: int) -> None:
        super().__init__(price=RULE_PRICE)
        self.told = lost_price, cluster, network, seed

    def rates(self) -> RateRule:
        """The rule of one run."""
        return Knowing(*self.told)


def more_by_the_end(cluster: Cluster, network: NetworkSpec, seed: int, run: RunResult, fair: RunResult) -> float:
    """By how many percent others have delivered more than in another run when the jobs of both have ended."""
    end_s = max(float(each.jobs["finish_s"].max()) for each in (run, fair))  # type: ignore[arg-type]
    alone = float(delivered_alone(cluster, network, seed, [end_s])[0])
    mine, theirs = (alone - lost_bytes(cluster, network, seed, each) for each in (run, fair))
    return 100.0 * (mine / theirs - 1.0)


def study(given: Scenario, place: str, seed: int) -> dict[str, tuple[float, float | None]]:
    """Mean JCT over that with MCS, and by how many percent others have more by the end of both than beside `fair`: by
    price, and where nobody else sends."""
    cluster = build_cluster(given, seed)
    network, circumstances = physics(given, seed)
    jobs = build_workload(given, cluster, seed, network).jobs
    stacks = {p: build_stack(given, Layers(f"fifo[place={place},pace={p}]")) for p in ("mcs", "fair", "shortest")}
    mcs, fair = (simulate(cluster, jobs, stacks[p], network, circumstances) for p in ("mcs", "fair"))
    quiet = simulate(cluster, jobs, stacks["shortest"], replace(network, cross_traffic=None), circumstances)
    found: dict[str, tuple[float, float | None]] = {"`shortest`, nobody else sends": (MEAN(quiet) / MEAN(mcs), None)}
    for price in PRICES:
        pace = KnowingPace(price, cluster, network, seed)
        run = simulate(cluster, jobs, replace(stacks["fair"], pace=pace), network, circumstances)
        more = more_by_the_end(cluster, network, seed, run, fair)
        found[f"a price of {price:g}"] = MEAN(run) / MEAN(mcs), more
    return found


def table(seeds: range) -> Iterator[str]:
    """Lines of a Markdown table."""
    yield "| | mean JCT over that with `mcs` | others by the end of both, over `fair` |"
    yield "|---|---:|---:|"
    for name, place in WHERE:
        rows = [study(Scenario.load(scenario_path(name)), place, seed) for seed in seeds]
        for what in rows[0]:
            jct = Measured.over_seeds([100.0 * row[what][0] for row in rows])
            have = [more for row in rows if (more := row[what][1]) is not None]
            yield f"| `{name}`, {what} | {interval(jct)} | {interval(Measured.over_seeds(have), '+') if have else ''} |"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser("python -m tools.knowing", description=__doc__.split("\n")[0])
    parser.add_argument("first", type=int, nargs="?", default=6, help="the first seed; example: 1 5")
    parser.add_argument("seeds", type=int, nargs="?", default=10, help="how many seeds")
    given = parser.parse_args()
    if given.first < 0 or given.seeds < 1:
        parser.error("give a first seed from 0 and 1 or more seeds")
    for line in table(range(given.first, given.first + given.seeds)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
