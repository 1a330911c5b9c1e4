"""Numbers as people read them: one time unit for values that are compared, three significant digits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

MISSING = "–"  # noqa: RUF001 - an en dash stands for "undefined" in tables


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of time and its length in seconds."""

    name: str
    seconds: float

    def of(self, value_s: float | None) -> str:
        """A time in this unit, without the unit's name."""
        return MISSING if value_s is None else number(value_s / self.seconds)


# A unit serves up to a limit at which the next one reads better (5 min rather than 300 s).
_UNITS = (
    (1e-3, Unit("µs", 1e-6)),
    (1.0, Unit("ms", 1e-3)),
    (300.0, Unit("s", 1.0)),
    (3 * 3600.0, Unit("min", 60.0)),
    (4 * 86400.0, Unit("h", 3600.0)),
    (math.inf, Unit("d", 86400.0)),
)
_SECONDS = Unit("s", 1.0)


def time_unit(values_s: Iterable[float | None]) -> Unit:
    """The unit in which the largest of these times reads well; all of them are then shown in it."""
    largest = max((abs(v) for v in values_s if v is not None and math.isfinite(v)), default=0.0)
    if largest == 0.0:
        return _SECONDS
    return next(unit for limit, unit in _UNITS if largest < limit)


def duration(value_s: float | None) -> str:
    """A time in its own best unit: 1.24 h."""
    if value_s is None:
        return MISSING
    unit = time_unit([value_s])
    return f"{unit.of(value_s)} {unit.name}"


def number(value: float | None) -> str:
    """Three significant digits, integers above a hundred with thousands separators."""
    if value is None or not math.isfinite(value):
        return MISSING
    size = abs(value)
    if size == 0.0:
        return "0"
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.0995 else f"{value:.2g}"


def count(value: float | None) -> str:
    """An integer with thousands separators."""
    return MISSING if value is None else f"{value:,.0f}"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage: 73.1 %."""
    return MISSING if fraction is None else f"{100 * fraction:.1f} %"


def amount(bytes_: float | None) -> str:
    """Bytes in decimal units: 12.3 GB."""
    if bytes_ is None or not math.isfinite(bytes_):
        return MISSING
    value = bytes_
    for name in ("B", "kB", "MB", "GB", "TB"):
        if abs(value) < 999.5:
            return f"{number(value)} {name}"
        value /= 1000.0
    return f"{number(value)} PB"
