"""Pictures of one run, of several stacks, and of the cluster over time. Large runs are thinned first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from weft.results.compare import METRICS
from weft.results.display import Unit, number, time_unit
from weft.results.metrics import Floats, finished_jobs, run_length_quantiles
from weft.results.pictures.style import (
    DASHES,
    JOB_COLOURS,
    MUTED,
    PALETTE,
    SURFACE,
    colour_bar,
    heat_colours,
    house_style,
    hover,
    hovered,
    legend_below,
    new_figure,
    say,
    tidy_axes,
)
from weft.results.run import RunResult
from weft.results.series import busy_gpus, cluster_rows, extent_s, link_grid, occupancy, spans_until, thin, waiting_jobs

_POINTS = 600  # points of a line
_HOVERED = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)  # shares whose values show on hover
_MARKS = 40  # points of a line over time whose values show on hover
_WIDE = 30.0  # longest over p0.5 beyond which a time axis is logarithmic
_METRIC_NAMES = {
    "jct_mean_s": "mean JCT", "jct_median_s": "median JCT", "jct_p95_s": "p95 JCT", "jct_p99_s": "p99 JCT",
    "makespan_s": "makespan", "queueing_mean_s": "queueing", "comm_mean_s": "exposed communication",
    "iteration_mean_s": "mean iteration", "iteration_p99_s": "p99 iteration", "gpu_utilisation": "GPU utilisation",
    "foreign_gbps": "goodput of others", "preemptions": "preemptions",
}  # fmt: skip


@house_style()
def jct_cdf(runs: Sequence[RunResult]) -> Figure:
    """Cumulative share of finished jobs over completion time, one line per stack (seeds pooled)."""
    curves = {}
    for stack, group in _by_stack(runs).items():
        curves[stack] = np.concatenate([finished_jobs(run)["jct_s"].drop_nulls().to_numpy() for run in group])
    figure, (axes,) = new_figure(5.6, 3.3)
    _draw_cdfs(figure, axes, curves)
    return figure


@house_style()
def iteration_cdf(runs: Sequence[RunResult]) -> Figure:
    """Share of training iterations with at least some slowdown, one line per stack (seeds pooled). Most iterations are
    as fast as any, so both axes are logarithmic: what differs is the tail.

    An iteration's slowdown is its time over that of its job's fastest iteration in any of these runs, so that jobs
    with iterations of a millisecond and of a minute share one axis.
    """
    every = [
        run.iterations.filter(pl.col("count") > 0).with_columns(seed=pl.lit(run.seed), stack=pl.lit(run.stack))
        for run in runs
    ]
    curves = {}
    if every:
        fastest = pl.col("duration_s").min().over("seed", "job_id")
        for (stack,), group in pl.concat(every).with_columns(pl.col("duration_s") / fastest).group_by("stack"):
            curves[stack] = (group["duration_s"].to_numpy(), group["count"].to_numpy())
    figure, (axes,) = new_figure(5.6, 3.3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    slowest = 2.0
    for i, stack in enumerate(name for name in _by_stack(runs) if name in curves):
        values, counts = curves[stack]
        n = max(float(counts.sum()), 2.0)
        share = np.geomspace(1.0, 1.0 / n, _POINTS)
        x = run_length_quantiles(values, counts, np.minimum((1.0 - share) * n / (n - 1.0), 1.0))
        slowest = max(slowest, float(x[-1]))
        axes.plot(x, share, color=_colour(i), linestyle=_dash(i), label=stack)
        for k in range(0, _POINTS, _POINTS // _MARKS):
            words = f"{stack}: {number(100 * share[k])} % of iterations take {number(x[k])} times the fastest or longer"
            hover(axes, float(x[k]), float(share[k]), words)
    axes.set_xlim(1.0, slowest * 1.05)
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:g} %")
    tidy_axes(axes, "Iteration slowdown", "times the fastest", "iterations at least so slow", grid="both")
    axes.minorticks_off()
    if not curves:
        say(axes, "no iteration recorded")
    _legend(figure, axes, len(curves))
    return figure


@house_style()
def load_over_time(runs: Sequence[RunResult]) -> Figure:
    """Busy GPUs and waiting jobs over time, one line per stack (its first run)."""
    first = {stack: group[0] for stack, group in _by_stack(runs).items()}
    begin = min((extent_s(run)[0] for run in first.values()), default=0.0)
    end = max((extent_s(run)[1] for run in first.values()), default=0.0)
    unit = time_unit([end - begin])
    figure, (upper, lower) = new_figure(11.4, 4.2, rows=2, sharex=True)
    for i, (stack, run) in enumerate(first.items()):
        for axes, steps in ((upper, busy_gpus(run)), (lower, waiting_jobs(run))):
            drawn = thin(steps, 2 * _POINTS)
            x = (drawn.time_s - begin) / unit.seconds
            for k in range(0, len(x), max(1, len(x) // _MARKS)):
                words = f"{stack}: {number(drawn.value[k])} at {number(x[k])} {unit.name}"
                hover(axes, float(x[k]), float(drawn.value[k]), words)
            axes.step(x, drawn.value, where="post", color=_colour(i), linestyle=_dash(i), label=stack, linewidth=1.3)
            if len(first) == 1:
                axes.fill_between(x, drawn.value, step="post", color=_colour(i), alpha=0.15, linewidth=0)
    n_gpus = max((run.n_gpus for run in first.values()), default=1)
    tidy_axes(upper, "Busy GPUs", y="GPUs")
    tidy_axes(lower, "Waiting jobs", x=f"time ({unit.name})", y="jobs")
    upper.set_ylim(0, n_gpus * 1.04)
    lower.set_ylim(0, max(1.0, lower.get_ylim()[1]))
    lower.set_xlim(0, max((end - begin) / unit.seconds, 1e-9))
    _legend(figure, upper, len(first))
    return figure


@house_style()
def link_utilisation(run: RunResult, end_s: float | None = None, title: str = "", most: int = 24) -> Figure:
    """The busiest links: over time where the run recorded it, otherwise their mean over the run.

    `end_s` sets the end of the time axis, so that the pictures of several runs can share one.
    """
    grid = link_grid(run, most, bins=300)
    if grid is None:
        return _link_bars(run, most, title or "Link utilisation: the busiest links, mean over the run")
    begin = grid.edges_s[0]
    last = max(grid.edges_s[-1], end_s or 0.0)
    unit = time_unit([last - begin])
    figure, (axes,) = new_figure(11.4, 1.0 + 0.2 * max(len(grid.names), 4))
    reach = (0.0, (grid.edges_s[-1] - begin) / unit.seconds, len(grid.names) - 0.5, -0.5)
    image = axes.imshow(
        grid.utilisation,
        aspect="auto",
        interpolation="none",
        extent=reach,
        cmap=heat_colours(PALETTE[1]),
        vmin=0.0,
        vmax=1.0,
    )
    for row, name in enumerate(grid.names):
        hover(axes, 0.0, row, f"{name}: {100 * grid.utilisation[row].mean():.1f} % used on average")
    axes.set_yticks(range(len(grid.names)), grid.names, fontsize=8)
    axes.set_xlim(0.0, (last - begin) / unit.seconds)
    tidy_axes(axes, title or "Link utilisation: the busiest links over time", x=f"time ({unit.name})", grid="")
    colour_bar(figure, axes, image)
    return figure


@house_style()
def ratio_intervals(comparison: Mapping[str, Any]) -> Figure:
    """Every stack's ratio to the first, with its 95 % interval, metric by metric; left of 1 is less than the first."""
    others = comparison["stacks"][1:]
    left_out = {"preemptions", "jct_median_s", "jct_p95_s", "iteration_p99_s"}
    if all(entry["ratio_to_first"]["foreign_gbps"]["mean"] is None for entry in others):
        left_out.add("foreign_gbps")
    metrics = [m for m in METRICS if m not in left_out]
    figure, (axes,) = new_figure(11.4, 0.9 + 0.11 * len(metrics) * (len(others) + 1))
    step = 0.7 / max(len(others), 1)
    shown = [1.0]
    for i, entry in enumerate(others):
        for row, metric in enumerate(metrics):
            ratio = entry["ratio_to_first"][metric]
            if ratio["mean"] is None:
                continue
            y = row + (i - (len(others) - 1) / 2) * step
            colour = _colour(i + 1)
            low, high = ratio["ci95"]
            shown += [value for value in (ratio["mean"], low, high) if value]
            if low is not None:
                axes.plot([low, high], [y, y], color=colour, linewidth=1.6, solid_capstyle="butt")
            axes.plot([ratio["mean"]], [y], "o", color=colour, markersize=4.5)
            reach = "" if low is None else f" [{low:.3f}, {high:.3f}]"
            hover(axes, ratio["mean"], y, f"{entry['stack']}, {_METRIC_NAMES[metric]}: {ratio['mean']:.3f}{reach}")
        axes.plot([], [], "o-", color=_colour(i + 1), markersize=4.5, label=entry["stack"])
    axes.axvline(1.0, color=MUTED, linewidth=1.0)
    axes.set_xscale("log", nonpositive="clip")  # twice and half are equally far from 1
    axes.set_xlim(min(shown) / 1.1, max(shown) * 1.1)
    axes.set_yticks(range(len(metrics)), [_METRIC_NAMES[m] for m in metrics])
    axes.set_ylim(len(metrics) - 0.5, -0.5)
    tidy_axes(axes, f"Ratio to {comparison['stacks'][0]['stack']}", x="ratio, paired by seed", grid="x")
    _legend(figure, axes, len(others))
    return figure


