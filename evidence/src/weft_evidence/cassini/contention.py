"""How much there is to gain: how often jobs meet on a link, what that costs them, and what shifts could win back.

Every iteration of a run is set against the one that its job would have alone on the very same GPUs (jitter included):
no shift can do better than that, so the mean of these ratios is the most that interleaving can gain if no job moves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from weft.model.flows import Traffic
    from weft.results.run import RunResult
    from weft.sim.world import SimWorld

Span = tuple[str, float, float, tuple[int, ...]]  # job, start, end, GPUs


def contention(scenario: Mapping[str, Any], stacks: Sequence[str], seeds: int) -> list[dict[str, Any]]:
    """One row per stack: means over seeds of what `contention_of` finds."""
    from weft import api

    found: dict[str, list[dict[str, float]]] = {stack: [] for stack in stacks}
    for seed in range(seeds):
        runs = api.compare(deepcopy(dict(scenario)), list(stacks), [seed], workers=1).runs
        for stack, run in zip(stacks, runs, strict=True):
            found[stack].append(contention_of(run, scenario))
    return [
        {"stack": stack, **{key: float(np.mean([row[key] for row in rows])) for key in rows[0]}}
        for stack, rows in found.items()
    ]


def contention_of(run: RunResult, scenario: Mapping[str, Any]) -> dict[str, float]:
    """What one run shows.

    meets: part of the GPU time of placed jobs in which some link of theirs is shared and can fill; alone_*: iteration
    times over those alone on the same GPUs, mean and p99; score_free, score_best: the mean score of the links that can
    fill, unshifted (over all positions) and with the best shifts that periods allow, weighted by time; workers: of a
    job, weighted by time.
    """
    world = _world(run, scenario)
    spans: list[Span] = [(job, start, end, tuple(gpus)) for job, start, end, gpus, _ in run.spans.iter_rows()]
    slow = np.array(list(_slowdowns(run, spans, world)))
    ratios, weights = (slow[:, 0], slow[:, 1]) if len(slow) else (np.ones(1), np.ones(1))
    order = np.argsort(ratios)
    cut = np.searchsorted(np.cumsum(weights[order]), 0.99 * weights.sum())
    shared = _shared(spans, world)
    return {
        "alone_mean": float(np.average(ratios, weights=weights)),
        "alone_p99": float(ratios[order][min(cut, len(ratios) - 1)]),
        **shared,
    }


def _world(run: RunResult, scenario: Mapping[str, Any]) -> SimWorld:
    from weft.scenario import Scenario
    from weft.scenario.build import build
    from weft.sim import as_run
    from weft.sim.world import SimWorld
    from weft.stacks import resolve

    given = Scenario.load(deepcopy(dict(scenario)))
    made = build(given, run.seed, resolve(run.stack))
    cluster, jobs, network = made.cluster, made.workload.jobs, made.network
    if run.n_gpus > cluster.n_gpus:
        cluster = cluster.copied(run.n_gpus // cluster.n_gpus)
    return SimWorld(cluster, as_run(jobs, made.stack, cluster, network), network, made.run)


def _slowdowns(run: RunResult, spans: Sequence[Span], world: SimWorld) -> Iterator[tuple[float, float]]:
    """(ratio, iterations) of every stretch of equal iterations; a job's are told apart by its assignments' ends."""
    by_id = {job: world.records[job].job for job in world.records}
    rows: dict[str, list[tuple[float, float]]] = {}
    for job, duration, count in run.iterations.iter_rows():
        rows.setdefault(job, []).append((duration, max(1.0, count)))
    for job, mine in rows.items():
        own = sorted((start, end, gpus) for name, start, end, gpus in spans if name == job)
        at = 0
        now, end, gpus = own[0]
        for duration, count in mine:
            while now + 0.5 * duration > end and at + 1 < len(own):
                at += 1
                now, end, gpus = own[at]
            now += duration * count
            yield duration / world.traffic(by_id[job], gpus).iteration_s, count


def _shared(spans: Sequence[Span], world: SimWorld) -> dict[str, float]:
    from weft.policies.interleave.cassini import Settings
    from weft.policies.interleave.cassini.layout import lay_out, score_links

    by_id = {job: world.records[job].job for job in world.records}
    times = sorted({t for _, start, end, _ in spans for t in (start, end)})
    total = meeting = workers = linked = free = best = 0.0
    capacity = world.cluster.topology.capacity
    for begin, end in pairwise(times):
        if end - begin < 1e-6:
            continue
        here: dict[str, Traffic] = {}
        for job, start, stop, gpus in spans:
            if start <= begin and stop >= end:
                total += (end - begin) * len(gpus)
                workers += (end - begin) * len(gpus) ** 2
                if len(gpus) > 1 and (found := world.traffic(by_id[job], gpus)).task is not None:
                    here[job] = found
        layout = lay_out(here, capacity, Settings().padding)
        score_links([layout])
        sizes = {job: len(gpus) for job, start, stop, gpus in spans if start <= begin and stop >= end}
        meeting += (end - begin) * sum(sizes[job] for job in {j for g in layout.groups for j in g.part.jobs})
        for group in layout.groups:
            for link in group.meetings:
                linked += end - begin
                best += (end - begin) * link.score
                free += (end - begin) * _unshifted(layout, link)
    return {
        "meets": meeting / max(total, 1e-12),
        "workers": workers / max(total, 1e-12),
        "score_free": free / linked if linked else 1.0,
        "score_best": best / linked if linked else 1.0,
    }


def _unshifted(layout: Any, link: Any) -> float:
    from weft.policies.interleave.cassini.layout import circles_of
    from weft.policies.interleave.cassini.rotate import uniform_score

    return min(
        uniform_score(list(circles_of(link, i, layout, {}).values()), capacity)
        for i, (capacity, _) in enumerate(link.problems)
    )
