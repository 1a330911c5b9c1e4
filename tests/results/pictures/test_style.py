import re

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from weft.results.pictures.style import hover, inline_svg, legend_below, new_figure


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


@pytest.mark.parametrize("kind", ["log", "symlog"])
def test_logarithmic_axes_have_numbers_and_no_tex(kind: str) -> None:
    figure, (axes,) = new_figure(4, 3)
    axes.plot([1e-3, 1.0, 5e4], [1, 2, 3])
    axes.set_xscale(kind)  # type: ignore[arg-type]
    svg = inline_svg(figure, "f")
    assert "mathdefault" not in svg
    assert {">1,000<", ">10,000<"} & {f">{text}<" for text in re.findall(r">([\d,.]+)<", svg)}
