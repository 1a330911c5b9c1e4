import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from weft.results.compare import compare
from weft.results.display import number
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
    rows = run.iterations.filter(pl.col("count") > 0)
    slowdown = rows.select(pl.col("duration_s") / pl.col("duration_s").min().over("job_id")).to_series()
    expanded = np.repeat(slowdown.to_numpy(), rows["count"].to_numpy().astype(int))
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
    assert sum(len(job.get_paths()) for job in small.collections) == blocks
    large = cluster_timeline(big_run).axes[0]
    assert large.get_ylabel() == "server"
    assert np.shape(large.images[0].get_array()) == (128, 500)


def test_a_job_keeps_its_colour_whatever_the_schedule(paired_runs: list[RunResult]) -> None:
    def colours(run: RunResult) -> dict[str, list[float]]:
        jobs = cluster_timeline(run).axes[0].collections
        return {_words(job).partition(" ")[0]: np.asarray(job.get_facecolor()).tolist() for job in jobs}

    assert set(colours(paired_runs[0])) == set(paired_runs[0].spans["job_id"])
    assert colours(paired_runs[0]) == colours(paired_runs[3])


def test_a_job_says_what_it_is_while_the_pointer_is_on_it(run: RunResult) -> None:
    figure = cluster_timeline(run)
    job = run.jobs.filter(pl.col("finish_s").is_not_null()).row(0, named=True)
    words = next(w for w in map(_words, figure.axes[0].collections) if w.startswith(f"{job['job_id']} "))
    begin = extent_s(run)[0]
    assert words == (
        f"{job['job_id']} ({job['model']}, {job['gpus']} GPUs): "
        f"submitted at {number((job['submit_s'] - begin) / 60)} min, "
        f"finished at {number((job['finish_s'] - begin) / 60)} min"
    )
    assert f"<title>{words}</title>" in inline_svg(figure, "a")


def _words(drawn: Artist) -> str:
    return bytes.fromhex(str(drawn.get_gid()).partition(":")[2]).decode()


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
