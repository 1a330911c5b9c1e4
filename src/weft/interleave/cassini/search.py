"""Placement search guided by compatibility: beyond CASSINI, which only ranks what the planner offers.

From the planner's best candidate, jobs that start in this cycle exchange workers' GPUs with each other or with GPUs
that nobody uses, as long as every job stays on as many servers and racks: by the planner's own measure the plan is as
good.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from weft.model.plan import Candidate, Placement
from weft.model.view import ClusterView, Spread

__all__ = ["improved"]

Value = tuple[bool, float]  # free of loops, score
_BATCH = 8


def improved(
    view: ClusterView,
    candidates: Sequence[Candidate],
    value: Callable[[Sequence[Mapping[str, Placement]]], list[Value]],
    tries: int,
) -> tuple[int, dict[str, Placement]] | None:
    """(candidate, placements) better than every candidate, or None; `tries` placements are looked at."""
    values = value([candidate.plan.placements for candidate in candidates])
    start = max(range(len(candidates)), key=lambda i: (values[i], -i))
    now = dict(candidates[start].plan.placements)
    best = values[start]
    movable = sorted(job for job in now if job in view.waiting)
    if not movable or best == (True, 1.0):
        return None
    rng = view.rng("cassini search")
    better = False
    for _ in range(-(-tries // _BATCH)):
        trials = [trial for trial in (_neighbour(view, now, movable, rng) for _ in range(_BATCH)) if trial is not None]
        if not trials:
            continue
        found = value(trials)
        i = max(range(len(trials)), key=found.__getitem__)
        if found[i] > best and found[i][1] > best[1] + (0.0 if found[i][0] > best[0] else 1e-9):
            now, best, better = trials[i], found[i], True
        if best == (True, 1.0):
            break
    return (start, now) if better else None


def _neighbour(
    view: ClusterView, now: Mapping[str, Placement], movable: Sequence[str], rng: np.random.Generator
) -> dict[str, Placement] | None:
    """One worker of a job changes places with a worker of another job that starts, or moves to a free GPU."""
    used = {gpu for gpus in now.values() for gpu in gpus}
    free = [int(gpu) for gpu in np.flatnonzero(view.offer.free) if int(gpu) not in used]
    others = [gpu for job in movable for gpu in now[job]] + free
    job = movable[int(rng.integers(len(movable)))]
    mine = now[job][int(rng.integers(len(now[job])))]
    theirs = others[int(rng.integers(len(others)))]
    if theirs in now[job]:
        return None
    swap = {mine: theirs, theirs: mine}
    changed = dict(now)
    for name in movable:
        if mine in now[name] or theirs in now[name]:
            changed[name] = tuple(sorted(swap.get(gpu, gpu) for gpu in now[name]))
            if Spread.of(view.cluster, changed[name]) != Spread.of(view.cluster, now[name]):
                return None
    return changed
