"""Measured: what a profiler saw of one model at one batch size on one device. Plain values, no heavy imports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.model.units import MIB

PRECISIONS = ("fp32", "tf32", "bf16")  # precisions in which times can be asked for
MODES = ("as-is", *PRECISIONS)  # how times can be measured; as-is leaves torch's settings alone

DDP_BUCKET_BYTES = 25 * MIB  # PyTorch DistributedDataParallel's bucket_cap_mb
DDP_FIRST_BUCKET_BYTES = 1 * MIB  # and its smaller first bucket, so that sending starts early

QUARTILES_NEED = 4  # this many values; fewer have no meaningful spread


@dataclass(frozen=True, slots=True)
class Bucket:
    """Gradients that are sent as one message: its bytes, and when it is ready after the start of the backward pass."""

    bytes: float
    ready_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians over `repeats` iterations. `gradient_bytes` are what data parallelism sends; sparse ones are apart."""

    gpu: str
    dtype: str
    batch: int
    forward_s: float
    backward_s: float
    optimiser_s: float
    buckets: tuple[Bucket, ...]
    params: int
    gradient_bytes: float
    sparse_bytes: float = 0.0
    memory_bytes: float = 0.0
    spread: float = 0.0  # (third quartile - first) / median of iteration times; 0 below 4 repeats, see `known_spread`
    repeats: int = 0
    date: str = ""
    software: str = ""
    library: str = ""  # who defined the model: torchvision, transformers, weft, or the user
    sample: str = ""

    @property
    def known_spread(self) -> float | None:
        """The spread, or None where too few iterations were timed to have quartiles."""
        return self.spread if self.repeats >= QUARTILES_NEED else None


def bucket_groups(
    sizes: Iterable[float], cap_bytes: float = DDP_BUCKET_BYTES, first_bytes: float = DDP_FIRST_BUCKET_BYTES
) -> tuple[tuple[int, ...], ...]:
    """Indices of gradients (in the order they become ready) by bucket: a bucket closes once it reaches its limit.

    This is PyTorch DDP's rule after its first iteration, when buckets are rebuilt in the order of arrival: the limit is
    `first_bytes` for the first bucket and `cap_bytes` for the others, and the tensor that crosses it is still inside.
    """
    groups: list[tuple[int, ...]] = []
    group: list[int] = []
    filled, limit = 0.0, first_bytes
    for i, size in enumerate(sizes):
        group.append(i)
        filled += size
        if filled >= limit:
            groups.append(tuple(group))
            group, filled, limit = [], 0.0, cap_bytes
    if group:
        groups.append(tuple(group))
    return tuple(groups)


def bucket(
    sizes: Sequence[float], ready_s: Sequence[float], cap_bytes: float, first_bytes: float
) -> tuple[Bucket, ...]:
    """Buckets of gradients given in the order they become ready; a bucket is ready when its last gradient is."""
    return tuple(
        Bucket(sum(sizes[i] for i in group), max(ready_s[i] for i in group))
        for group in bucket_groups(sizes, cap_bytes, first_bytes)
    )
