"""Goodput: how much training progress a job makes per second on some GPUs (Qiao et al., Pollux, OSDI 2021, section 3).

goodput = throughput x statistical efficiency. An iteration takes (T_grad^g + T_sync^g)^(1/g): T_grad is linear in the
samples of one replica, T_sync is 0 for one replica and otherwise linear in their number, with one line for replicas on
one node and one for replicas on several; g says how far the two overlap (1: not at all). Efficiency of a batch of m
samples is (phi + m0) / (phi + m), phi the gradient noise scale and m0 the batch that the user asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

__all__ = ["Goodput", "efficiency", "fit_throughput"]

_GAMMAS = (1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def efficiency(noise_scale: float, asked: float, batch: float) -> float:
    """Progress per sample at some batch, relative to that at the batch asked for."""
    return (noise_scale + asked) / (noise_scale + batch)


@dataclass(frozen=True)
class Goodput:
    """The fitted model of a job. `sync` has the line (constant, per replica beyond two) on one node and on several."""

    grad: tuple[float, float]  # seconds, and seconds per sample of a replica
    sync: tuple[tuple[float, float], tuple[float, float]]
    gamma: float
    noise_scale: float
    asked: float  # m0, samples per iteration

    def iteration_s(self, replicas: int, several_nodes: bool, batch: float) -> float:
        """Time of an iteration of `batch` samples in all."""
        grad = self.grad[0] + self.grad[1] * batch / replicas
        if replicas == 1:
            return grad
        constant, slope = self.sync[several_nodes]
        sync = max(0.0, constant + slope * (replicas - 2))
        return float((grad**self.gamma + sync**self.gamma) ** (1.0 / self.gamma))

    def goodput(self, replicas: int, several_nodes: bool, batch: float) -> float:
        """Samples per second, each worth its efficiency."""
        if replicas == 0:
            return 0.0
        throughput = batch / max(self.iteration_s(replicas, several_nodes, batch), 1e-12)
        return throughput * efficiency(self.noise_scale, self.asked, batch)


# (replicas, several nodes?) -> (samples per replica, compute s, iteration s), as measured
Measured = Mapping[tuple[int, bool], tuple[float, float, float]]


def fit_throughput(measured: Measured, asked: float, noise_scale: float) -> Goodput:
    """Least squares on what has been measured of a job; a line with one point is constant."""
    grad = _line([(samples, compute) for samples, compute, _ in measured.values()])
    best: tuple[float, Goodput] | None = None
    for gamma in _GAMMAS:
        lines = tuple(_line(_sync_points(measured, several, gamma)) for several in (False, True))
        model = Goodput(grad, (lines[0], lines[1]), gamma, noise_scale, asked)
        error = sum(
            (model.iteration_s(n, several, samples * n) / total - 1.0) ** 2
            for (n, several), (samples, _, total) in measured.items()
            if total > 0
        )
        if best is None or error < best[0] - 1e-15:
            best = error, model
    assert best is not None
    return best[1]


def _sync_points(measured: Measured, several: bool, gamma: float) -> list[tuple[float, float]]:
    points = []
    for (n, where), (_, compute, total) in measured.items():
        if n > 1 and where == several:
            points.append((float(n - 2), max(0.0, total**gamma - compute**gamma) ** (1.0 / gamma)))
    return points


def _line(points: list[tuple[float, float]]) -> tuple[float, float]:
    if not points:
        return 0.0, 0.0
    x, y = np.array(points).T
    if np.ptp(x) <= 0:
        return float(y.mean()), 0.0
    slope, constant = np.polyfit(x, y, 1)
    if constant < 0 or slope < 0:  # neither is physical: the better of the two with one of them 0
        through = float((x @ y) / (x @ x))
        flat = float(y.mean())
        if slope < 0 or ((through * x - y) ** 2).sum() > ((flat - y) ** 2).sum():
            return flat, 0.0
        return 0.0, through
    return float(constant), float(slope)
