"""Counters of a link over time (CSV: time_s, bytes) as the circle of a job: its period, and what it sends when.

CASSINI measures port counters in this way. The rate is put into equal bins; its autocorrelation has a peak at the
period, and at every multiple of it: the first peak that is nearly as high as the highest is taken, and made finer by
the multiples. A series without a peak that stands out has no period, and is refused.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.model.units import gbps_to_bytes_per_s
from weft.workload.profiles.layers import read_text

LEAST = 0.5  # autocorrelation of a period; noise has about 0, a strict period 1
_NEARLY = 0.9  # of the highest peak: the first such peak is the period, those after it are multiples
_FEWEST_BINS, _MOST_BINS, _FEWEST_PERIODS = 64, 1 << 20, 3
_STEPS = 100  # bins of the circle
_QUIET = 0.1  # of the highest rate: what is below is the network's background

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """What a series says: the period, how sure it is, and one period as arcs (start, length, Gbit/s)."""

    period_s: float
    autocorrelation: float
    periods: float
    arcs: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class CountedFile:
    """A file of counters as a model: what one worker of a job sent through its NIC, alone on its links."""

    name: str
    counted: Counted

    def profile(self, workers: int) -> Profile:
        """One iteration of any number of workers: between arcs it computes, and in an arc a ring of the workers sends,
        per worker, what was counted, no faster than it was counted. The longest gap comes first. What was computed
        while the link was busy cannot be seen; one worker has the gaps alone."""
        gaps = _from_the_longest_gap(self.counted)
        tasks: list[Task] = []
        for k, (gap_s, length_s, gbps) in enumerate(gaps):
            before = (len(tasks) - 1,) if tasks else ()
            if gap_s > 0:
                tasks.append(Compute(f"compute{k}", gap_s, before))
                before = (len(tasks) - 1,)
            if workers > 1:
                rate = gbps_to_bytes_per_s(gbps)
                message = rate * length_s * workers / (2 * (workers - 1))
                tasks.append(Transfer(f"all-reduce{k}", message, before, None, "ring", rate))
        seen = self.counted
        source = (
            f"counters of {self.name}: a period of {seen.period_s:.6g} s, of {len(gaps)} phase{'s' * (len(gaps) > 1)} "
            f"of sending; {seen.periods:.1f} periods were counted, autocorrelation {seen.autocorrelation:.2f}"
        )
        return Profile(self.name, tuple(tasks), workers, source=source)


def _from_the_longest_gap(seen: Counted) -> list[tuple[float, float, float]]:
    """Gap before each arc, its length and its rate, an arc that goes round the end of the circle as one."""
    arcs = list(seen.arcs)
    if len(arcs) > 1 and arcs[0][0] == 0 and sum(arcs[-1][:2]) > seen.period_s * (1 - 1e-9):
        (_, first_s, one), (start_s, last_s, other) = arcs[0], arcs.pop()
        arcs[0] = (start_s - seen.period_s, first_s + last_s, (one * first_s + other * last_s) / (first_s + last_s))
    ends = [arcs[-1][0] + arcs[-1][1] - seen.period_s, *(start + length for start, length, _ in arcs)]
    found = [(max(0.0, arc[0] - end), arc[1], arc[2]) for arc, end in zip(arcs, ends, strict=False)]
    first = max(range(len(found)), key=lambda k: found[k][0])
    return found[first:] + found[:first]


def is_counters(line: str) -> bool:
    """Whether a file that begins with this line has counters: the names of the two columns, or two numbers."""
    fields = [field.strip() for field in line.split(",")]
    return fields == ["time_s", "bytes"] or (len(fields) == 2 and all(map(_is_number, fields)))


def read_counters(path: str | Path) -> Counted:
    """The period of a series in a CSV file whose columns are time in seconds and a counter of bytes that only grows."""
    return parse_counters(read_text(path), path)


def parse_counters(text: str, path: str | Path) -> Counted:
    """The same of the text of a file."""
    rows = [row for row in csv.reader(text.splitlines()) if row and "".join(row).strip()]
    if rows and not _is_number(rows[0][0]):
        rows = rows[1:]
    found = []
    for n, row in enumerate(rows, 1):
        if len(row) != 2 or not all(map(_is_number, row)):
            raise InputError(f"{path}: row {n} is {','.join(row)!r}; give time in seconds and bytes counted so far")
        found.append((float(row[0]), float(row[1])))
    series = np.array(found, dtype=np.float64).reshape(-1, 2)
    return period_of(series[:, 0], series[:, 1], str(path))


def period_of(at_s: Array, counted: Array, path: str = "counters") -> Counted:
    """The same for arrays."""
    if len(at_s) < _FEWEST_BINS:
        raise InputError(f"{path}: it has {len(at_s)} readings; a period needs at least {_FEWEST_BINS}")
    if (np.diff(at_s) <= 0).any() or (np.diff(counted) < 0).any():
        raise InputError(
            f"{path}: times must grow and bytes must not shrink; give the counter from one start to its end"
        )
    bins = min(_MOST_BINS, max(_FEWEST_BINS, int((at_s[-1] - at_s[0]) / float(np.median(np.diff(at_s))))))
    edges = np.linspace(at_s[0], at_s[-1], bins + 1)
    bin_s = float(edges[1] - edges[0])
    rate = np.diff(np.interp(edges, at_s, counted)) / bin_s
    lag, height = _first_peak(_autocorrelation(rate), path)
    period_s = lag * bin_s
    periods = (at_s[-1] - at_s[0]) / period_s
    return Counted(period_s, height, periods, _arcs(rate, lag, period_s))


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _autocorrelation(rate: Array) -> Array:
    """Of the rate less its mean, for each lag over the bins that overlap; 1 at lag 0."""
    n = len(rate)
    apart = rate - rate.mean()
    spectrum = np.fft.rfft(apart, 2 * n)
    sums = np.fft.irfft(spectrum * spectrum.conj(), 2 * n)[: n // 2]
    means = sums / (n - np.arange(n // 2))
    varies = rate.std() > 1e-6 * rate.mean()  # else what differs is rounding
    return np.asarray(means / means[0] if varies else np.zeros_like(means))


def _first_peak(found: Array, path: str) -> tuple[float, float]:
    """The lag of the period in bins, finer than a bin, and the autocorrelation there."""
    below = np.flatnonzero(found < 0)
    start = int(below[0]) if len(below) else len(found)
    usable = found[: 2 * len(found) // _FEWEST_PERIODS]
    inner = np.flatnonzero((usable[1:-1] >= usable[:-2]) & (usable[1:-1] > usable[2:])) + 1
    peaks = inner[inner > start]
    highest = float(found[peaks].max()) if len(peaks) else 0.0
    if highest < LEAST:
        raise InputError(
            f"{path}: it has no period (autocorrelation {highest:.2f}, {LEAST} is needed, over at least "
            f"{_FEWEST_PERIODS} periods); count one job alone, for longer or more often"
        )
    first = int(peaks[found[peaks] >= _NEARLY * highest][0])
    lag, times = _finer(found, first), 1
    while (times + 1) * lag + 1 < len(usable):  # a peak k periods on says the period to the k-th part of a bin
        near = round((times + 1) * lag)
        reach = max(1, first // 8)
        best = near - reach + int(np.argmax(found[near - reach : min(len(found) - 1, near + reach + 1)]))
        if found[best] < LEAST or not 0 < best < len(found) - 1:
            break
        times += 1
        lag = _finer(found, best) / times
    return lag, float(found[first])


def _finer(found: Array, k: int) -> float:
    """Where the parabola through a peak and its neighbours is highest."""
    left, top, right = (float(each) for each in found[k - 1 : k + 2])
    bent = left - 2.0 * top + right
    return k + (0.5 * (left - right) / bent if bent < 0 else 0.0)


def _arcs(rate: Array, lag: float, period_s: float) -> tuple[tuple[float, float, float], ...]:
    """The mean rate over all periods in steps of the circle; steps above the background that touch are one arc."""
    steps = max(4, min(_STEPS, int(lag)))
    step = ((np.arange(len(rate)) % lag) / lag * steps).astype(np.int64) % steps
    mean = np.bincount(step, rate, steps) / np.maximum(1, np.bincount(step, minlength=steps)) * 8e-9
    sends = mean > _QUIET * mean.max()
    arcs, k = [], 0
    while k < steps:
        end = k
        while end < steps and sends[end]:
            end += 1
        if end > k:
            arcs.append((k * period_s / steps, (end - k) * period_s / steps, float(mean[k:end].mean())))
        k = end + 1
    return tuple(arcs)
