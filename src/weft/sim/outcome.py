"""How what the simulated world wrote down becomes the frames of a RunResult."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from weft.core.journal import MemoryJournal, rows
from weft.model.plan import Placement
from weft.model.units import bytes_per_s_to_gbps
from weft.results.run import DECISIONS, ITERATIONS, JOBS, LINK_SERIES, LINKS, SEGMENTS, SPANS, RunResult
from weft.sim.compiled.state import FOREIGN
from weft.sim.records import JobRecord
from weft.sim.world import SimWorld


def make_result(world: SimWorld, journal: MemoryJournal, stack: str, wall_s: float) -> RunResult:
    """Everything the run leaves behind."""
    records = list(world.records.values())
    ids = [r.job.id for r in records]
    notes = []
    if not world.engine.exact:
        paced, fluid = world.engine.estimated
        notes.append(
            f"exact = false: of all iterations {100 * paced:.0f} % extrapolated (within "
            f"{100 * world.engine.estimate_error:.2f} %), {100 * fluid:.0f} % modelled"
        )
    if world.engine.spec.exact and not world.spec.exact:
        notes.append(f"exact = false changes nothing here: {world.why_exact}, so every event was simulated")
    if world.lowering.kway_b is not None:
        notes += _beyond_links(world.lowering.kway_b, world.cluster.topology.capacity)
    return RunResult(
        scenario="",
        stack=stack,
        seed=world.spec.seed,
        jobs=_jobs(world, records),
        iterations=_iterations(world, ids),
        links=_links(world, _span_s(records)),
        decisions=pl.DataFrame(rows(journal.entries), schema=DECISIONS),
        spans=_spans(world),
        n_gpus=world.cluster.n_gpus,
        events=world.engine.events,
        exact=world.engine.exact,
        wall_s=wall_s,
        segments=_segments(world, records),
        link_series=_link_series(world),
        notes=tuple(notes),
        server_of_gpu=tuple(int(s) for s in world.cluster.server_of_gpu),
        adjustments={r.job.id: r.adjusted for r in records if r.adjusted},
        foreign_bytes_per_s=_foreign_bytes_per_s(world),
    )


def _foreign_bytes_per_s(world: SimWorld) -> float | None:
    """Goodput of the traffic of others, over the whole run."""
    if world.foreign is None or world.engine.now <= 0.0:
        return None
    return float(world.foreign.bytes.sum()) / world.engine.now


def _beyond_links(b_s_per_byte: float, capacity: npt.NDArray[np.float64]) -> list[str]:
    """A note if the constants of k-way sharing, which ignores the capacity of links, ask more of a link than it can
    carry."""
    slowest = float(capacity.min(initial=math.inf))
    if 1.0 / b_s_per_byte <= slowest * (1.0 + 1e-9):
        return []
    return [
        f"k-way sharing moves {bytes_per_s_to_gbps(1.0 / b_s_per_byte):.3g} Gbit/s at a server (b_s_per_byte), more "
        f"than the slowest link carries ({bytes_per_s_to_gbps(slowest):.3g}); give the b_s_per_byte of your network"
    ]


def _span_s(records: list[JobRecord]) -> float:
    last = max((r.finish_s for r in records if r.finish_s is not None), default=0.0)
    return last - min((r.job.submit_s for r in records), default=0.0)


def _jobs(world: SimWorld, records: list[JobRecord]) -> pl.DataFrame:
    row, gpu = _flat([r.last_gpus for r in records])
    server = world.cluster.server_of_gpu[gpu]
    rack = world.cluster.rack_of_server[server]
    ends = [r.finish_s for r in records]
    jct = [None if e is None else e - r.job.submit_s for e, r in zip(ends, records, strict=True)]
    columns = {
        "job_id": [r.job.id for r in records],
        "model": [r.job.model for r in records],
        "gpus": [r.job.gpus for r in records],
        "submit_s": [r.job.submit_s for r in records],
        "start_s": [r.start_s for r in records],
        "finish_s": ends,
        "jct_s": jct,
        "queueing_s": [None if t is None else max(0.0, t - r.run_s) for t, r in zip(jct, records, strict=True)],
        "run_s": [r.run_s for r in records],
        "comm_s": [r.comm_s for r in records],
        "gate_s": [r.gate_s for r in records],
        "gpu_s": [r.gpu_s for r in records],
        "lost_gpu_s": [r.lost_gpu_s for r in records],
        "iterations": [r.iterations for r in records],
        "preemptions": [r.stops for r in records],
        "servers": _distinct(row, server, len(records)),
        "racks": _distinct(row, rack, len(records)),
        "status": ["finished" if e is not None else "unfinished" for e in ends],
        "user": [r.job.user for r in records],
    }
    return pl.DataFrame(columns, schema=JOBS)


def _iterations(world: SimWorld, ids: list[str]) -> pl.DataFrame:
    records = world.engine.records()
    records = records[records["uid"] < FOREIGN]
    return pl.DataFrame(
        {
            "job_id": pl.Series(ids, dtype=pl.String).gather(records["uid"]) if ids else [],
            "duration_s": records["duration"].copy(),
            "count": records["count"].copy(),
        },
        schema=ITERATIONS,
    )


def _links(world: SimWorld, span_s: float) -> pl.DataFrame:
    state = world.engine.links()
    if world.lowering.kway_b is None:
        names = [(link.name, link.tier) for link in world.cluster.topology.links]
    else:
        names = [(f"{server.name} port", "server") for server in world.cluster.servers]
    could = state["capacity"] * span_s
    return pl.DataFrame(
        {
            "link": np.arange(len(names)),
            "name": [n for n, _ in names],
            "tier": [t for _, t in names],
            "bytes_per_s": state["capacity"].copy(),
            "bytes": state["bytes"].copy(),
            "busy_s": np.minimum(state["busy"], span_s),
            "utilisation": np.divide(state["bytes"], could, out=np.zeros(len(names)), where=could > 0),
        },
        schema=LINKS,
    )


def _flat(placements: Sequence[Placement]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The GPUs of all placements in one array, and which placement each belongs to: a million of them take seconds
    one by one."""
    sizes = np.fromiter(map(len, placements), np.int64, len(placements))
    flat = np.fromiter(chain.from_iterable(placements), np.int64, int(sizes.sum()))
    return np.repeat(np.arange(len(placements)), sizes), flat


