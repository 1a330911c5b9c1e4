"""An estimate of ECN marks per job and iteration. Under max-min sharing no queue ever forms, so this is a model on top.

While several transfers want more of a link than it has, each is taken to offer the rate that it has alone. Senders
follow the rates they are granted with a delay (DCQCN's control loop, `delay_s`), so the queue of the link grows to
(offered - capacity) x delay and stays there until the overload ends. Packets that pass meanwhile are marked by WRED:
none below `low_cells`, all above `high_cells`, in proportion between. Of the links that a transfer crosses, the worst
counts. This is a fluid estimate: ratios between stacks mean something, absolute numbers depend on the delay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.network.estimates import Estimates

if TYPE_CHECKING:
    from weft.results.run import RunResult


@dataclass(frozen=True)
class Ecn:
    """Thresholds of CASSINI's testbed (section 5.1) in cells of its switch; packet size and control delay are ours."""

    low_cells: float = 1000.0
    high_cells: float = 2000.0
    cell_bytes: float = 80.0
    mtu_bytes: float = 1024.0
    delay_s: float = 50e-6


def marked_share(offered_bytes_per_s: float, capacity_bytes_per_s: float, ecn: Ecn) -> float:
    """Share of packets that are marked at a given load offered to a link."""
    queue = (offered_bytes_per_s - capacity_bytes_per_s) * ecn.delay_s / ecn.cell_bytes
    return min(1.0, max(0.0, (queue - ecn.low_cells) / (ecn.high_cells - ecn.low_cells)))


def ecn_marks(
    run: RunResult, cluster: Cluster, jobs: Sequence[Job], collective: str = "ring", ecn: Ecn | None = None
) -> dict[str, float]:
    """Marked packets per iteration of each job, over the tasks that the run recorded (`record=True`)."""
    ecn, alone = ecn or Ecn(), Estimates(cluster, collective=collective)
    number = {job.id: i for i, job in enumerate(jobs)}
    by_id = {job.id: job for job in jobs}
    spans = [(job, start, end, tuple(gpus)) for job, start, end, gpus, _ in run.spans.iter_rows()]
    loads: dict[tuple[str, tuple[int, ...]], Mapping[int, tuple[float, float]]] = {}
    active: dict[int, list[tuple[float, float, str, int, float, float]]] = {}  # link -> transfers on it
    first: dict[str, set[float]] = {}
    for number_of, (job, _, kind, start, end) in enumerate(run.segments.iter_rows()):
        first.setdefault(job, set())
        if kind != "transfer" or end <= start:
            continue
        gpus = next((g for j, a, b, g in spans if j == job and a <= start <= b), None)
        if gpus is None or len(gpus) < 2:
            continue
        if (job, gpus) not in loads:
            traffic = alone.traffic(by_id[job].profiles[len(gpus)], gpus, number[job])
            loads[job, gpus] = {
                link: (max(rate for _, _, rate in arcs), sum(length * rate for _, length, rate in arcs))
                for link, arcs in traffic.links.items()
            }
        first[job].add(round(start, 9))
        for link, (rate, _) in loads[job, gpus].items():
            active.setdefault(link, []).append((start, end, job, number_of, rate, end - start))
    worst: dict[tuple[str, int], float] = {}
    for link, transfers in active.items():
        _sweep(float(cluster.topology.capacity[link]), transfers, ecn, worst)
    total: dict[str, float] = dict.fromkeys(first, 0.0)
    for (job, _), marks in worst.items():
        total[job] += marks
    tasks = {job: sum(1 for t in by_id[job].profile.tasks if hasattr(t, "bytes")) or 1 for job in total}
    return {job: total[job] / max(1.0, len(first[job]) / tasks[job]) for job in total}


def _sweep(
    capacity: float,
    transfers: list[tuple[float, float, str, int, float, float]],
    ecn: Ecn,
    worst: dict[tuple[str, int], float],
) -> None:
    """Marks on one link, added to `worst` where they are more than on other links."""
    marks: dict[tuple[str, int], float] = {}
    transfers.sort()
    events = sorted({t for a, b, *_ in transfers for t in (a, b)})
    here: list[tuple[float, float, str, int, float, float]] = []
    waiting = iter(transfers)
    coming = next(waiting, None)
    for begin, end in pairwise(events):
        here = [t for t in here if t[1] > begin]
        while coming is not None and coming[0] <= begin:
            here.append(coming)
            coming = next(waiting, None)
        offered = sum(t[4] for t in here)
        share = marked_share(offered, capacity, ecn) if len(here) > 1 else 0.0
        if share <= 0.0:
            continue
        for _, _, job, which, rate, _ in here:
            granted = min(rate, capacity * rate / offered)
            key = (job, which)
            marks[key] = marks.get(key, 0.0) + share * granted * (end - begin) / ecn.mtu_bytes
    for key, value in marks.items():
        worst[key] = max(worst.get(key, 0.0), value)


def marks_by_model(run: RunResult, scenario: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Model, and marks per iteration, of each job of a scenario's run."""
    from weft.scenario import Scenario
    from weft.scenario.build import build
    from weft.sim import as_run
    from weft.stacks import resolve

    given = Scenario.load(deepcopy(dict(scenario)))
    made = build(given, run.seed, resolve(run.stack))
    jobs = as_run(made.workload.jobs, made.stack, made.cluster, made.network)
    models = {job.id: job.model for job in jobs}
    return [(models[job], marks) for job, marks in ecn_marks(run, made.cluster, jobs).items()]
