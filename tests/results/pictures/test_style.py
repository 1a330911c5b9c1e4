"""Labels and legends that find their place."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from weft.results.pictures.style import hover, inline_svg, label_points, legend_below, new_figure

# where the placers of Titan's second picture lie: two names used to lie over each other, and one was cut
PLACERS = {
    "ls, first-fit, hived": (6.8, 9.1), "skew": (7.6, 8.2), "titan:printed": (7.7, 6.7),
    "lwf, best-fit, delay, elasticflow": (5.7, 6.4), "titan, titan:plus": (9.5, 0.9), "random": (47.0, 13.0),
    "packing, affinity": (44.0, 12.4),
}  # fmt: skip


def test_names_beside_points_do_not_collide() -> None:
    figure, (axes,) = new_figure(7.0, 4.5)
    axes.plot(*zip(*PLACERS.values(), strict=True), "o")
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_ylim(bottom=0)
    label_points(axes, PLACERS)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = {text.get_text(): text.get_window_extent(canvas.get_renderer()) for text in axes.texts}
    assert set(boxes) == set(PLACERS)
    names = list(boxes)
    assert [(a, b) for i, a in enumerate(names) for b in names[i + 1 :] if boxes[a].overlaps(boxes[b])] == []
    frame = axes.get_window_extent()
    assert [name for name, box in boxes.items() if box.x1 > frame.x1 + 1 or box.x0 < frame.x0 - 1] == []


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


@pytest.mark.parametrize("n", [2, 7])
def test_a_legend_lies_below_the_axes(n: int) -> None:
    figure, (axes,) = new_figure(5.6, 3.3)
    for i in range(n):
        axes.plot([0, 1], [i, i], label=f"srsf-preemptive[place=first-fit,pace={i}]")
    legend_below(figure, axes)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    legend = figure.legends[0].get_window_extent(canvas.get_renderer())
    assert legend.y1 <= axes.get_window_extent().y0
    assert legend.x1 <= figure.bbox.x1 + 1
