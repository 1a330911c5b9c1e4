"""The zoo's language and recommendation models in plain PyTorch, for machines without transformers."""

# mypy: disable-error-code="import-not-found,misc"

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.workload.zoo.language import CRITEO_KAGGLE_ROWS, DLRM_BOTTOM, DLRM_TOP, Transformer


class _Block(nn.Module):
    """A transformer block, norm first: attention, then a feed-forward part (gated or not)."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        h, n, bias = shape.hidden, shape.inner, shape.bias
        norm = nn.RMSNorm if shape.rms_norm else nn.LayerNorm
        self.heads = shape.heads
        self.causal = shape.head != "none"
        self.qkv = nn.ModuleList(nn.Linear(h, h, bias=bias) for _ in range(3))
        self.out = nn.Linear(h, h, bias=bias)
        self.norms = nn.ModuleList([norm(h), norm(h)])
        self.gate = nn.Linear(h, n, bias=bias) if shape.gated else None
        self.up, self.down = nn.Linear(h, n, bias=bias), nn.Linear(n, h, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        b, s, h = x.shape
        y = self.norms[0](x)
        q, k, v = (f(y).view(b, s, self.heads, h // self.heads).transpose(1, 2) for f in self.qkv)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        y = self.norms[1](x)
        inner = functional.gelu(self.up(y)) if self.gate is None else functional.silu(self.gate(y)) * self.up(y)
        return x + self.down(inner)


class TransformerNet(nn.Module):
    """Encoder or decoder by its shape. Decoders return logits, encoders their last states and the pooled first one."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        h = shape.hidden
        norm = nn.RMSNorm if shape.rms_norm else nn.LayerNorm
        self.tokens = nn.Embedding(shape.vocabulary, h)
        self.positions = nn.Embedding(shape.positions, h) if shape.positions else None
        self.types = nn.Embedding(shape.token_types, h) if shape.token_types else None
        self.first_norm = norm(h) if shape.embedding_norm else None
        self.blocks = nn.ModuleList(_Block(shape) for _ in range(shape.blocks))
        self.final_norm = norm(h) if shape.final_norm else None
        self.pooler = nn.Linear(h, h) if shape.pooler else None
        self.head = nn.Linear(h, shape.vocabulary, bias=False) if shape.head == "own" else None
        self.tied = shape.head == "tied"

    def forward(self, ids: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids))
        if self.first_norm is not None:
            x = self.first_norm(x)
        for block in self.blocks:
            x = block(x)
        if self.final_norm is not None:
            x = self.final_norm(x)
        if self.pooler is not None:
            return x, torch.tanh(self.pooler(x[:, 0]))
        return functional.linear(x, self.tokens.weight) if self.tied else self.head(x)


class LstmPtb(nn.Module):
    """The large LSTM language model on Penn Treebank; returns logits."""

    def __init__(self, vocabulary: int = 10_000, hidden: int = 1_500) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2, dropout=0.65, batch_first=True)
        self.decoder = nn.Linear(hidden, vocabulary)

    def forward(self, ids: Tensor) -> Tensor:
        return self.decoder(self.lstm(self.embedding(ids))[0])


class Dlrm(nn.Module):
    """DLRM: dense features through one perceptron, categories through tables, all pairs through another."""

    def __init__(
        self,
        rows: tuple[int, ...] = CRITEO_KAGGLE_ROWS,
        bottom: tuple[int, ...] = DLRM_BOTTOM,
        top: tuple[int, ...] = DLRM_TOP,
    ) -> None:
        super().__init__()
        dimension, vectors = bottom[-1], len(rows) + 1
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, dimension, mode="sum", sparse=True) for n in rows)
        self.bottom = _perceptron(bottom, last_relu=True)
        self.top = _perceptron((dimension + vectors * (vectors - 1) // 2, *top), last_relu=False)

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        x = self.bottom(dense)
        looked_up = [table(categories[:, i : i + 1]) for i, table in enumerate(self.tables)]
        vectors = torch.stack([x, *(v.to(x.dtype) for v in looked_up)], 1)
        products = vectors @ vectors.transpose(1, 2)
        n = vectors.shape[1]
        low = torch.tril_indices(n, n, offset=-1, device=dense.device)
        return self.top(torch.cat([x, products[:, low[0], low[1]]], 1))


def _perceptron(widths: tuple[int, ...], last_relu: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*(layers if last_relu else layers[:-1]))
