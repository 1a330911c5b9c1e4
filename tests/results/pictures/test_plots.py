import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console

from weft.errors import InputError
from weft.results.compare import compare
from weft.results.display import number
from weft.results.metrics import summary
from weft.results.pictures import plots
from weft.results.pictures.iteration import Block, IterationPicture, Rate, draw_iteration, iteration_figure
from weft.results.pictures.plots import cluster_timeline, neighbours
from weft.results.pictures.style import hover, inline_svg, legend_below, new_figure, save_picture
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
    for slow in (0.5, 0.1, 0.02):
        assert float(np.interp(slow, y[::-1], x[::-1])) == pytest.approx(np.quantile(expanded, 1 - slow), rel=0.02)


def test_the_few_slow_iterations_are_seen(run: RunResult) -> None:
    """One iteration in a thousand takes 100 times as long: the line goes there, and does not stand at 1."""
    row = run.iterations.head(1)
    rows = pl.concat(
        row.with_columns(duration_s=pl.lit(d, pl.Float64), count=pl.lit(n, row["count"].dtype))
        for d, n in ((1.0, 999), (100.0, 1))
    )
    figure = plots.iteration_cdf([replace(run, iterations=rows)])
    x, y = line_of(figure)
    assert (x[0], x[-1]) == (1.0, pytest.approx(100.0))
    assert y[-1] == pytest.approx(0.001)
    assert (figure.axes[0].get_xscale(), figure.axes[0].get_yscale()) == ("log", "log")


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


def test_hover_words_are_in_the_picture_and_escaped() -> None:
    figure, (axes,) = new_figure(3.0, 2.0)
    axes.set(xlim=(0.0, 2.0), ylim=(0.0, 2.0))
    hover(axes, 1.0, 2.0, "a<b & 5 µs")
    hover(axes, 3.0, 1.0, "outside")
    svg = inline_svg(figure, "x")
    frame = axes.get_position()
    x, y = 72.0 * 3.0 * (frame.x0 + frame.x1) / 2.0, 72.0 * 2.0 * (1.0 - frame.y1)  # from the top, in points
    assert f'<circle class="spot" cx="{x:.1f}" cy="{y:.1f}"' in svg
    assert "<title>a&lt;b &amp; 5 µs</title></circle>" in svg
    assert "outside" not in svg


@pytest.mark.parametrize("n", [2, 7, 12])
def test_a_legend_lies_below_the_axes_and_leaves_them_their_height(n: int) -> None:
    figure, (axes,) = new_figure(5.6, 3.3)
    for i in range(n):
        axes.plot([0, 1], [i, i], label=f"srsf-preemptive[place=first-fit,pace={i}]")
    legend_below(figure, axes)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legend = figure.legends[0].get_window_extent(canvas.get_renderer())
    assert legend.y1 <= axes.get_window_extent().y0
    assert legend.x1 <= figure.bbox.x1 + 1
    assert axes.get_window_extent().height > 1.4 * figure.dpi


def _picture() -> IterationPicture:
    """1 s: forward 0.25, backward 0.25, then half a second of sending at half speed."""
    blocks = (Block("workers 0-1", "forward", 0.0, 0.25), Block("workers 0-1", "backward", 0.25, 0.5))
    sends = (Rate(0.5, 1.0, 25.0),)
    return IterationPicture("a job", 1.0, 50.0, 0, blocks, sends, sends)


def _text(picture: IterationPicture) -> list[str]:
    buffer = StringIO()
    Console(width=120, file=buffer).print(draw_iteration(picture))
    return buffer.getvalue().splitlines()


def test_lanes_and_traffic_share_one_time_axis() -> None:
    lines = _text(_picture())
    lane = next(line for line in lines if line.startswith("workers 0-1 "))[12:84]
    sends = next(line for line in lines if line.lstrip().startswith("sends "))[12:84]
    assert lane == "█" * 36 + "─" * 36
    assert sends == "─" * 36 + "▄" * 36  # half of the NIC
    assert any("circle of 1" in line and "Down" in line for line in lines)
    assert any("Up 1:" in line and "180° to 360°" in line for line in lines)


def test_the_lower_half_of_the_circle_is_up() -> None:
    """Angles run counter-clockwise from the right, so the second half of the iteration is the lower half."""
    rows = [line[:38] for line in _text(_picture())]
    circle = [row for row in rows if row.strip() and not row.strip(" ·█")]
    assert len(circle) == 17
    assert all("█" not in row for row in circle[:8])
    assert all("·" not in row for row in circle[-8:])


def test_a_job_that_sends_nothing_is_all_down() -> None:
    blocks = (Block("worker 0", "forward", 0.0, 1.0),)
    picture = IterationPicture("alone", 1.0, 50.0, 0, blocks, (), ())
    assert picture.up_s == 0
    assert any("Down 1" in line and "(360°)" in line for line in _text(picture))


def test_many_phases_are_cut_short_in_words() -> None:
    sends = tuple(Rate(i / 40, (i + 0.5) / 40, 50.0) for i in range(40))
    picture = IterationPicture("busy", 1.0, 50.0, 0, (), sends, sends)
    assert any("more" in line for line in _text(picture))


def test_the_file_is_the_same_every_time(tmp_path: Path) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    save_picture(iteration_figure(_picture()), first)
    save_picture(iteration_figure(_picture()), second)
    assert first.read_bytes() == second.read_bytes()
    assert "a job" in first.read_text()


def test_the_figure_has_lanes_traffic_and_a_circle() -> None:
    figure = iteration_figure(_picture())
    assert len(figure.axes) == 3
    assert figure.axes[2].name == "polar"


def test_a_path_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must end in"):
        save_picture(iteration_figure(_picture()), tmp_path / "a.txt")
    with pytest.raises(InputError, match="can be written"):
        save_picture(iteration_figure(_picture()), tmp_path / "none" / "a.svg")


@pytest.mark.parametrize("kind", ["log", "symlog"])
def test_logarithmic_axes_have_numbers_and_no_tex(kind: str) -> None:
    figure, (axes,) = new_figure(4, 3)
    axes.plot([1e-3, 1.0, 5e4], [1, 2, 3])
    axes.set_xscale(kind)  # type: ignore[arg-type]
    svg = inline_svg(figure, "f")
    assert "mathdefault" not in svg
    assert {">1,000<", ">10,000<"} & {f">{text}<" for text in re.findall(r">([\d,.]+)<", svg)}
