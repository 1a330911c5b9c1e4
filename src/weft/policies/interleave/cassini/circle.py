"""Circle: a job's demand on a link, rolled around its iteration (CASSINI section 3); and periods that fit each other.

Demand may be in any unit of rate, as long as the link's capacity is in the same unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import lcm

from weft.errors import InputError

MOST_REPEATS = 1024  # iterations of a job on the unified circle; with more, a shift no longer matters
_EPS = 1e-12

Piece = tuple[float, float, float]  # start, end, demand


@dataclass(frozen=True)
class Circle:
    """One iteration of `period_s` and its arcs (start, length, demand); arcs may overlap and go round."""

    period_s: float
    arcs: tuple[tuple[float, float, float], ...]

    def __post_init__(self) -> None:
        if not 0 < self.period_s < math.inf:
            raise InputError(f"circle: its period is {self.period_s} s; it must be finite and more than 0")
        for start, length, demand in self.arcs:
            if not (math.isfinite(start) and 0 <= length <= self.period_s * (1 + _EPS) and 0 <= demand < math.inf):
                raise InputError(
                    f"circle: an arc of {length} s at {start} s with demand {demand} on a period of {self.period_s} s; "
                    "it must be finite, not negative and no longer than the period"
                )

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The demand as disjoint pieces inside [0, period), where it is not 0."""
        events: list[tuple[float, float]] = []
        level = 0.0
        for start, length, demand in self.arcs:
            if length >= self.period_s * (1 - _EPS):
                level += demand
                continue
            begin = start % self.period_s
            end = begin + length
            if end > self.period_s:
                end -= self.period_s
                level += demand
            events += [(begin, demand), (end, -demand)]
        events.sort()
        ends = [at for at, _ in events[1:]] + [self.period_s]
        found = [(0.0, events[0][0] if events else self.period_s, level)]
        for (at, jump), end in zip(events, ends, strict=True) if events else ():
            level += jump
            found.append((at, end, level))
        top = max((demand for _, _, demand in self.arcs), default=0.0)
        kept = [piece for piece in found if piece[2] > _EPS * top and piece[1] - piece[0] > _EPS * self.period_s]
        return tuple(_joined(kept))


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    out: list[Piece] = []
    for start, end, demand in pieces:
        if out and out[-1][1] == start and out[-1][2] == demand:
            out[-1] = (out[-1][0], end, demand)
        else:
            out.append((start, end, demand))
    return out


@dataclass(frozen=True)
class Periods:
    """Periods that jobs keep so that their circles fit on one, and what that costs.

    `repeats[j]` iterations of job j make the perimeter; 0 means that they fit on no circle of reasonable size: then
    relative shifts drift, and in the long run none matters. `padding_s` is idle time added to each iteration; `drift_s`
    is the difference between an iteration and the period assumed for it (0 where padding removes it).
    """

    perimeter_s: float
    periods_s: tuple[float, ...]
    repeats: tuple[int, ...]
    padding_s: tuple[float, ...]
    drift_s: tuple[float, ...]

    @property
    def fit(self) -> bool:
        """Whether shifts matter."""
        return all(self.repeats)


def common_periods(times_s: Sequence[float], quantum_s: float = 1e-6) -> Periods:
    """Iteration times rounded to whole quanta; the perimeter is their least common multiple (section 3).

    A fine quantum makes a long perimeter, on which a shift matters only modulo the small common divisor; a coarse one
    invents periods that the jobs do not keep, and `drift_s` says by how much.
    """
    whole = [max(1, round(t / quantum_s)) for t in times_s]
    perimeter = reduce(lcm, whole, 1)
    repeats = tuple(perimeter // w for w in whole)
    fit = max(repeats, default=0) <= MOST_REPEATS
    exact = all(abs(w * quantum_s - t) <= 1e-9 * t for w, t in zip(whole, times_s, strict=True))
    if exact and fit:  # keep the numbers as they were given, to the last bit where there is one period only
        perimeter_s = times_s[0] * repeats[0]
        periods = tuple(perimeter_s / k for k in repeats)
        return Periods(perimeter_s, periods, repeats, (0.0,) * len(whole), (0.0,) * len(whole))
    periods = tuple(w * quantum_s for w in whole)
    drift = tuple(t - p for t, p in zip(times_s, periods, strict=True))
    return Periods(perimeter * quantum_s, periods, repeats if fit else (0,) * len(whole), (0.0,) * len(whole), drift)


# Fractions of the longest iteration that a shorter one may be padded to: the smaller their terms, the more a shift
# matters (of two periods a/b and c/d apart it matters modulo 1/lcm(b, d)).
FRACTIONS = tuple(sorted({(a / b, a, b) for b in range(1, 5) for a in range(1, b + 1) if math.gcd(a, b) == 1}))


def padded_periods(times_s: Sequence[float], most: float) -> Periods:
    """Periods in small ratios, each at most `most` (relative) longer than the iteration; least total padding first.

    The longest iteration is the measure, and may itself be padded. If there are no such periods, `repeats` are 0.
    """
    longest = max(times_s)
    scales = {1.0}
    for t in times_s:
        scales |= {t / (longest * q) for q, _, _ in FRACTIONS if 1.0 <= t / (longest * q) <= 1.0 + most}
    best: tuple[float, float, list[tuple[int, int]]] | None = None
    for scale in sorted(scales):
        base = longest * scale
        chosen: list[tuple[int, int]] = []
        idle = 0.0
        for t in times_s:
            fits = [(q, a, b) for q, a, b in FRACTIONS if t * (1 - 1e-9) <= q * base <= t * (1 + most) * (1 + 1e-12)]
            if not fits:
                break
            q, a, b = fits[0]
            chosen.append((a, b))
            idle += max(0.0, q * base / t - 1.0)
        if len(chosen) == len(times_s) and (best is None or idle < best[0] - 1e-12):
            best = idle, base, chosen
    if best is None:
        zero = (0.0,) * len(times_s)
        return Periods(0.0, tuple(times_s), (0,) * len(times_s), zero, zero)
    _, base, chosen = best
    whole = reduce(lcm, (a for a, _ in chosen), 1)  # perimeter in units of base: lcm of a/b is lcm(a)/gcd(b)
    common = reduce(math.gcd, (b for _, b in chosen))
    perimeter = base * whole / common
    repeats = tuple(round(whole * b / (common * a)) for a, b in chosen)
    periods = tuple(perimeter / k for k in repeats)
    padding = tuple(max(0.0, p - t) for p, t in zip(periods, times_s, strict=True))
    return Periods(perimeter, periods, repeats, padding, (0.0,) * len(periods))
