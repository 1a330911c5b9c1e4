"""Pictures that several papers share: distributions of several methods, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from weft.results.compare import mean_and_interval
from weft.results.metrics import finished_jobs, summary
from weft.results.pictures.style import DASHES, PALETTE, house_style, legend_below, new_figure, tidy_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weft.results.run import RunResult

__all__ = ["figure_row", "gpu_shares"]


def gpu_shares(run: RunResult) -> npt.NDArray[np.float64]:
    """Busy share of each GPU over the run; jobs divide their GPU seconds evenly over the GPUs they held."""
    busy = np.zeros(run.n_gpus)
    seconds = dict(zip(run.jobs["job_id"], run.jobs["gpu_s"], strict=True))
    held = {job: sum(len(g) * (e - s) for j, s, e, g, _ in run.spans.iter_rows() if j == job) for job in seconds}
    for job, start, end, gpus, _ in run.spans.iter_rows():
        if held[job] > 0:
            busy[gpus] += seconds[job] * (end - start) / held[job]
    makespan_s = summary(run)["makespan_s"] or 1.0
    shares: npt.NDArray[np.float64] = busy / makespan_s
    return shares


@house_style()
def figure_row(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """(a) CDF of JCT, (b) CDF of each GPU's busy share, (c) mean JCT; seeds are pooled in (a) and (b)."""
    figure, (left, middle, right) = new_figure(11.4, 3.4, columns=3)
    for i, (name, runs) in enumerate(groups.items()):
        style = {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i % len(DASHES)]}
        _cdf(left, np.concatenate([finished_jobs(run)["jct_s"].to_numpy() for run in runs]), name, style)
        _cdf(middle, np.concatenate([gpu_shares(run) for run in runs]), name, style)
        found = mean_and_interval([summary(run)["jct_s"]["mean"] for run in runs])
        right.bar(i, found["mean"] or 0.0, color=style["color"], width=0.7)
        low, high = found["ci95"]
        if low is not None:
            right.plot([i, i], [low, high], color="#1b1f24", linewidth=1.4)
    left.set_xscale("log")
    legend_below(figure, left)
    middle.set_xlim(left=0)
    middle.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    right.set_xticks(range(len(groups)), list(groups), fontsize=8, rotation=35, ha="right")
    for axes in (left, middle):
        axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    tidy_axes(left, "(a) Job completion time", "time (s)", "share of jobs", grid="both")
    tidy_axes(middle, "(b) GPU utilisation", "busy share", "share of GPUs", grid="both")
    tidy_axes(right, "(c) Mean JCT", y="time (s)")
    return figure


def _cdf(axes: Axes, values: npt.NDArray[np.float64], name: str, style: Mapping[str, object]) -> None:
    q = np.linspace(0.0, 1.0, 400)
    axes.plot(np.quantile(values, q), q, label=name, linewidth=1.5, **style)  # type: ignore[arg-type]