def _draw_cdfs(figure: Figure, axes: Axes, curves: Mapping[str, Floats]) -> None:
    """Times of jobs, in a unit that suits them."""
    q = np.linspace(0.0, 1.0, _POINTS)
    lines = {name: np.quantile(v, q) for name, v in curves.items() if len(v)}
    pooled = np.concatenate([*lines.values()]) if lines else np.zeros(0)
    low, high = (np.quantile(pooled, [0.005, 1.0])) if len(pooled) else (0.0, 0.0)
    unit = time_unit([float(high)])
    for i, name in enumerate(curves):
        if name in lines:
            axes.plot(lines[name] / unit.seconds, q, color=_colour(i), linestyle=_dash(i), label=name)
            for share in _HOVERED:
                x = lines[name][round(share * (_POINTS - 1))] / unit.seconds
                hover(axes, x, share, f"{name}: {100 * share:.0f} % of jobs within {number(x)} {unit.name}")
    if low > 0 and high / low > _WIDE:
        axes.set_xscale("log")
        axes.minorticks_off()
    elif len(pooled):
        axes.set_xlim(left=0)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    tidy_axes(axes, "Job completion time", x=f"time ({unit.name})", y="share of jobs", grid="both")
    if not lines:
        say(axes, "no job finished")
    _legend(figure, axes, len(lines))


