"""Pictures: what they show is what the run holds, and large runs stay small pictures."""

from __future__ import annotations

import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from weft.results.compare import compare
from weft.results.metrics import summary
from weft.results.pictures import plots
from weft.results.pictures.plots import cluster_timeline, neighbours
from weft.results.pictures.style import inline_svg
from weft.results.run import RunResult
from weft.results.series import extent_s


def line_of(figure: Figure, axes: int = 0, line: int = 0) -> tuple[np.ndarray, np.ndarray]:
    drawn = figure.axes[axes].lines[line]
    return np.asarray(drawn.get_xdata()), np.asarray(drawn.get_ydata())


def test_jct_cdf_passes_through_the_median(run: RunResult) -> None:
    figure = plots.jct_cdf([run])
    x, y = line_of(figure)
    assert figure.axes[0].get_xlabel() == "time (min)"
    assert float(np.interp(0.5, y, x)) * 60 == pytest.approx(summary(run)["jct_s"]["median"], rel=0.02)
    assert (y[0], y[-1]) == (0.0, 1.0)


def test_iteration_cdf_weighs_run_lengths(run: RunResult) -> None:
    x, y = line_of(plots.iteration_cdf([run]))
    expanded = np.repeat(run.iterations["duration_s"].to_numpy(), run.iterations["count"].to_numpy().astype(int))
    assert float(np.interp(0.9, y, x)) == pytest.approx(np.quantile(expanded, 0.9), rel=0.02)


def test_wide_ranges_get_a_logarithmic_axis(run: RunResult) -> None:
    wide = run.jobs.with_columns(jct_s=10.0 ** np.linspace(0, 5, run.jobs.height))
    narrow = run.jobs.with_columns(jct_s=np.linspace(90, 110, run.jobs.height))
    assert plots.jct_cdf([replace(run, jobs=wide)]).axes[0].get_xscale() == "log"
    assert plots.jct_cdf([replace(run, jobs=narrow)]).axes[0].get_xscale() == "linear"


def test_one_line_per_stack_with_its_name(paired_runs: list[RunResult]) -> None:
    for figure in (plots.jct_cdf(paired_runs), plots.iteration_cdf(paired_runs), plots.load_over_time(paired_runs)):
        (legend,) = figure.legends  # below the picture, where it covers nothing
        assert [text.get_text() for text in legend.get_texts()] == ["fifo", "srsf"]
        assert len({(line.get_color(), str(line.get_linestyle())) for line in figure.axes[0].lines}) == 2


def test_ratio_intervals_stand_where_the_numbers_are(paired_runs: list[RunResult]) -> None:
    comparison = compare({s: [summary(r) for r in paired_runs if r.stack == s] for s in ("fifo", "srsf")})
    figure = plots.ratio_intervals(comparison)
    (xs, _), (mean, _) = line_of(figure, line=0), line_of(figure, line=1)
    ratio = comparison["stacks"][1]["ratio_to_first"]["jct_mean_s"]
    assert xs.tolist() == ratio["ci95"]
    assert mean.tolist() == [ratio["mean"]]


def test_links_over_time_when_recorded_else_bars(run: RunResult) -> None:
    over_time = plots.link_utilisation(run)
    assert len(over_time.axes[0].images) == 1
    begin, end = extent_s(run)
    longer = plots.link_utilisation(run, end_s=begin + 2 * (end - begin))
    assert longer.axes[0].get_xlim()[1] * 60 == pytest.approx(2 * (end - begin))
    bars = plots.link_utilisation(replace(run, link_series=run.link_series.clear())).axes[0]
    widths = [bar.get_width() for bar in bars.patches]  # type: ignore[attr-defined]
    assert widths == run.links.sort("utilisation", descending=True)["utilisation"].head(24).to_list()
    labels = [label.get_text() for label in bars.get_yticklabels()]
    assert labels[0] == run.links.sort("utilisation", descending=True)["name"][0]


def test_small_clusters_show_jobs_and_large_ones_servers(run: RunResult, big_run: RunResult) -> None:
    small = cluster_timeline(run).axes[0]
    blocks = sum(len(list(neighbours(gpus))) for gpus in run.spans["gpus"].to_list())
    assert len(small.collections[0].get_paths()) == blocks
    large = cluster_timeline(big_run).axes[0]
    assert large.get_ylabel() == "server"
    assert np.shape(large.images[0].get_array()) == (128, 500)


def test_a_job_keeps_its_colour_whatever_the_schedule(paired_runs: list[RunResult]) -> None:
    def colours(run: RunResult) -> dict[str, tuple[float, ...]]:
        jobs = [job for job, gpus in run.spans.select("job_id", "gpus").iter_rows() for _ in neighbours(gpus)]
        drawn = cluster_timeline(run).axes[0].collections[0].get_facecolor()
        return {job: tuple(colour) for job, colour in zip(jobs, np.asarray(drawn).tolist(), strict=True)}

    assert colours(paired_runs[0]) == colours(paired_runs[3])


def test_neighbours() -> None:
    assert list(neighbours([4, 0, 1, 2, 6, 7])) == [(0, 2), (4, 4), (6, 7)]
    assert list(neighbours([])) == []


@pytest.mark.parametrize("name", ["stuck_run", "empty_run", "single_run"])
def test_runs_with_little_to_show_still_draw(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    figures = [plots.jct_cdf([run]), plots.iteration_cdf([run]), plots.load_over_time([run])]
    figures += [plots.link_utilisation(run), cluster_timeline(run)]
    for figure in figures:
        assert inline_svg(figure, "a").startswith("<svg ")
    if name != "single_run":
        assert "no job finished" in inline_svg(figures[0], "a")
        assert "no job ran" in inline_svg(figures[-1], "a")


def test_pictures_of_large_runs_stay_small(big_run: RunResult) -> None:
    figures = [plots.jct_cdf([big_run]), plots.iteration_cdf([big_run]), plots.load_over_time([big_run])]
    figures += [plots.link_utilisation(big_run), cluster_timeline(big_run)]
    for figure in figures:
        assert len(inline_svg(figure, "a")) < 400_000


def test_svg_is_text_follows_the_theme_and_is_the_same_every_time(run: RunResult) -> None:
    svg = inline_svg(plots.jct_cdf([run]), "jct")
    assert "Job completion time</text>" in svg
    assert "var(--ink, #1b1f24)" in svg
    assert not re.search(r"https?:|xmlns|<metadata", svg)
    assert svg == inline_svg(plots.jct_cdf([run]), "jct")
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', svg))
    made = set(re.findall(r'\sid="([^"]+)"', svg))
    assert used <= made
    assert all(name.startswith("jct-") for name in made)


def test_nothing_global_is_left_behind(run: RunResult) -> None:
    before = dict(mpl.rcParams)
    inline_svg(plots.load_over_time([run]), "a")
    assert dict(mpl.rcParams) == before