def _distinct(row: npt.NDArray[np.int64], value: npt.NDArray[np.int64], rows: int) -> npt.NDArray[np.int64]:
    """How many different values each row has."""
    step = int(value.max(initial=0)) + 1
    return np.bincount(np.unique(row * step + value) // step, minlength=rows)


def _spans(world: SimWorld) -> pl.DataFrame:
    row, gpu = _flat([s.gpus for s in world.spans])
    gpus = pl.DataFrame({"span": row, "gpus": gpu}).group_by("span", maintain_order=True).agg("gpus")["gpus"]
    return pl.DataFrame(
        {
            "job_id": [s.job for s in world.spans],
            "start_s": [s.start_s for s in world.spans],
            "end_s": [s.end_s for s in world.spans],
            "gpus": gpus,
            "end": [s.end for s in world.spans],
        },
        schema=SPANS,
    )


def _segments(world: SimWorld, records: list[JobRecord]) -> pl.DataFrame:
    segments = world.engine.segments()
    segments = segments[segments["uid"] < FOREIGN]
    names = []
    for uid, task in zip(segments["uid"], segments["task"], strict=True):
        tasks = records[int(uid)].job.profile.tasks
        names.append(tasks[int(task)].name if int(task) < len(tasks) else "communication")
    return pl.DataFrame(
        {
            "job_id": [records[int(uid)].job.id for uid in segments["uid"]],
            "task": names,
            "kind": ["transfer" if k else "compute" for k in segments["kind"]],
            "start_s": segments["start"].copy(),
            "end_s": segments["end"].copy(),
        },
        schema=SEGMENTS,
    )


def _link_series(world: SimWorld) -> pl.DataFrame:
    frames = []
    for (t0, before), (t1, after) in zip(world.samples, world.samples[1:], strict=False):
        moved = np.flatnonzero(after > before)
        if math.isclose(t0, t1) or not len(moved):
            continue
        frames.append(
            pl.DataFrame(
                {
                    "link": moved,
                    "start_s": np.full(len(moved), t0),
                    "end_s": np.full(len(moved), t1),
                    "bytes": (after - before)[moved],
                },
                schema=LINK_SERIES,
            )
        )
    return pl.concat(frames) if frames else pl.DataFrame(schema=LINK_SERIES)
