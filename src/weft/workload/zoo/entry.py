"""Layer, Timing, Sized and Model: what the zoo knows about one architecture, and where it knows it from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["FP32_BYTES", "Layer", "Model", "Published", "Timing"]

FP32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer with parameters: the sizes of its gradient tensors, and what a sample costs in its forward pass.

    `tensors` are element counts (weight, bias, scale, ...) in the order the architecture declares them. `flops` counts
    a multiply and an add as two; `activation` is the number of elements that the layer hands on per sample.
    """

    name: str
    tensors: tuple[int, ...]
    flops: float = 0.0
    activation: int = 0

    @property
    def params(self) -> int:
        """Number of parameters."""
        return sum(self.tensors)


@dataclass(frozen=True, slots=True)
class Timing:
    """A measured forward and backward time of one iteration, per GPU, with its source."""

    gpu: str
    batch: int
    forward_s: float
    backward_s: float
    source: str
    memory_bytes: float = 0.0  # of one worker, 0 if the source does not say
    dtype: str = "fp32"


@dataclass(frozen=True, slots=True)
class Published:
    """A paper's own numbers for a model where they differ from the architecture's: a *variant*, `model@variant`.

    Kept apart so that a paper is reproduced with what it used: `gradient_bytes` replaces the sum over layers.
    """

    variant: str
    source: str
    timing: Timing
    gradient_bytes: float
    transfer_s: float = 0.0  # > 0: the paper's Up phase, at `transfer_gbps`
    transfer_gbps: float = 0.0


@dataclass(frozen=True)
class Model:
    """One architecture of the zoo. Layers are in the order of the forward pass."""

    name: str
    title: str
    kind: str  # vision, language, recommendation
    build: Callable[[], tuple[Layer, ...]] = field(repr=False, compare=False)
    source: str  # of the architecture
    batch: int  # the usual one, per worker
    batch_range: tuple[int, int]
    batch_source: str = ""
    aliases: tuple[str, ...] = ()
    timings: tuple[Timing, ...] = ()
    variants: tuple[Published, ...] = ()

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Its layers, built when first asked for."""
        return self.build()

    @property
    def params(self) -> int:
        """Number of parameters."""
        return sum(layer.params for layer in self.layers)

    @property
    def gradient_bytes(self) -> float:
        """Bytes of all gradients of one iteration, in single precision."""
        return float(FP32_BYTES * self.params)

    @property
    def flops(self) -> float:
        """Floating-point operations of one sample's forward pass."""
        return sum(layer.flops for layer in self.layers)
