"""How fast jobs could be beside cross traffic if a pace knew all of it in advance.

`python -m tools.clairvoyant` takes each job of `flows` by itself, from the start and on the GPUs that it has with MCS,
as `python -m tools.flows uncontended` does. Time has steps of about 10 ms. In each the job may send any part of what it
can at full rate, all of its flows in step, and foreign flows share max-min what it leaves. Over all iterations of the
job the sum of its time and of what others lose, at a price, is as small as it can be (dynamic programming). It prints
the times over those with MCS and the losses over those beside `fair`, both of all jobs together.

It is no strict bound. Sending takes whole steps, so an iteration may be up to a step too long; no wait is longer
than PATIENCE_S; losses are rounded to tenths of a line rate for each line rate that the job sends, and count as 4 where
they are more. Foreign flows ask for all that they can get, and a job computes first and sends then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from tools.flows import Pinned, lost_bytes, uncontended_table
from weft.core.layered import Layered
from weft.order.fifo import Fifo
from weft.pace.rates import Transport
from weft.pace.shortest.patient import shares
from weft.scenario import Scenario
from weft.scenario.build import Layers, build_cluster, build_stack, build_workload, physics
from weft.sim import simulate
from weft.sim.foreign import Others

Floats = npt.NDArray[np.float64]
STEP_S, SLOPE, SLOPES = 0.01, 0.1, 41  # a step; what others lose for what a job sends, in tenths of a line rate
PATIENCE_S = 2.5  # no longer wait is planned: foreign flows last 2 s at most
PRICES = (0.2, 0.5, 1.0, 2.0)  # seconds of a job for a second of line rate of others


def slopes(flows: Sequence[tuple[Sequence[int], float]], capacity: Floats, uses: Floats) -> Floats:
    """What part of a job's full rate can be had at which loss to others: the parts at each slope. Foreign flows have
    what a job with these uses of links leaves; between two rates a job can take turns."""
    found = np.zeros(SLOPES)
    parts = np.linspace(0.0, 1.0, 9)
    all_of_it = sum(shares(flows, capacity.tolist()))
    lost = [all_of_it - sum(shares(flows, np.maximum(capacity - part * uses, 0.0).tolist())) for part in parts]
    hull = [(0.0, 0.0)]
    for part, y in zip(parts[1:].tolist(), (np.maximum(lost[1:], 0.0) / capacity.max()).tolist(), strict=True):
        while len(hull) > 1 and (y - hull[-1][1]) * (hull[-1][0] - hull[-2][0]) <= (hull[-1][1] - hull[-2][1]) * (
            part - hull[-1][0]
        ):
            hull.pop()
        hull.append((part, y))
    for (x0, y0), (x1, y1) in pairwise(hull):
        found[min(round((y1 - y0) / (x1 - x0) / SLOPE), SLOPES - 1)] += x1 - x0
    return found


@njit(cache=True)
def least_loss(parts: Floats, which: npt.NDArray[np.int64], need: float, longest: int) -> Floats:
    """What others lose at least if a job sends `need` steps of full rate in the w steps from step s on: [s, w]."""
    loss = np.full((len(which), longest + 1), np.inf)
    for s in range(len(which)):
        have = np.zeros(parts.shape[1])
        for w in range(1, min(longest, len(which) - s) + 1):
            have += parts[which[s + w - 1]]
            if w + 1e-9 < need:
                continue
            left, sum_ = need, 0.0
            for k in range(len(have)):
                sum_ += min(have[k], left) * k * SLOPE
                left -= min(have[k], left)
            loss[s, w] = sum_
            if sum_ == 0.0:
                break
    return loss


@njit(cache=True)
def plan(loss: Floats, iterations: int, computes: int, price: float) -> tuple[float, float]:
    """Steps that a job takes and what others lose, if the sum of both at this price is as small as it can be."""
    steps, longest = loss.shape[0], loss.shape[1] - 1
    cost, taken, lost = np.zeros(steps), np.zeros(steps), np.zeros(steps)
    for _ in range(iterations):
        new, new_taken, new_lost = np.full(steps, np.inf), np.zeros(steps), np.zeros(steps)
        for t in range(steps - computes):
            s = t + computes
            for w in range(1, min(longest, steps - 1 - s) + 1):
                x = computes + w + price * loss[s, w] + cost[s + w]
                if x < new[t]:
                    new[t], new_taken[t] = x, computes + w + taken[s + w]
                    new_lost[t] = loss[s, w] + lost[s + w]
                if loss[s, w] == 0.0:
                    break
        cost, taken, lost = new, new_taken, new_lost
    return taken[0], lost[0]


@dataclass(frozen=True)
class Alone:
    """A job by itself: when it starts and ends with MCS, iterations, seconds of computing and of sending in each, and
    bytes per second on each link while it sends."""

    start_s: float
    end_s: float
    iterations: int
    compute_s: float
    send_s: float
    uses: Floats

    def planned(self, flows: Sequence[Any], capacity: Floats, prices: Sequence[float]) -> list[tuple[float, float]]:
        """Seconds, and line rates times seconds that others lose, at each price."""
        if not self.uses.any():
            return [(self.iterations * (self.compute_s + self.send_s), 0.0)] * len(prices)
        computes = max(round(self.compute_s / STEP_S), 1)
        step_s = self.compute_s / computes
        steps = int((2.2 * (self.end_s - self.start_s) + 6.0) / step_s)
        there: list[list[int]] = [[] for _ in range(steps)]
        for k, flow in enumerate(flows):
            low, high = (int(np.ceil((t - self.start_s) / step_s - 0.5)) for t in (flow.when_s, flow.end_s))
            for step in range(max(low, 0), min(high, steps)):
                there[step].append(k)
        known: dict[tuple[int, ...], int] = {}
        which = np.array([known.setdefault(tuple(now), len(known)) for now in there])
        parts = np.array([slopes([(flows[k].path, np.inf) for k in now], capacity, self.uses) for now in known])
        need = self.send_s / step_s
        loss = least_loss(parts, which, need, int(PATIENCE_S / step_s + need) + 2)
        found = [plan(loss, self.iterations, computes, price) for price in prices]
        return [(taken * step_s, lost * step_s) for taken, lost in found]


def study(given: Scenario, seed: int) -> dict[str, tuple[float, float]]:
    """Times over those with MCS, and losses of others over those beside `fair`."""
    cluster = build_cluster(given, seed)
    network, circumstances = physics(given, seed)
    jobs = {job.id: job for job in build_workload(given, cluster, seed, network).jobs}
    capacity = np.asarray(cluster.topology.capacity, float)
    stacks = {
        pace: build_stack(given, Layers(f"fifo[place=first-fit,pace={pace}]")) for pace in ("mcs", "fair", "shortest")
    }
    runs = {p: simulate(cluster, [*jobs.values()], stacks[p], network, circumstances) for p in ("mcs", "fair")}
    fair_lost = lost_bytes(cluster, network, seed, runs["fair"])
    end_s = float(runs["fair"].jobs["finish_s"].max())  # type: ignore[arg-type]
    assert network.cross_traffic is not None
    drawn = Others(cluster, network, seed, Transport())
    rounds = int((1.5 * end_s + 60.0) / network.cross_traffic.every_s)
    flows = [drawn.drawn(server, turn) for turn in range(rounds) for server in range(len(cluster.servers))]
    quiet, alone = replace(network, cross_traffic=None), []
    for span in runs["mcs"].spans.iter_rows(named=True):
        stack = replace(stacks["shortest"], planner=Layered(Fifo(), Pinned(span["gpus"])))
        job = replace(jobs[span["job_id"]], submit_s=0.0, iterations=1)
        one = simulate(cluster, [job], stack, quiet, circumstances)
        sent = np.zeros(len(capacity))
        sent[one.links["link"].to_numpy()] = one.links["bytes"].to_numpy()
        send_s = float((sent / capacity).max())
        compute_s = float(one.jobs["run_s"][0]) - send_s
        iterations = int(jobs[span["job_id"]].iterations)
        alone.append(Alone(span["start_s"], span["end_s"], iterations, compute_s, send_s, sent / (send_s or 1.0)))
    mcs_s = float(runs["mcs"].jobs["run_s"].sum())
    planned = [job.planned(flows, capacity, PRICES) for job in alone]
    found = {"nobody else sends": (sum(j.iterations * (j.compute_s + j.send_s) for j in alone) / mcs_s, 0.0)}
    for i, price in enumerate(PRICES):
        time_s, lost = (sum(job[i][n] for job in planned) for n in (0, 1))
        found[f"price {price:g}"] = time_s / mcs_s, lost * capacity.max() / fair_lost
    return found


if __name__ == "__main__":
    print(*uncontended_table(study), sep="\n")
