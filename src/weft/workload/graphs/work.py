"""Work: one iteration of a model on one GPU, layer by layer, before anyone has decided how to parallelise it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.model.profile import Profile, Task

if TYPE_CHECKING:
    from weft.workload.zoo.entry import Layer, Timing


@dataclass(frozen=True, slots=True)
class LayerWork:
    """A layer's share of the iteration: seconds, gradient bytes per tensor, bytes that it hands to the next layer."""

    name: str
    forward_s: float
    backward_s: float
    gradients: tuple[float, ...]
    activation_bytes: float
    summed: bool = False
    tied_bytes: float = 0.0
    sharded: bool = False

    @property
    def gradient_bytes(self) -> float:
        """Bytes of its gradients."""
        return sum(self.gradients)


@dataclass(frozen=True)
class Work:
    """One iteration on one GPU. `buckets`: (bytes, ready after the start of the backward pass), where measured."""

    name: str
    layers: tuple[LayerWork, ...]
    batch: int
    optimiser_s: float = 0.0
    buckets: tuple[tuple[float, float], ...] = ()
    memory_bytes: float = 0.0
    gpu: str = ""
    source: str = ""
    memory_source: str = ""

    @property
    def forward_s(self) -> float:
        """Seconds of the forward pass."""
        return sum(layer.forward_s for layer in self.layers)

    @property
    def backward_s(self) -> float:
        """Seconds of the backward pass."""
        return sum(layer.backward_s for layer in self.layers)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients, embedding tables that workers own included."""
        return sum(layer.gradient_bytes for layer in self.layers)

    @property
    def tied_bytes(self) -> float:
        """Bytes of gradients that the first and the last layer share."""
        return sum(layer.tied_bytes for layer in self.layers)

    def with_gradients(self, gradient_bytes: float) -> Work:
        """The same with gradients of another total size, in the same proportions (a paper's own size)."""
        ratio = gradient_bytes / self.gradient_bytes if self.gradient_bytes else 0.0
        layers = tuple(
            replace(x, gradients=tuple(g * ratio for g in x.gradients), tied_bytes=x.tied_bytes * ratio)
            for x in self.layers
        )
        return replace(self, layers=layers, buckets=tuple((size * ratio, ready) for size, ready in self.buckets))

    def profile(
        self, tasks: Sequence[Task], workers: int, memory_bytes: float | None = None, memory_note: str = ""
    ) -> Profile:
        """A profile of this work: the tasks of one way to parallelise it. `memory_note`: what became of its memory."""
        memory = self.memory_bytes if memory_bytes is None else memory_bytes
        said = f"{self.memory_source}; {memory_note}" if memory_note and self.memory_source else self.memory_source
        return Profile(self.name, tuple(tasks), workers, memory, self.batch, self.gpu, self.source, said)


def work(name: str, layers: Sequence[Layer], timing: Timing, gradient_dtype_bytes: int = 4) -> Work:
    """Layers with the times of a whole iteration, shared out in proportion to their floating-point operations.

    Activations have the precision of the computation: two bytes in bf16, four otherwise.
    """
    total = sum(layer.flops for layer in layers)
    width = 2 if timing.dtype.startswith("bf16") else 4
    found = []
    for layer in layers:
        share = layer.flops / total if total else 1 / len(layers)
        found.append(
            LayerWork(
                layer.name,
                timing.forward_s * share,
                timing.backward_s * share,
                tuple(float(gradient_dtype_bytes * n) for n in layer.tensors),
                float(width * layer.activation * timing.batch),
                layer.summed,
                float(gradient_dtype_bytes * layer.tied),
                layer.sharded,
            )
        )
    return Work(
        name, tuple(found), timing.batch, timing.optimiser_s, timing.buckets, timing.memory_bytes, timing.gpu,
        timing.source, timing.memory_source,
    )  # fmt: skip
