"""How weft's pictures look: palette, axes, and SVG that follows the light or dark page around it.

Figures are made without pyplot, so nothing global is left behind. Colours are Okabe and Ito's, told apart by readers
with any colour vision; lines differ by dash too. Ink, grid and surface are drawn in fixed greys that `inline_svg` turns
into CSS variables, so that one picture serves both themes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, Literal
from warnings import catch_warnings, filterwarnings
from weakref import WeakKeyDictionary

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, LogLocator, NullFormatter

from weft.errors import InputError
from weft.results.files import PICTURES

INK, MUTED, GRID, SURFACE = "#1b1f24", "#5b6471", "#dde2e9", "#fefefe"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", MUTED)
ACCENT = PALETTE[0]
DASHES = ("solid", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
# Lighter tones for areas that touch (one per job); neighbours in the list differ in lightness as well as hue.
JOB_COLOURS = (
    "#4c93c4", "#f0b44c", "#3aa98a", "#e07b4f", "#9b87c9", "#8cc7ea", "#c96b9a", "#b7c95c", "#5f7fb0", "#e8a3a3",
)  # fmt: skip

_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", SURFACE: "--surface", ACCENT: "--series"}
_RC: Any = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's own font
    "svg.image_inline": True,
    "text.parse_math": False,  # a dollar in a job's name is a dollar
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.pad": 6.0,  # labels of both axes meet at the origin
    "ytick.major.pad": 6.0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.labelcolor": INK,
}


@contextmanager
def house_style() -> Iterator[None]:
    """The house style while a figure is made; as a decorator of the functions that make one."""
    with rc_context(_RC):
        yield


class Picture(Figure):
    """A figure that a notebook shows, though pyplot does not know it."""

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", facecolor="white")  # its letters are dark, and the page may be so too
        return file.getvalue()


def new_figure(
    width: float, height: float, rows: int = 1, columns: int = 1, **subplots: Any
) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row; sizes in inches."""
    figure = Picture(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **subplots)
    return figure, list(axes.ravel())


def tidy_axes(axes: Axes, title: str = "", x: str = "", y: str = "", grid: Literal["x", "y", "both", ""] = "y") -> None:
    """Title, axis labels and a quiet grid."""
    axes.set_title(title)
    if x:
        axes.set_xlabel(x)
    if y:
        axes.set_ylabel(y)
    if grid:
        axes.grid(True, axis=grid)
    axes.tick_params(length=0)


def heat_colours(colour: str = ACCENT) -> LinearSegmentedColormap:
    """From transparent to a colour: zero has the page's own colour, in either theme."""
    return LinearSegmentedColormap.from_list("weft", [(*to_rgb(colour), a) for a in (0.04, 0.55, 1.0)])


def colour_bar(figure: Figure, axes: Axes, image: ScalarMappable) -> None:
    """A slim bar that says which colour is how many percent."""
    bar = figure.colorbar(image, ax=axes, pad=0.01, fraction=0.02, aspect=figure.get_figheight() / 0.2)
    bar.ax.tick_params(length=0)
    bar.ax.yaxis.set_major_formatter(lambda v, _: f"{100 * v:.0f} %")
    bar.outline.set_edgecolor(GRID)


