"""How long a layer takes on one GPU of a layout, and what it keeps in memory: a roofline.

A layer's matrix products take their operations over the rate that large ones reach, or the time to read their
weights, whichever is longer. Attention has a rate of its own. Everything between (norms, rotations, activation
functions, residuals, casts to narrow types) reads and writes memory. Each kernel costs a little besides. A backward
pass has twice the products (once, where weights are frozen), 2.5 times the attention, which computes its scores
again, and twice of all else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.workload.graphs.layout import Layout

if TYPE_CHECKING:
    from weft.workload.zoo.entry import Layer

# Bytes through memory per element of what a layer hands on: a norm and a residual (read, write in bf16), a cast and
# its transposed copy. Per element between its matrices: an activation function or a rotation, and the next cast.
STREAM_BYTES, BETWEEN_BYTES = 14.0, 4.0
KERNELS = 6  # of half a block's forward pass
EXPERT_KERNELS = 6  # more where tokens are sorted by expert and back
OPTIMISER_BYTES = 30.0  # of a parameter through memory: gradient, weight in single precision, two moments; written back
STATE_BYTES = 12.0  # a weight in single precision and two moments
BACK_ATTENTION, BACK_REST = 2.5, 2.0


@dataclass(frozen=True, slots=True)
class Rates:
    """What a GPU type reaches: operations per second of large products in the asked precision, of those that stay in
    bf16 and of attention; bytes per second of memory; seconds that each kernel and each step cost besides. `width` is
    bytes of a matrix element in that precision. `exposed` is the share of a message that goes beside computing and
    shows nevertheless: its first and last pieces hide behind nothing, and it takes cores and memory from computing."""

    gpu: str
    dtype: str
    products: float
    plain: float
    attention: float
    bytes_per_s: float
    kernel_s: float
    step_s: float
    width: float
    exposed: float = 0.0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a run of layers on one GPU of a layout: seconds of a micro-batch in both passes, and bytes.

    `weights` are elements on this GPU, `trained` those with a gradient, `experts` those of them that belong to experts,
    `expert_weights` those of the weights;
    `summed`, `context` and `routed` are bytes of a message: of tensor-parallel sums, of keys and values, of tokens to
    experts; `output` is handed on, `kept` stays until the backward pass; `recomputed` is what
    the largest block keeps while it is computed once more.
    """

    forward_s: float = 0.0
    backward_s: float = 0.0
    weights: float = 0.0
    trained: float = 0.0
    experts: float = 0.0
    expert_weights: float = 0.0
    summed: float = 0.0
    context: float = 0.0
    routed: float = 0.0
    output: float = 0.0
    kept: float = 0.0
    recomputed: float = 0.0

    def then(self, other: Cost) -> Cost:
        """This run and then another."""
        return Cost(
            self.forward_s + other.forward_s, self.backward_s + other.backward_s, self.weights + other.weights,
            self.trained + other.trained, self.experts + other.experts,
            self.expert_weights + other.expert_weights, self.summed + other.summed,
            self.context + other.context, self.routed + other.routed, other.output, self.kept + other.kept,
            max(self.recomputed, other.recomputed),
        )  # fmt: skip


def cost(layer: Layer, samples: float, layout: Layout, rates: Rates) -> Cost:
    """One layer and `samples` samples of a micro-batch on each worker of a layout."""
    tensor, share = layout.tensor, samples / layout.context
    stream = layer.activation * share / (tensor if layout.sequence else 1)
    if not layer.between and not layer.summed:
        stream = layer.activation * share
    is_head = bool(layer.between) and not layer.summed  # the products with the vocabulary, which stay in bf16
    between = layer.between * share / tensor
    if is_head:
        stream = 0.0
    weights = layer.params / tensor - layer.expert_params / tensor * (1 - 1 / layout.expert)
    products = (layer.flops - layer.attention) * share / tensor
    attention = layer.attention * (0.5 if layer.causal else 1.0) * share / tensor
    rate = rates.plain if is_head or not layer.summed else rates.products
    read_s = weights * (2.0 if rate == rates.plain else rates.width) / rates.bytes_per_s if layer.flops else 0.0
    once_s = max(products / rate, read_s)
    rest_s = (STREAM_BYTES * stream + BETWEEN_BYTES * between) / rates.bytes_per_s
    rest_s += (KERNELS + EXPERT_KERNELS * bool(layer.expert_params)) * rates.kernel_s
    forward_s = once_s + attention / rates.attention + rest_s
    backward_s = once_s * (1 if layer.frozen else 2) + BACK_ATTENTION * attention / rates.attention + BACK_REST * rest_s
    if layout.recompute == "full" and layer.summed:
        backward_s += forward_s
    whole = layer.activation * share * 2.0
    ours = layer.trained / layer.params if layer.params else 0.0
    kept = 4.0 * stream + 2.0 * between
    return Cost(
        forward_s, backward_s, weights, weights * ours, layer.expert_params / tensor / layout.expert * ours,
        layer.expert_params / tensor / layout.expert,
        whole if layer.summed else 0.0, layer.context * samples * 2.0 / tensor, layer.sent * share * 2.0 / tensor,
        whole / (tensor if layout.sequence else 1), kept,
    )  # fmt: skip


def units(layers: tuple[Layer, ...]) -> list[list[Layer]]:
    """What a pipeline may be cut between: blocks whole, other layers one by one."""
    found: list[list[Layer]] = []
    for layer in layers:
        block, dot, _ = layer.name.rpartition(".")
        if found and dot and layer.summed and found[-1][0].name.rpartition(".")[0] == block:
            found[-1].append(layer)
        else:
            found.append([layer])
    return found


def cut(seconds: list[float], count: int) -> list[tuple[int, int]]:
    """`count` runs of consecutive units.

    Equally many each, where that comes out even (the embedding and the output count as a block, as in Megatron-LM);
    else so that the slowest is as fast as possible.
    """
    n = len(seconds)
    if n % count == 0:
        return [(k * n // count, (k + 1) * n // count) for k in range(count)]
    low, high = max(seconds), sum(seconds)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if len(_runs(seconds, middle, count)) <= count else (middle, high)
    return _runs(seconds, high * (1 + 1e-12), count)


def _runs(seconds: list[float], most: float, count: int) -> list[tuple[int, int]]:
    """Runs of at most so many seconds, as long as they can be while as many units are left as runs."""
    runs: list[tuple[int, int]] = []
    first, total, n = 0, 0.0, len(seconds)
    for i, each in enumerate(seconds):
        if i > first and (total + each > most or n - i < count - len(runs)):
            runs.append((first, i))
            first, total = i, 0.0
        total += each
    return [*runs, (first, n)]
