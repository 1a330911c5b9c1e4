"""Fit of the contention model T = a + k b M + (k - 1) eta M to all-reduce timings (Ada-SRSF paper, section III).

T: seconds of an all-reduce of M bytes while k of them share the nodes; a: latency; b: seconds per byte alone; eta: what
each further task costs beyond its fair share. T is linear in (a, b, eta), so they are found by least squares; none of
them is negative, so all are bounded below by zero.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from weft.errors import InputError, TraceError
from weft.workload.profiles.layers import read_text

_COLUMNS = ("job_num", "msg_size", "avg_latency")
_SENSIBLE = {"job_num": (1, 1e6), "msg_size": (1e-3, 1e18), "avg_latency": (1e-3, 1e15)}
_US = 1e-6
_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sample:
    """One timing: `k` all-reduces of `bytes` at once took `seconds`."""

    k: int
    bytes: float
    seconds: float


@dataclass(frozen=True)
class AllReduceFit:
    """The constants with 95 % intervals, and how well they describe the timings.

    Where all timings have the same k, b and eta cannot be told apart: eta is None and b covers both. Intervals are
    those of linear regression (None where there are no timings to spare, or the constant is held at zero).
    """

    a_s: float
    b_s_per_byte: float
    eta_s_per_byte: float | None
    ci95: dict[str, tuple[float, float] | None]
    r2: float
    rmse_s: float
    max_relative_error: float
    samples: tuple[Sample, ...]
    residuals_s: tuple[float, ...]
    weighted: bool

    def predict_s(self, k: int, message_bytes: float) -> float:
        """Seconds of one of k all-reduces of `message_bytes`."""
        eta = self.eta_s_per_byte or 0.0
        return self.a_s + (k * self.b_s_per_byte + (k - 1) * eta) * message_bytes

    @property
    def threshold(self) -> float | None:
        """AdaDUAL's threshold on the ratio of remaining to new bytes, 2 (b + eta) / b."""
        if self.eta_s_per_byte is None or self.b_s_per_byte <= 0:
            return None
        return 2 * (self.b_s_per_byte + self.eta_s_per_byte) / self.b_s_per_byte


def read_allreduce(path: str | Path) -> tuple[Sample, ...]:
    """Timings from a CSV with the columns job_num, msg_size (bytes) and avg_latency (microseconds)."""
    reader = csv.DictReader(io.StringIO(read_text(path)))
    try:
        header = [name.strip() for name in reader.fieldnames or []]
        missing = [name for name in _COLUMNS if name not in header]
        if missing:
            raise TraceError(f"{path}: line 1: no column {missing[0]}; the columns are {', '.join(_COLUMNS)}")
        reader.fieldnames = header
        found = tuple(_sample(row, f"{path}: line {reader.line_num}") for row in reader)
    except csv.Error as error:
        raise TraceError(f"{path}: line {reader.line_num}: {error}; give a plain CSV file") from error
    if not found:
        raise TraceError(f"{path}: it has no timings; add rows below its header")
    return found


def fit_allreduce(samples: Sequence[Sample], *, max_k: int | None = None, weighted: bool = True) -> AllReduceFit:
    """Least squares for a, b and eta.

    `max_k` leaves out timings with more tasks (the paper's scheduler allows two). `weighted` counts relative errors:
    timings span two decades and scatter in proportion to their size, so absolute ones would let the longest decide.
    """
    from scipy.optimize import lsq_linear

    used = tuple(s for s in samples if max_k is None or s.k <= max_k)
    several = len({s.k for s in used}) > 1
    names = ("a_s", "b_s_per_byte", "eta_s_per_byte") if several else ("a_s", "b_s_per_byte")
    if len({(s.k, s.bytes) for s in used}) < len(names):
        raise InputError(f"all-reduce timings: {len(used)} rows cannot fix {len(names)} constants; give more sizes")
    rows = [(1.0, s.k * s.bytes, (s.k - 1) * s.bytes)[: len(names)] for s in used]
    matrix, target = np.array(rows, dtype=np.float64), np.array([s.seconds for s in used])
    weights = 1 / target if weighted else np.ones(len(used))
    scale = np.abs(matrix).max(axis=0)  # columns of one size keep the problem well conditioned
    scaled, goal = matrix / scale * weights[:, None], target * weights
    if np.linalg.matrix_rank(scaled) < len(names):
        raise InputError("all-reduce timings: all have one message size; a and b need at least two sizes")
    solution = lsq_linear(scaled, goal, bounds=(0, np.inf), method="bvls")
    values = solution.x / scale
    residuals = target - matrix @ values
    total = float(((target - target.mean()) ** 2).sum())
    return AllReduceFit(
        float(values[0]),
        float(values[1]),
        float(values[2]) if several else None,
        _intervals(names, values, scaled, goal - scaled @ solution.x, scale),
        1 - float((residuals**2).sum()) / total if total > 0 else math.nan,
        float(np.sqrt((residuals**2).mean())),
        float(np.abs(residuals / target).max()),
        used,
        tuple(float(r) for r in residuals),
        weighted,
    )


def _intervals(
    names: Sequence[str], values: _Floats, matrix: _Floats, residuals: _Floats, scale: _Floats
) -> dict[str, tuple[float, float] | None]:
    """95 % intervals of linear regression: value ± t s sqrt((X'X)^-1)."""
    from scipy.stats import t

    spare = matrix.shape[0] - matrix.shape[1]
    if spare < 1:
        return dict.fromkeys(names)
    variance = float((residuals**2).sum()) / spare
    deviation = np.sqrt(np.diag(np.linalg.inv(matrix.T @ matrix)) * variance) / scale * float(t.ppf(0.975, spare))
    return {
        name: (float(v - d), float(v + d)) if v > 0 else None
        for name, v, d in zip(names, values, deviation, strict=True)
    }


def _sample(row: dict[str, str], where: str) -> Sample:
    values = []
    for name in _COLUMNS:
        try:
            value = float(row.get(name) or "")
        except (TypeError, ValueError):
            value = math.nan
        if not 0 < value < math.inf:
            raise TraceError(f"{where}: {name} is {row.get(name)!r}; it must be a number above 0")
        low, high = _SENSIBLE[name]
        if not low <= value <= high:  # beyond these the arithmetic of the fit would overflow
            raise TraceError(f"{where}: {name} is {row.get(name)!r}; it must be between {low:g} and {high:g}")
        values.append(value)
    k, size, latency = values
    if k != int(k):
        raise TraceError(f"{where}: job_num is {k}; it must be a whole number")
    return Sample(int(k), size, latency * _US)
