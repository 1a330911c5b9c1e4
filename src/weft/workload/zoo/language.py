"""Layer tables of the language models."""

from __future__ import annotations

from weft.workload.zoo.entry import Layer

__all__ = ["lstm_ptb"]


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
