"""Layer tables of the language models and of DLRM. A transformer block is two layers, attention and feed-forward.

Both halves of a block are `summed`: under tensor parallelism each worker holds a share of the heads and of the inner
units, so the half's output is a sum over workers (Megatron-LM, Shoeybi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from weft.workload.zoo.entry import Layer


@dataclass(frozen=True)
class Transformer:
    """The shape of a transformer: enough to count its parameters, operations and activations."""

    vocabulary: int
    positions: int  # learned position embeddings; 0 for rotary ones
    hidden: int
    blocks: int
    inner: int  # feed-forward units
    sequence: int  # tokens per sample
    token_types: int = 0
    embedding_norm: bool = False
    final_norm: bool = False
    pooler: bool = False  # a dense layer on the first token
    head: str = "none"  # "tied": the output layer shares the token embedding; "own": it has its own weights
    bias: bool = True
    gated: bool = False  # three feed-forward matrices instead of two
    rms_norm: bool = False  # a norm has a scale only

    @property
    def heads(self) -> int:
        """Attention heads: 128 units each in gated models (LLaMA), 64 elsewhere, 32 where 64 does not divide."""
        units = 128 if self.gated else 64 if self.hidden % 64 == 0 else 32
        return self.hidden // units

    def layers(self) -> tuple[Layer, ...]:
        """Its layers in the order of the forward pass."""
        h, s = self.hidden, self.sequence
        norm = (h,) if self.rms_norm else (h, h)
        tables = [self.vocabulary * h]
        tables += [n * h for n in (self.positions, self.token_types) if n]
        if self.embedding_norm:
            tables += norm
        layers = [Layer("embedding", tuple(tables), 0.0, s * h, tied=self.vocabulary * h if self.head == "tied" else 0)]
        for i in range(self.blocks):
            layers += [self._attention(f"block.{i}.attention", norm), self._feed_forward(f"block.{i}.mlp", norm)]
        if self.pooler:
            layers.append(Layer("pooler", (h * h, h), 2.0 * h * h, h))
        logits = 2.0 * s * h * self.vocabulary if self.head != "none" else 0.0
        if self.final_norm or logits:
            tensors = (norm if self.final_norm else ()) + ((self.vocabulary * h,) if self.head == "own" else ())
            layers.append(Layer("head", tensors, logits, s * self.vocabulary if logits else s * h))
        return tuple(layers)

    def _linear(self, inputs: int, outputs: int) -> tuple[int, ...]:
        return (inputs * outputs, outputs) if self.bias else (inputs * outputs,)

    def _attention(self, name: str, norm: tuple[int, ...]) -> Layer:
        h, s = self.hidden, self.sequence
        flops = 2.0 * s * 4 * h * h + 4.0 * s * s * h
        return Layer(name, self._linear(h, h) * 4 + norm, flops, s * h, summed=True)

    def _feed_forward(self, name: str, norm: tuple[int, ...]) -> Layer:
        h, n, s = self.hidden, self.inner, self.sequence
        tensors = self._linear(h, n) * (2 if self.gated else 1) + self._linear(n, h) + norm
        return Layer(name, tensors, 2.0 * s * h * n * (3 if self.gated else 2), s * h, summed=True)


def lstm_ptb(vocabulary: int = 10_000, hidden: int = 1_500, steps: int = 35) -> tuple[Layer, ...]:
    """The large two-layer LSTM of Zaremba et al. (2014) on Penn Treebank: 1,500 units, 35 steps."""
    cell = (4 * hidden * hidden, 4 * hidden * hidden, 4 * hidden, 4 * hidden)
    flops = 2.0 * 8 * hidden * hidden * steps
    return (
        Layer("embedding", (vocabulary * hidden,), 0.0, hidden * steps),
        Layer("lstm.0", cell, flops, hidden * steps),
        Layer("lstm.1", cell, flops, hidden * steps),
        Layer("decoder", (vocabulary * hidden, vocabulary), 2.0 * vocabulary * hidden * steps, vocabulary * steps),
    )


# Rows of the 26 categorical features of the Criteo Kaggle data, the set that Meta's DLRM code is shown on.
CRITEO_KAGGLE_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
DLRM_DIMENSION = 16
DLRM_BOTTOM = (13, 512, 256, 64, DLRM_DIMENSION)
DLRM_TOP = (512, 256, 1)
# The set-up of the benchmark script in Meta's code. Its parameters are 1,962 MiB: what CASSINI's Table 3 has for DLRM.
BENCHMARK_ROWS = (1_000_000,) * 8
BENCHMARK_BOTTOM = (512, 512, 64)
BENCHMARK_TOP = (1024, 1024, 1024, 1)


def dlrm(
    rows: tuple[int, ...] = CRITEO_KAGGLE_ROWS,
    bottom: tuple[int, ...] = DLRM_BOTTOM,
    top: tuple[int, ...] = DLRM_TOP,
) -> tuple[Layer, ...]:
    """DLRM. The tables are `sharded`: each worker owns some and exchanges looked-up vectors by all-to-all."""
    dimension = bottom[-1]
    vectors = len(rows) + 1
    tables = Layer("embeddings", tuple(n * dimension for n in rows), 0.0, len(rows) * dimension, sharded=True)
    interactions = dimension + vectors * (vectors - 1) // 2
    return (
        *_perceptron("bottom", bottom),
        tables,
        *_perceptron("top", (interactions, *top)),
    )


def dlrm_benchmark() -> tuple[Layer, ...]:
    """DLRM with eight tables of a million rows."""
    return dlrm(BENCHMARK_ROWS, BENCHMARK_BOTTOM, BENCHMARK_TOP)


def _perceptron(name: str, widths: tuple[int, ...]) -> tuple[Layer, ...]:
    return tuple(Layer(f"{name}.{i}", (a * b, b), 2.0 * a * b, b) for i, (a, b) in enumerate(pairwise(widths)))
