"""The cluster over time: which job held which GPU; for large clusters how much of each server was held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from weft.results.display import Unit, time_unit
from weft.results.pictures.style import (
    JOB_COLOURS,
    SURFACE,
    colour_bar,
    heat_colours,
    house_style,
    new_figure,
    say,
    tidy_axes,
)
from weft.results.run import RunResult
from weft.results.series import cluster_rows, extent_s, occupancy, spans_until

__all__ = ["cluster_timeline", "neighbours"]

_MOST_GPUS = 128  # drawn one by one
_MOST_BLOCKS = 2_500  # drawn as rectangles
_MOST_ROWS = 160  # of a heat map
_LABELS = 60

Block = tuple[str, float, float, int, int]  # job, from, to, first GPU, last GPU


@house_style()
def cluster_timeline(run: RunResult, end_s: float | None = None, title: str = "") -> Figure:
    """GPUs x time, a colour per job; too large for that, a heat map of the share of each server that was held.

    `end_s` sets the end of the time axis, so that the pictures of several runs can share one.
    """
    begin, last = extent_s(run)
    last = last if end_s is None else max(end_s, last)
    unit = time_unit([last - begin])
    blocks = list(_blocks(run)) if run.n_gpus <= _MOST_GPUS and run.spans.height <= _MOST_BLOCKS else []
    if run.spans.is_empty() or last <= begin:
        figure, (axes,) = new_figure(11.4, 1.6)
        axes.set_yticks([])
        say(axes, "no job ran")
    elif 0 < len(blocks) <= _MOST_BLOCKS:
        figure, (axes,) = new_figure(11.4, 1.1 + min(max(0.09 * run.n_gpus, 1.0), 4.6))
        _draw_blocks(axes, run, blocks, begin, last, unit)
        title = title or "Cluster timeline: a colour per job"
    else:
        figure, axes, row = _heat_map(run, begin, last, unit)
        title = title or f"Cluster timeline: share of each {row} held by jobs"
    axes.set_xlim(0, max((last - begin) / unit.seconds, 1e-9))
    tidy_axes(axes, title or "Cluster timeline", x=f"time ({unit.name})", grid="")
    return figure


def _blocks(run: RunResult) -> Iterator[Block]:
    """Every assignment as rectangles of neighbouring GPUs."""
    for job, start, end, gpus in spans_until(run).select("job_id", "start_s", "end_s", "gpus").iter_rows():
        for low, high in neighbours(gpus or ()):
            yield job, start, end, low, high


def neighbours(gpus: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive ids."""
    for _, group in groupby(enumerate(sorted(gpus)), key=lambda pair: pair[1] - pair[0]):
        ids = [gpu for _, gpu in group]
        yield ids[0], ids[-1]


def _draw_blocks(axes: Axes, run: RunResult, blocks: list[Block], begin: float, last: float, unit: Unit) -> None:
    # By order of submission, so that a job has one colour in the pictures of all stacks.
    colour_of = {job: JOB_COLOURS[i % len(JOB_COLOURS)] for i, job in enumerate(run.jobs["job_id"])}
    corners = [
        [((x - begin) / unit.seconds, y) for x, y in ((t0, g0), (t1, g0), (t1, g1 + 1), (t0, g1 + 1))]
        for _, t0, t1, g0, g1 in blocks
    ]
    # Jobs that share a GPU lie over each other: let the lower one show through.
    shared = sum((t1 - t0) * (g1 - g0 + 1) for _, t0, t1, g0, g1 in blocks) > run.n_gpus * (last - begin)
    axes.add_collection(
        PolyCollection(
            corners,
            facecolors=[colour_of.get(block[0], JOB_COLOURS[0]) for block in blocks],
            edgecolors=SURFACE,
            linewidths=0.5 if len(blocks) < 800 else 0.2,
            alpha=0.6 if shared else None,
        )
    )
    _label_largest(axes, run, blocks, begin, last, unit)
    axes.set_ylim(run.n_gpus, 0)
    axes.set_ylabel("GPU")
    axes.set_yticks([g + 0.5 for g in _ticks(run.n_gpus)], [str(g) for g in _ticks(run.n_gpus)])


def _label_largest(axes: Axes, run: RunResult, blocks: list[Block], begin: float, last: float, unit: Unit) -> None:
    """Job ids inside the blocks that have room for them."""
    room = [
        (job, t0, t1, g0, g1)
        for job, t0, t1, g0, g1 in blocks
        if (t1 - t0) / (last - begin) > 0.009 * len(job) and (g1 - g0 + 1) * 4.6 / max(run.n_gpus, 51) > 0.17
    ]
    room.sort(key=lambda block: -(block[2] - block[1]) * (block[4] - block[3] + 1))
    for job, t0, t1, g0, g1 in room[:_LABELS]:
        x = ((t0 + t1) / 2 - begin) / unit.seconds
        axes.text(x, (g0 + g1 + 1) / 2, job, ha="center", va="center", fontsize=7, color="#101418", clip_on=True)


def _heat_map(run: RunResult, begin: float, last: float, unit: Unit) -> tuple[Figure, Axes, str]:
    row_of_gpu, row = cluster_rows(run, _MOST_ROWS)
    held = occupancy(run, row_of_gpu, bins=500)
    figure, (axes,) = new_figure(11.4, 3.6)
    reach = (0.0, (extent_s(run)[1] - begin) / unit.seconds, len(held), 0.0)
    image = axes.imshow(
        held, aspect="auto", interpolation="none", extent=reach, cmap=heat_colours(), vmin=0.0, vmax=1.0
    )
    axes.set_ylabel(row)
    axes.set_yticks([r + 0.5 for r in _ticks(len(held))], [str(r) for r in _ticks(len(held))])
    colour_bar(figure, axes, image)
    return figure, axes, row


def _ticks(n: int) -> list[int]:
    """A few round numbers from 0 to n - 1."""
    step = next(s for s in (1, 2, 4, 8, 16, 20, 50, 100, 200, 500, 1000, 10**9) if n / s <= 9)
    return [int(t) for t in np.arange(0, n, step)]
