"""What others measured on machines that nobody here has, beside what weft predicts: `weft validate NAME`.

A set of data is a module, found by the entry point weft.measured, with a TITLE, a SOURCE and a function
`rows(folder, say)` that yields what was measured and what weft says; perhaps also `summary(rows)` with figures by name,
and OWN where the data comes with the module (the folder is then None unless the user names one).
What all of them have in common is here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import InputError, near

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """Something that was measured, and what weft predicts for it. A constant may have been `fitted` to the row."""

    id: str
    kind: str  # rows of one kind have one unit, and errors of their own
    unit: str
    measured: float
    predicted: float
    fitted: bool = False

    @property
    def error(self) -> float:
        """How far the prediction is off, relative."""
        return self.predicted / self.measured - 1.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "error": self.error}


def sets() -> dict[str, EntryPoint]:
    """The sets of data that are installed, by name."""
    return {point.name: point for point in entry_points(group="weft.measured")}


def load(name: str) -> Any:
    """The module of a set of data."""
    known = sets()
    if name not in known:
        raise InputError(f"validate: there is nothing measured called {name}{near(name, sorted(known))}")
    return known[name].load()


def folder_of(name: str, given: Path | None) -> Path:
    """Where the files of a set of data lie: where the user says, or under WEFT_TRACES."""
    store = os.environ.get("WEFT_TRACES")
    if given is None and not store:
        raise InputError(
            f"validate {name}: where is the data? give --data DIR, or let WEFT_TRACES name the folder over it"
        )
    folder = given or Path(str(store)) / name
    if not folder.is_dir():
        raise InputError(f"validate {name}: there is no folder {folder}; give another with --data DIR")
    return folder


def errors(rows: Iterable[Row]) -> dict[str, dict[str, Any]]:
    """By kind the errors of rows that nothing was fitted to, regardless of the sign: median, 90th percentile, worst."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.kind, []).append(row)
    return {kind: _errors(of_kind) for kind, of_kind in found.items()}


def _errors(rows: Sequence[Row]) -> dict[str, Any]:
    import numpy as np  # for a command that is only asked for its help, it takes too long to load

    free = [row for row in rows if not row.fitted]
    off = np.abs([row.error for row in free]) if free else np.array([np.nan])
    worst = max(free, key=lambda row: abs(row.error), default=None)
    return {
        "rows": len(free), "fitted": len(rows) - len(free), "median": float(np.median(off)),
        "p90": float(np.quantile(off, 0.9)), "worst": float(off.max()), "worst_id": worst.id if worst else "",
    }  # fmt: skip


def picture(title: str, rows: Sequence[Row]) -> Figure:
    """Measured across, predicted up, a panel for each kind."""
    from weft.results.pictures.style import MUTED, PALETTE, house_style, new_figure, tidy_axes

    kinds = list(dict.fromkeys(row.kind for row in rows))
    with house_style():
        figure, panels = new_figure(3.2 * len(kinds), 3.2, 1, len(kinds))
        for kind, axes in zip(kinds, panels, strict=True):
            mine = [row for row in rows if row.kind == kind]
            for fitted, colour, mark in ((False, PALETTE[0], "o"), (True, MUTED, "x")):
                of = [row for row in mine if row.fitted == fitted]
                axes.plot([r.measured for r in of], [r.predicted for r in of], mark, color=colour, ms=4, alpha=0.7)
            ends = [min(min(r.measured, r.predicted) for r in mine), max(max(r.measured, r.predicted) for r in mine)]
            axes.plot(ends, ends, color=MUTED, lw=0.8, zorder=0)
            tidy_axes(axes, kind, f"measured ({mine[0].unit})", "predicted" * (kind == kinds[0]), grid="both")
        figure.suptitle(title)
    return figure


def as_json(name: str, measured: Any, rows: Sequence[Row]) -> dict[str, Any]:
    """What `weft validate NAME --json` prints."""
    told = {"name": name, "source": measured.SOURCE, "constants": dict(measured.CONSTANTS), "errors": errors(rows)}
    return {**told, "summary": summary(measured, rows), "rows": [row.to_dict() for row in rows]}


def summary(measured: Any, rows: Sequence[Row]) -> dict[str, float]:
    """Figures of a set of data over all of its rows, by name, where it has any."""
    return dict(measured.summary(rows)) if hasattr(measured, "summary") else {}
