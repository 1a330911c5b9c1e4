from matplotlib.backends.backend_agg import FigureCanvasAgg

from weft.results.pictures.style import new_figure
from weft_evidence.titan.figures import label_points

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
