"""Pictures of the Dally paper's figures, from what was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.network.cost import DALLY_TABLE_I
from weft.results.metrics import finished_jobs, summary
from weft.results.pictures.style import DASHES, PALETTE, house_style, new_figure, tidy_axes
from weft.results.series import busy_gpus
from weft_evidence.claims import Picture, Runs
from weft_evidence.dally.latency import TIERS, latencies, share
from weft_evidence.dally.runs import RACKS, timers_over_time
from weft_evidence.dally.shapes import calibrated_profile

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from weft.results.run import RunResult

DAY = 86_400.0


def pictures(runs: Runs | None, names: Mapping[str, str]) -> tuple[Picture, ...]:
    """Those that can be drawn of what was run."""
    found = [
        Picture("Figure 1: one iteration of 8 GPUs by tier, calibrated to one machine", figure_1),
        Picture("Figure 6: exposed communication of six jobs from placement to placement: Themis' penalties (hollow) "
                "and the hierarchy (filled)", figure_6),
    ]  # fmt: skip
    if runs is None:
        return tuple(found)
    for arrival in ("batch", "poisson"):
        here = {name: runs.by_stack.get(f"{stack}@{arrival}-8", []) for name, stack in names.items()}
        here = {name: group for name, group in here.items() if group}
        if here:
            caption = f"Figures {'9, 11 and 12' if arrival == 'batch' else '10'}: {arrival} on 8 racks"
            found.append(Picture(caption, partial(figure_cluster, here)))
    by_racks = {
        name: [runs.by_stack.get(f"{stack}@batch-{racks}", []) for racks in RACKS] for name, stack in names.items()
    }
    by_racks = {name: groups for name, groups in by_racks.items() if all(groups)}
    if {"tiresias", "dally"} <= by_racks.keys():
        found.append(Picture("Figures 7, 8 and 13a: batch, by number of racks", partial(figure_racks, by_racks)))
        found.append(Picture("Figure 4: tuned rack timer of 16-GPU jobs over time", figure_4))
    return tuple(found)


@house_style()
def figure_1() -> Figure:
    """Iteration time by model and tier."""
    figure, (axes,) = new_figure(7.5, 3.2)
    for i, where in enumerate(TIERS):
        whole = [calibrated_profile(model, 8).compute_s * (1 + share(model, where)) for model in DALLY_TABLE_I]
        axes.bar(np.arange(len(whole)) + 0.27 * (i - 1), whole, 0.25, label=where, color=PALETTE[i])
    axes.set_yscale("log")
    axes.set_xticks(range(len(DALLY_TABLE_I)), list(DALLY_TABLE_I), fontsize=8)
    axes.legend()
    tidy_axes(axes, "Iteration time", y="s")
    return figure


@house_style()
def figure_6() -> Figure:
    """Latency of each placement, by both models."""
    figure, (axes,) = new_figure(7.5, 3.2)
    models = list(dict.fromkeys(model for model, *_ in latencies()))
    for i, (model, _, static, exact) in enumerate(latencies()):
        colour = PALETTE[models.index(model) % len(PALETTE)]
        axes.plot([i], [static * 1e3], "o", mfc="none", color=colour)
        axes.plot([i], [exact * 1e3], "o", color=colour)
    axes.set_yscale("symlog")
    axes.set_xticks(range(len(latencies())), [model for model, *_ in latencies()], rotation=40, fontsize=7, ha="right")
    tidy_axes(axes, "Exposed communication of each placement", y="ms")
    return figure


@house_style()
def figure_4() -> Figure:
    """Rack timers of 16-GPU jobs, for each number of racks."""
    figure, (axes,) = new_figure(7.5, 3.2)
    for i, racks in enumerate(RACKS):
        rows = timers_over_time(racks, 16)
        axes.step(
            [t / DAY for t, _, _ in rows], [r / 3600 for _, _, r in rows], where="post", label=f"{racks} racks",
            color=PALETTE[i], linestyle=DASHES[i % len(DASHES)],
        )  # fmt: skip
    axes.legend()
    tidy_axes(axes, "Rack timer", "days", "hours", grid="both")
    return figure


@house_style()
def figure_cluster(groups: Mapping[str, Sequence[RunResult]]) -> Figure:
    """Distribution of JCT, share of busy GPUs and number of remaining jobs over time (first seed)."""
    figure, (left, middle, right) = new_figure(11.4, 3.4, columns=3)
    for i, (name, runs) in enumerate(groups.items()):
        style = {"color": PALETTE[i % len(PALETTE)], "linestyle": DASHES[i % len(DASHES)], "label": name}
        _lines(left, middle, right, runs, style)
    left.set_xscale("log")
    left.legend(loc="lower right")
    for axes in (middle, right):
        axes.set_xscale("symlog", linthresh=1.0)
    tidy_axes(left, "JCT", "days", "share of jobs", grid="both")
    tidy_axes(middle, "GPUs in use", "days", "share", grid="both")
    tidy_axes(right, "Remaining jobs", "days", "jobs", grid="both")
    return figure


def _lines(left: Axes, middle: Axes, right: Axes, runs: Sequence[RunResult], style: Mapping[str, object]) -> None:
    jct = np.sort(np.concatenate([finished_jobs(run)["jct_s"].to_numpy() for run in runs]))
    left.plot(jct / DAY, np.arange(1, len(jct) + 1) / len(jct), **style)  # type: ignore[arg-type]
    busy = busy_gpus(runs[0])
    middle.step(busy.time_s / DAY, busy.value / runs[0].n_gpus, where="post", **style)  # type: ignore[arg-type]
    ends = np.sort(finished_jobs(runs[0])["finish_s"].to_numpy())
    right.step(ends / DAY, len(ends) - np.arange(1, len(ends) + 1), where="post", **style)  # type: ignore[arg-type]


@house_style()
def figure_racks(groups: Mapping[str, Sequence[Sequence[RunResult]]]) -> Figure:
    """Makespan, P95 queueing delay, mean communication and mean JCT by number of racks, over Tiresias'."""
    metrics = {
        "Makespan": ("makespan_s",), "P95 queueing": ("queueing_s", "p95"), "Communication": ("comm_s", "mean"),
        "Mean JCT": ("jct_s", "mean"),
    }  # fmt: skip
    values = {
        name: [[np.mean([_number(run, path) for run in runs]) for path in metrics.values()] for runs in by_racks]
        for name, by_racks in groups.items()
    }
    figure, panels = new_figure(11.4, 3.0, columns=4)
    for k, (axes, title) in enumerate(zip(panels, metrics, strict=True)):
        for i, name in enumerate(groups):
            ratio = [
                float(mine[k] / other[k]) if other[k] else float("nan")
                for mine, other in zip(values[name], values["tiresias"], strict=True)
            ]
            axes.bar(np.arange(len(RACKS)) + 0.2 * (i - 1.5), ratio, 0.19, label=name, color=PALETTE[i])
        axes.set_xticks(range(len(RACKS)), [str(r) for r in RACKS])
        axes.set_yscale("log")
        tidy_axes(axes, f"{title} / Tiresias'", "racks")
    panels[0].legend(fontsize=7)
    return figure


def _number(run: RunResult, path: Sequence[str]) -> float:
    value: Any = summary(run)
    for key in path:
        value = value[key]
    return float(value or 0.0)