def plain_numbers(figure: Figure) -> None:
    """Logarithmic axes say 0.001 and 2,000: matplotlib's own powers are TeX, which the page would show as it is."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() in ("log", "symlog") and isinstance(axis.get_major_formatter(), LogFormatter):
                low, high = sorted(axis.get_view_interval())
                few = low > 0 and high / low < 1000  # less than three powers of ten: 2 and 5 between them are named too
                if axis.get_scale() == "log":
                    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
                axis.set_major_formatter(lambda v, _: f"{v:,.0f}" if abs(v) >= 1000 else f"{v:g}")
                axis.set_minor_formatter(NullFormatter())


_spots: WeakKeyDictionary[Axes, list[tuple[float, float, str]]] = WeakKeyDictionary()  # see `hover`


def hover(axes: Axes, x: float, y: float, words: str) -> None:
    """Words that a browser shows while the pointer is near a point. `inline_svg` adds them: hundreds of invisible
    artists would take matplotlib longer than the rest of a report."""
    _spots.setdefault(axes, []).append((x, y, words))


def hovered(words: str) -> str:
    """The gid of a part of a picture that has a browser show these words while the pointer is on it."""
    return "hover:" + words.encode().hex()


def legend_below(figure: Figure, axes: Axes) -> None:
    """The legend of these axes below the whole picture, which grows by it: it covers and squeezes nothing, however many
    lines there are."""
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, int(figure.get_figwidth() * 11 / max((len(label) for label in labels), default=1) / 1.6))
    figure.set_figheight(figure.get_figheight() + 0.2 * max(0, math.ceil(len(labels) / columns) - 4))
    figure.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))


def say(axes: Axes, words: str) -> None:
    """Words in the middle of a picture that has nothing to show."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=MUTED)


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture into the file that `--plot` names, in the format of its ending; the same bytes each time."""
    suffix = path.suffix.lower()
    if suffix not in PICTURES:
        raise InputError(f"--plot: {path} must end in {', '.join(PICTURES)}")
    plain: Any = {"Date": None, "Creator": None} if suffix == ".svg" else None
    plain_numbers(figure)
    try:
        with rc_context({"svg.hashsalt": "weft", "svg.fonttype": "none"}):
            figure.savefig(path, dpi=150, facecolor="white", metadata=plain)
    except OSError as error:
        raise InputError(f"--plot: {path}: {error.strerror or error}; give a path that can be written") from error


def inline_svg(figure: Figure, name: str) -> str:
    """The figure as SVG to put into an HTML page; `name` keeps its ids apart from those of other figures."""
    plain_numbers(figure)
    buffer = StringIO()
    with rc_context({**_RC, "svg.hashsalt": name}), catch_warnings():
        # A name in a script that matplotlib's own font lacks: only its width is guessed, the page has the letters.
        filterwarnings("ignore", message="Glyph .* missing from font")
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(xmlns(:\w+)?|version)="[^"]*"', "", svg).replace("xlink:href=", "href=")
    svg = re.sub(r"""(\sid="|href="#|url\(#)""", rf"\g<1>{name}-", svg)
    svg = re.sub(r"font: ([^;\"]*?)(?:'[^;\"]*|sans-serif[^;\"]*)", r"font: \1var(--font, sans-serif)", svg)
    svg = re.sub(r'<g id="[^"]*?hover:([0-9a-f]*)">', _group, svg)
    svg = svg.replace("</svg>", "".join(_circles(figure)) + "</svg>")
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable}, {colour})")
    # scale with the page instead of the fixed size in points, but not to letters larger than the page's own
    widest = f"max-width: {1.2 * 96 * figure.get_figwidth():.0f}px"
    return re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 class="plot" role="img" style="{widest}">', svg, count=1
    )


def _group(match: re.Match[str]) -> str:
    return f'<g class="spot"><title>{escape(bytes.fromhex(match[1]).decode())}</title>'


def _circles(figure: Figure) -> Iterator[str]:
    """The points of `hover`, once the figure has been drawn; those that lie outside of their axes are left out."""
    scale, height = 72.0 / figure.dpi, 72.0 * figure.get_figheight()
    for axes in figure.axes:
        frame = axes.get_window_extent().padded(1.0)
        for x, y, words in _spots.get(axes, ()):
            at, up = axes.transData.transform((x, y))
            if frame.contains(at, up):
                where = f'cx="{scale * at:.1f}" cy="{height - scale * up:.1f}" r="5"'
                yield f'<circle class="spot" {where} fill="none"><title>{escape(words)}</title></circle>'
