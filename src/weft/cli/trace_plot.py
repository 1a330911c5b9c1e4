"""The picture of `weft trace inspect --plot`: sizes, durations and arrivals of a trace."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.results.pictures.style import ACCENT, PALETTE, house_style, new_figure, say, tidy_axes
from weft.workload.traces.rows import Trace

BINS = 100


@house_style()
def plot_trace(trace: Trace) -> Figure:
    """Share of jobs and of GPU time by size, the distribution of durations, and arrivals over time."""
    figure, (sizes, durations, arrivals) = new_figure(11, 3.2, columns=3)
    frame = trace.frame
    gpus = frame["gpus"].to_numpy()
    seconds = frame["duration_s"].to_numpy()
    _sizes(sizes, gpus, seconds)
    _durations(durations, seconds[np.isfinite(seconds)])
    _arrivals(arrivals, frame["submit_s"].to_numpy())
    return figure


def _sizes(axes: Axes, gpus: np.ndarray, seconds: np.ndarray) -> None:
    tidy_axes(axes, "GPUs per job", "GPUs", "share")
    if not len(gpus):
        return say(axes, "no jobs")
    # size classes by the next power of two: 1, 2, 3-4, 5-8, ...
    classes = np.ceil(np.log2(gpus)).astype(int)
    ticks = np.arange(classes.max() + 1)
    by_jobs = np.bincount(classes, minlength=len(ticks)) / len(gpus)
    axes.bar(ticks - 0.2, by_jobs, 0.4, color=ACCENT, label="of jobs")
    if np.all(np.isfinite(seconds)) and (total := float(np.sum(gpus * seconds))) > 0:
        by_time = np.bincount(classes, weights=gpus * seconds, minlength=len(ticks)) / total
        axes.bar(ticks + 0.2, by_time, 0.4, color=PALETTE[1], label="of GPU time")
    axes.set_xticks(ticks, [str(2**t) if t < 2 else f"≤{2**t}" for t in ticks])
    axes.legend()
    return None


def _durations(axes: Axes, seconds: np.ndarray) -> None:
    tidy_axes(axes, "Durations", "seconds", "share of jobs at most as long", grid="both")
    seconds = np.sort(seconds[seconds > 0])
    if not len(seconds):
        return say(axes, "no durations in this trace")
    levels = np.linspace(0, 1, 400)
    axes.plot(np.quantile(seconds, levels), levels, color=ACCENT)
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    return None


def _arrivals(axes: Axes, submit: np.ndarray) -> None:
    tidy_axes(axes, "Arrivals", "days", "jobs per hour")
    if not len(submit) or submit.max() <= submit.min():
        return say(axes, "all jobs come at once" if len(submit) else "no jobs")
    counts, edges = np.histogram(submit, BINS)
    width_h = (edges[1] - edges[0]) / 3600
    axes.stairs(counts / width_h, (edges - edges[0]) / 86_400, fill=True, color=ACCENT, alpha=0.8)
    return None