def _link_bars(run: RunResult, most: int, title: str) -> Figure:
    busiest = run.links.sort(["utilisation", "link"], descending=[True, False]).head(most)
    tiers = sorted(set(run.links["tier"].to_list()))
    colour = {tier: PALETTE[i % len(PALETTE)] for i, tier in enumerate(tiers)}
    figure, (axes,) = new_figure(11.4, 1.0 + 0.2 * max(busiest.height, 4))
    y = np.arange(busiest.height)
    values = busiest["utilisation"].fill_null(0.0).to_numpy()
    axes.barh(y, values, color=[colour[t] for t in busiest["tier"]], height=0.7)
    for row, name, value in zip(y, busiest["name"], values, strict=True):
        hover(axes, float(value), float(row), f"{name}: {100 * value:.1f} % used")
    axes.set_yticks(y, busiest["name"].to_list(), fontsize=8)
    axes.set_ylim(max(busiest.height, 1) - 0.4, -0.6)
    axes.set_xlim(0, max(1.0, float(values.max()) if len(values) else 0.0))
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    tidy_axes(axes, title, x="utilisation", grid="x")
    if len(tiers) > 1:
        axes.legend(handles=[Patch(color=colour[t], label=t or "link") for t in tiers], loc="lower right")
    if busiest.is_empty():
        say(axes, "this cluster has no links")
    return figure


def _by_stack(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    groups: dict[str, list[RunResult]] = {}
    for run in runs:
        groups.setdefault(run.stack, []).append(run)
    return groups


def _colour(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def _dash(i: int) -> Any:
    return DASHES[i % len(DASHES)]


def _legend(figure: Figure, axes: Axes, n: int) -> None:
    """A legend below the picture, where it covers nothing; none for a single line."""
    if n > 1:
        legend_below(figure, axes)


_MOST_GPUS = 128  # drawn one by one
_MOST_BLOCKS = 2_500  # drawn as rectangles
_MOST_ROWS = 160  # rows of a heat map
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
    # Jobs that share a GPU lie over each other: let the lower one show through.
    shared = sum((t1 - t0) * (g1 - g0 + 1) for _, t0, t1, g0, g1 in blocks) > run.n_gpus * (last - begin)
    of_job: dict[str, list[Block]] = {}
    for block in blocks:
        of_job.setdefault(block[0], []).append(block)
    # By order of submission, so that a job has one colour in the pictures of all stacks.
    for i, job in enumerate(run.jobs.select("job_id", "model", "gpus", "submit_s", "finish_s").iter_rows(named=True)):
        if job["job_id"] not in of_job:
            continue
        drawn = PolyCollection(
            [
                [((x - begin) / unit.seconds, y) for x, y in ((t0, g0), (t1, g0), (t1, g1 + 1), (t0, g1 + 1))]
                for _, t0, t1, g0, g1 in of_job[job["job_id"]]
            ],
            facecolors=JOB_COLOURS[i % len(JOB_COLOURS)],
            edgecolors=SURFACE,
            linewidths=0.5 if len(blocks) < 800 else 0.2,
            alpha=0.6 if shared else None,
        )
        drawn.set_gid(hovered(_in_words(job, begin, unit)))
        axes.add_collection(drawn)
    _label_largest(axes, run, blocks, begin, last, unit)
    axes.set_ylim(run.n_gpus, 0)
    axes.set_ylabel("GPU")
    axes.set_yticks([g + 0.5 for g in _ticks(run.n_gpus)], [str(g) for g in _ticks(run.n_gpus)])


def _in_words(job: Mapping[str, Any], begin: float, unit: Unit) -> str:
    """What a browser shows while the pointer is on a job."""
    model = f"{job['model']}, " if job["model"] else ""
    at = f"submitted at {number((job['submit_s'] - begin) / unit.seconds)} {unit.name}"
    ended = job["finish_s"]
    end = "not finished" if ended is None else f"finished at {number((ended - begin) / unit.seconds)} {unit.name}"
    return f"{job['job_id']} ({model}{job['gpus']} GPUs): {at}, {end}"


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
