"""Pipeline stages: which layers go together, and in what order a stage works on micro-batches."""

from __future__ import annotations

from dataclasses import dataclass

from weft.errors import InputError
from weft.workload.graphs.work import LayerWork, Work

__all__ = ["SCHEDULES", "Stage", "cut", "order", "summed_layers"]

SCHEDULES = ("gpipe", "1f1b")


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers on one group of workers. Bytes and seconds are of the whole batch on one GPU."""

    forward_s: float
    backward_s: float
    gradient_bytes: float
    summed_bytes: float  # activations that tensor-parallel workers sum in one forward pass (as many in the backward)
    output_bytes: float  # what it hands to the next stage


def cut(work: Work, count: int) -> tuple[Stage, ...]:
    """`count` stages of consecutive layers whose slowest is as fast as possible.

    A stage hands on the output of its last layer; in models with branches (ResNet, Inception) that is an approximation
    where a cut falls inside a block. The last stage of a model whose embedding is tied keeps a copy of it.
    """
    layers = work.layers
    if not 1 <= count <= len(layers):
        raise InputError(f"model {work.name!r}: {count} pipeline stages for {len(layers)} layers; use at most as many")
    summed = summed_layers(layers)
    stages = []
    for first, last in _balanced([x.forward_s + x.backward_s for x in layers], count):
        part = layers[first:last]
        stages.append(
            Stage(
                sum(x.forward_s for x in part),
                sum(x.backward_s for x in part),
                sum(x.gradient_bytes for x in part) + (work.tied_bytes if count > 1 and last == len(layers) else 0.0),
                sum(x.activation_bytes for i, x in enumerate(part, first) if i in summed),
                part[-1].activation_bytes,
            )
        )
    return tuple(stages)


def summed_layers(layers: tuple[LayerWork, ...]) -> frozenset[int]:
    """Layers after which tensor-parallel workers sum their parts.

    The halves of transformer blocks (Megatron-LM). In other models layers are paired, the first split by outputs and
    the second by inputs, so the sum comes after every second layer.
    """
    marked = frozenset(i for i, layer in enumerate(layers) if layer.summed)
    return marked or frozenset(range(1, len(layers), 2))


def order(schedule: str, stage: int, stages: int, micro_batches: int) -> list[tuple[str, int]]:
    """What one stage does in turn: ("forward" or "backward", micro-batch).

    gpipe: all forward passes, then all backward passes (Huang et al. 2019). 1f1b: as many forward passes ahead as there
    are stages to the end, then one backward, one forward (PipeDream with a flush, Narayanan et al. 2021).
    """
    if schedule not in SCHEDULES:
        raise InputError(f"pipeline schedule {schedule!r} is not known; use one of {', '.join(SCHEDULES)}")
    ahead = micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
    steps = [("forward", i) for i in range(ahead)]
    for i in range(micro_batches):
        steps.append(("backward", i))
        if ahead + i < micro_batches:
            steps.append(("forward", ahead + i))
    return steps


def _balanced(times: list[float], count: int) -> list[tuple[int, int]]:
    """Cut a list into `count` runs so that the largest sum is smallest (dynamic programming over ends)."""
    n = len(times)
    prefix = [0.0]
    for t in times:
        prefix.append(prefix[-1] + t)
    best = [[float("inf")] * (n + 1) for _ in range(count + 1)]
    back = [[0] * (n + 1) for _ in range(count + 1)]
    best[0][0] = 0.0
    for k in range(1, count + 1):
        for end in range(k, n - (count - k) + 1):
            for start in range(k - 1, end):
                slowest = max(best[k - 1][start], prefix[end] - prefix[start])
                if slowest < best[k][end]:
                    best[k][end], back[k][end] = slowest, start
    cuts, end = [], n
    for k in range(count, 0, -1):
        cuts.append((back[k][end], end))
        end = back[k][end]
    return cuts[::-1]
