"""CASSINI: how long its parts take.

The first is the search for the shifts of two and of three jobs on one link. The second is a decision for 1,000 servers,
500 jobs and 10 candidates. The third is a round of Themis, and one of Pollux, with 10 candidates for 300 servers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from weft.core.view import View
    from weft.model.job import Job

CAPACITY = 50.0


def run(quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Warm CPU times on one core, of decisions also wall times; gaps to the exact optimum as differences of scores."""
    from weft.policies.interleave.cassini.rotate import rotate

    rng = np.random.default_rng(1)
    rotate(random_circles(rng, 3), CAPACITY)
    say("two jobs on a link")
    n = 50 if quick else 500
    pairs = [_timed(rotate, random_circles(rng, 2), CAPACITY) for _ in range(n)]
    say("three jobs on a link, against the exact search without a limit")
    triples, gaps, exact = [], [], 0
    for _ in range(8 if quick else 200):
        circles = random_circles(rng, 3)
        seconds, found = _timed(rotate, circles, CAPACITY)
        truth = found if found.exact else rotate(circles, CAPACITY, work=2_000_000_000)
        triples.append(seconds)
        gaps.append((truth.score - found.score) / abs(truth.score))
        exact += found.exact
    servers = 100 if quick else 1000
    say(f"{servers:,} servers, {servers // 2} jobs, 10 candidates")
    seeds = range(1 if quick else 5)
    decisions = [big_decision(seed, servers, servers // 2) for seed in seeds]
    near = [big_decision(seed, servers, servers // 2, across=10) for seed in seeds]
    servers = 100 if quick else 300
    say(f"{servers} servers, {servers // 2} elastic jobs: one round of Themis and of Pollux")
    rounds = {name: median(one_round(name, seed, servers) for seed in seeds) for name in ("themis", "pollux")}
    return {
        "two_jobs_ms": 1e3 * median(seconds for seconds, _ in pairs),
        "two_jobs_max_ms": 1e3 * max(seconds for seconds, _ in pairs),
        "three_jobs_ms": 1e3 * median(triples),
        "three_jobs_max_ms": 1e3 * max(triples),
        "three_jobs_gap_max": max(gaps),
        "three_jobs_proven_exact": exact / len(triples),
        "decision_s": median(d["wall_s"] for d in decisions),
        "decision_cpu_s": median(d["cpu_s"] for d in decisions),
        "decision_near_s": median(d["wall_s"] for d in near),
        "decision_near_cpu_s": median(d["cpu_s"] for d in near),
        **{f"{name}_propose_{servers}_servers_cpu_s": seconds for name, seconds in rounds.items()},
    }


def _timed(call: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    began = time.process_time()  # these calls have one thread: other programs on the machine do not count
    found = call(*arguments)
    return time.process_time() - began, found


def random_circles(rng: np.random.Generator, jobs: int) -> list[Any]:
    """Jobs of one to four arcs, periods in the ratios 1, 1/2, 1/3 or 2/3."""
    from weft.policies.interleave.cassini.circle import Circle

    found = []
    for _ in range(jobs):
        period = 0.6 * float(rng.choice([1.0, 1.0, 0.5, 1 / 3, 2 / 3]))
        k = int(rng.integers(1, 5))
        arcs = tuple(
            (float(rng.uniform(0, period)), float(rng.uniform(0.05, 0.6) * period / k), float(rng.choice([15, 30, 45])))
            for _ in range(k)
        )
        found.append(Circle(period, arcs))
    return found


def _near(rng: np.random.Generator, servers: int, across: int) -> Any:
    """Pairs of servers in one rack of 20, except for so many between each two neighbouring racks; in any order.

    Racks are taken two by two; where their number is odd, the last one keeps to itself.
    """
    racks = [start + rng.permutation(20) for start in range(0, servers, 20)]
    pairs = []
    for a, b in zip(racks[0::2], racks[1::2], strict=False):
        pairs.append(np.stack([a[:across], b[:across]], axis=1))
        pairs += [rest[across:].reshape(-1, 2) for rest in (a, b)]
    pairs += [rack.reshape(-1, 2) for rack in racks[len(racks) // 2 * 2 :]]
    return rng.permutation(np.concatenate(pairs)).reshape(-1)


def _waiting(rng: np.random.Generator, servers: int, n_jobs: int, sizes: tuple[int, ...]) -> tuple[View, list[Job]]:
    """Racks of 20 servers, and jobs of eight models that ask for two GPUs and wait."""
    from weft.core.table import Table
    from weft.core.view import View
    from weft.model import Submitted
    from weft.model.job import Job
    from weft.network.topologies import Machine, leaf_spine
    from weft.sim import NetworkSpec, RunSpec
    from weft.sim.world import SimWorld
    from weft.workload import zoo

    cluster = leaf_spine(servers // 20, 20, Machine(nic_gbps=50.0, gpu="A100"), oversubscription=2.0)
    models = ("vgg11", "vgg16", "vgg19", "resnet50", "wide-resnet101", "bert-base", "roberta", "xlm")
    profiles = {model: {n: zoo.profile(model, n, gpu="A100") for n in sizes} for model in models}
    drawn = [str(m) for m in rng.choice(models, n_jobs)]
    jobs = [Job(f"j{i}", 0.0, 2, 1000, profiles[m], m, sizes[0], sizes[-1]) for i, m in enumerate(drawn)]
    world = SimWorld(cluster, jobs, NetworkSpec(), RunSpec())
    table = Table(cluster)
    for job in jobs:
        table.take(Submitted(0.0, job))
    return View(table, world, 0), jobs


def one_round(planner: str, seed: int, servers: int) -> float:
    """CPU seconds in which a planner proposes 10 candidates for jobs of 1, 2 or 4 workers, one for two servers."""
    from weft.stacks import resolve

    view, _ = _waiting(np.random.default_rng(seed), servers, servers // 2, (1, 2, 4))
    chosen = resolve(planner).planner
    began = time.process_time()
    chosen.propose(view, chosen.initial_state(), 10)
    return time.process_time() - began


def big_decision(
    seed: int, servers: int = 1000, n_jobs: int = 500, candidates: int = 10, across: int | None = None
) -> dict[str, Any]:
    """Jobs of two workers each on all servers: one pick among candidates, from scratch.

    Jobs are placed at random over the cluster, so that all of them are one group full of loops; or, as a planner would,
    inside their rack except for `across` jobs between each two racks.
    """
    from weft.model.plan import Candidate, Plan
    from weft.policies.interleave.cassini import Cassini

    rng = np.random.default_rng(seed)
    view, jobs = _waiting(rng, servers, n_jobs, (2,))
    plans = []
    for _ in range(candidates):
        drawn_gpus = rng.permutation(servers) if across is None else _near(rng, servers, across)
        gpus = drawn_gpus[: 2 * n_jobs].reshape(n_jobs, 2).tolist()
        plans.append(Candidate(Plan({job.id: tuple(pair) for job, pair in zip(jobs, gpus, strict=True)}), {}))
    cassini = Cassini()
    cassini.prepare()
    began, cpu = time.perf_counter(), time.process_time()
    pick = cassini.pick(view, plans, cassini.initial_state())
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    return {"wall_s": wall_s, "cpu_s": cpu_s, "gates": len(pick.candidate.plan.gates)}
