"""Layer tables of the language models. A transformer block is two layers, attention and feed-forward.

Both halves of a block are `summed`: under tensor parallelism each worker holds a share of the heads and of the inner
units, so the half's output is a sum over workers (Megatron-LM, Shoeybi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.workload.zoo.entry import Layer

__all__ = ["Transformer", "lstm_ptb"]


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
