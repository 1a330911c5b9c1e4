"""Layer, Timing, Published and Model: what the zoo knows about one architecture, and where it knows it from. Gpu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from weft.errors import InputError


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer with parameters: the sizes of its gradient tensors, and what a sample costs in its forward pass.

    `tensors` are element counts (weight, bias, scale, ...) in the order the architecture declares them. `flops` counts
    a multiply and an add as two; `activation` is the number of elements that the layer hands on per sample.
    `summed`: split over tensor-parallel workers, its output is a sum over them (an all-reduce). `tied` elements of it
    are shared with the output layer. `sharded`: embedding tables, each worker owns some of them. `frozen` elements
    are parameters without a gradient (of a model that is fine-tuned with adapters).

    The rest is for the times of a step, per sample too: operations of `attention` among `flops` (all pairs of tokens;
    with a `causal` mask half of them are done), elements `between` its matrices, keys and values that its tokens need
    of others (`context`), elements that all its experts hold (`expert_params`, among `tensors`), and elements that go
    to experts and come back (`sent`). It cannot be split finer than its attention's `heads` and `kv_heads`, its
    `tokens`, or its `experts`.
    """

    name: str
    tensors: tuple[int, ...]
    flops: float = 0.0
    activation: int = 0
    summed: bool = False
    tied: int = 0
    sharded: bool = False
    frozen: int = 0
    attention: float = 0.0
    causal: bool = False
    between: int = 0
    context: int = 0
    expert_params: int = 0
    sent: int = 0
    heads: int = 0
    kv_heads: int = 0
    tokens: int = 0
    experts: int = 0

    @property
    def trained(self) -> int:
        """Number of parameters with a gradient."""
        return sum(self.tensors)

    @property
    def params(self) -> int:
        """Number of parameters."""
        return self.trained + self.frozen


@dataclass(frozen=True, slots=True)
class Timing:
    """Forward and backward time of one iteration on one GPU type, with its source.

    `buckets` are (bytes, seconds after the start of the backward pass) of the gradients, where somebody measured them.
    """

    gpu: str
    batch: int
    forward_s: float
    backward_s: float
    source: str
    dtype: str = "fp32"
    memory_bytes: float = 0.0  # bytes of one worker; 0 if the source does not say
    optimiser_s: float = 0.0
    buckets: tuple[tuple[float, float], ...] = ()
    estimated: bool = False
    memory_source: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """A paper's own numbers for a model where they differ from the architecture's: a *variant*, `model@variant`.

    Kept apart so that a paper is reproduced with what it used. `gradient_bytes` replaces the sum over layers. A
    variant with `up_s` is one that a paper shows as a circle: after the forward pass (Down) the wire is busy for
    `up_s` at `up_gbps`, whatever the number of workers.
    """

    variant: str
    timing: Timing
    gradient_bytes: float = 0.0
    up_s: float = 0.0
    up_gbps: float = 0.0


@dataclass(frozen=True)
class Model:
    """One architecture of the zoo. Layers are in the order of the forward pass."""

    name: str
    title: str
    build: Callable[[], tuple[Layer, ...]] = field(repr=False, compare=False)
    source: str  # where the architecture comes from
    batch: int  # the usual one, per worker
    batch_range: tuple[int, int]
    batch_source: str
    aliases: tuple[str, ...] = ()
    sample: str = "image of 224 x 224"
    kind: str = "vision"  # or language, recommendation
    parallel: str = "data"  # the usual scheme
    gradient_dtype_bytes: int = 4
    memory_bytes: float = 0.0  # bytes of one replica at any batch of the range, where a paper states it
    memory_source: str = ""
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
        """Bytes of all gradients of one iteration."""
        return float(self.gradient_dtype_bytes * sum(layer.trained for layer in self.layers))

    @property
    def flops(self) -> float:
        """Floating-point operations of one sample's forward pass."""
        return sum(layer.flops for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU type. `tflops` is its dense peak by precision: fp32 (without tensor cores), tf32, bf16 (or fp16), fp8, fp4.

    `link_gb_per_s` is one direction of its links to other GPUs of its machine; `sheet` is the vendor's data sheet.
    """

    name: str
    memory_gb: float
    fp32_tflops: float
    tf32_tflops: float
    bf16_tflops: float
    memory_gb_per_s: float
    aliases: tuple[str, ...] = ()
    fp8_tflops: float = 0.0
    fp4_tflops: float = 0.0
    link_gb_per_s: float = 0.0
    sheet: str = ""

    def tflops(self, dtype: str) -> float:
        """Peak rate in a precision; a GPU without it computes in single precision, but none without fp8 in fp8."""
        if dtype in ("fp8", "fp4"):
            peak = self.fp8_tflops if dtype == "fp8" else self.fp4_tflops
            if not peak:
                raise InputError(f"gpu {self.name} has no {dtype}; use bf16 or fp32, or another GPU type")
            return peak
        if dtype.startswith("bf16"):
            return self.bf16_tflops or self.fp32_tflops
        if dtype == "tf32":
            return self.tf32_tflops or self.fp32_tflops
        return self.fp32_tflops

    @property
    def dtype(self) -> str:
        """The precision people train in on it: mixed with bf16 where there is bf16, single elsewhere."""
        return "bf16" if self.tf32_tflops else "fp32"
