"""Layer tables of the language models and of DLRM. A transformer block is two layers, attention and feed-forward.

Both halves of a block are `summed`: under tensor parallelism each worker holds a share of the heads and of the inner
units, so the half's output is a sum over workers (Megatron-LM, Shoeybi et al. 2019).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from weft.workload.zoo.entry import Layer


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention (DeepSeek-V2): queries, keys and values pass through narrow layers.

    A head's queries and keys have `plain` units and `rotary` ones, of which keys share theirs; values have `value`.
    """

    query: int  # width of the narrow layer before the queries
    kv: int  # and before keys and values
    plain: int
    rotary: int
    value: int


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: each token goes through `active` of `count` feed-forward layers, and all `shared` ones."""

    count: int
    active: int
    inner: int  # units of one expert
    shared: int = 0
    dense_blocks: int = 0  # the first blocks have one feed-forward layer, of the model's `inner` units
    bias: bool = False  # of the router and of each expert
    router_bias: bool = False  # a bias that only balances the load


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
    attention_heads: int = 0  # 0: by the usual number of units of a head
    kv_heads: int = 0  # keys and values have fewer heads (grouped queries); 0: as many
    head_units: int = 0  # 0: hidden over heads
    per_block: int = 0  # further parameters of a block's attention: norms of queries and keys, sinks
    attention_bias: bool = False  # attention has biases where the rest has none
    latent: Latent | None = None
    experts: Experts | None = None
    adapters: int = 0  # rank of the adapters on its attention (LoRA); only they have gradients

    @property
    def heads(self) -> int:
        """Attention heads: by default 128 units each in gated models, 64 elsewhere, 32 where 64 does not divide."""
        units = 128 if self.gated else 64 if self.hidden % 64 == 0 else 32
        return self.attention_heads or self.hidden // units

    @property
    def classic(self) -> bool:
        """Whether it is a plain stack of equal blocks, as before grouped queries and experts."""
        return self.latent is None and self.experts is None and not (self.kv_heads or self.head_units)

    def layers(self) -> tuple[Layer, ...]:
        """Its layers in the order of the forward pass."""
        return tuple(map(_frozen, self._layers())) if self.adapters else self._layers()

    def _layers(self) -> tuple[Layer, ...]:
        h, s = self.hidden, self.sequence
        norm = (h,) if self.rms_norm else (h, h)
        tables = [self.vocabulary * h]
        tables += [n * h for n in (self.positions, self.token_types) if n]
        if self.embedding_norm:
            tables += norm
        layers = [Layer("embedding", tuple(tables), 0.0, s * h, tied=self.vocabulary * h if self.head == "tied" else 0)]
        for i in range(self.blocks):
            layers += [self._attention(f"block.{i}.attention", norm), self._inner(i, norm)]
        if self.pooler:
            layers.append(Layer("pooler", (h * h, h), 2.0 * h * h, h))
        logits = 2.0 * s * h * self.vocabulary if self.head != "none" else 0.0
        if self.final_norm or logits:
            tensors = (norm if self.final_norm else ()) + ((self.vocabulary * h,) if self.head == "own" else ())
            words = s * self.vocabulary if logits else 0
            layers.append(Layer("head", tensors, logits, words or s * h, between=words))
        return tuple(layers)

    def _linear(self, inputs: int, outputs: int, bias: bool = False) -> tuple[int, ...]:
        return (inputs * outputs, outputs) if self.bias or bias else (inputs * outputs,)

    def _attention(self, name: str, norm: tuple[int, ...]) -> Layer:
        """Queries, keys and values, the products between tokens, and the way back."""
        h, s, heads = self.hidden, self.sequence, self.heads
        more = (self.per_block,) if self.per_block else ()
        if (latent := self.latent) is not None:
            seen = latent.plain + latent.rotary
            pairs = [(h, latent.query), (latent.query, heads * seen), (h, latent.kv + latent.rotary)]
            pairs += [(latent.kv, heads * (latent.plain + latent.value)), (heads * latent.value, h)]
            more = (*more, latent.query, latent.kv)
            products = 2.0 * s * s * heads * (seen + latent.value)
            between, context = heads * (2 * seen + latent.value), latent.kv + latent.rotary
        else:
            units = self.head_units or h // heads
            wide, narrow = heads * units, (self.kv_heads or heads) * units
            pairs = [(h, wide), (h, narrow), (h, narrow), (wide, h)]
            products = 4.0 * s * s * wide
            between, context = wide + 2 * narrow, 2 * narrow
        tensors = tuple(size for pair in pairs for size in self._linear(*pair, self.attention_bias))
        flops = 2.0 * s * sum(inputs * outputs for inputs, outputs in pairs) + products
        adapters = 0
        if rank := self.adapters:  # on queries, keys and values together, and on the way back
            adapters = rank * (pairs[0][0] + sum(outputs for _, outputs in pairs[:-1]) + sum(pairs[-1]))
            flops += 2.0 * s * adapters
        return Layer(
            name, tensors + norm + more + ((adapters,) if adapters else ()), flops, s * h, summed=True,
            attention=products, causal=self.head != "none", between=s * between, context=s * context,
            heads=heads, kv_heads=0 if latent else self.kv_heads or heads, tokens=s,
        )  # fmt: skip

    def _inner(self, block: int, norm: tuple[int, ...]) -> Layer:
        """What is done with each token by itself: one feed-forward layer, or some of many."""
        h, s, moe = self.hidden, self.sequence, self.experts
        matrices = 3 if self.gated else 2
        if moe is None or block < moe.dense_blocks:
            return Layer(
                f"block.{block}.mlp", self._feed_forward(self.inner) + norm, 2.0 * s * h * self.inner * matrices, s * h,
                summed=True, between=s * self.inner * matrices,
            )  # fmt: skip
        router = self._linear(h, moe.count, moe.bias) + ((moe.count,) if moe.router_bias else ())
        each = self._feed_forward(moe.inner, moe.bias)
        tensors = router + each * (moe.count + moe.shared) + norm
        flops = 2.0 * s * h * (moe.count + moe.inner * matrices * (moe.active + moe.shared))
        return Layer(
            f"block.{block}.experts", tensors, flops, s * h, summed=True,
            between=s * moe.inner * matrices * (moe.active + moe.shared), expert_params=sum(each) * moe.count,
            sent=s * h * moe.active, experts=moe.count,
        )  # fmt: skip

    def _feed_forward(self, inner: int, bias: bool = False) -> tuple[int, ...]:
        h = self.hidden
        return self._linear(h, inner, bias) * (2 if self.gated else 1) + self._linear(inner, h, bias)


def _frozen(layer: Layer) -> Layer:
    """The same layer with gradients of its adapters only."""
    trained = layer.tensors[-1:] if layer.name.endswith(".attention") else ()
    return replace(layer, tensors=trained, frozen=layer.params - sum(trained), tied=0)


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


def transformer_xl(blocks: int = 16, hidden: int = 410, inner: int = 2100, heads: int = 10) -> tuple[Layer, ...]:
    """Transformer-XL (Dai et al. 2019) on WikiText-103: 150 tokens that also see the 150 before, relative positions.

    Token embeddings are shared with the output layer. The two biases of relative positions are common to all blocks.
    """
    h, s, seen, vocabulary, ends = hidden, 150, 300, 267_735, 3  # `ends` of the adaptive output layer
    layers = [Layer("embedding", (vocabulary * h,), 0.0, s * h, tied=vocabulary * h)]
    for i in range(blocks):
        biases = (2 * h,) if i == 0 else ()
        products = 4.0 * s * seen * h + 2.0 * s * seen * h  # and those with positions
        layers += [
            Layer(
                f"block.{i}.attention", (3 * h * h, h * h, h * h, h, h, *biases), 2.0 * s * 5 * h * h + products,
                s * h, summed=True, attention=products, between=4 * s * h, context=2 * s * h,
            ),
            Layer(
                f"block.{i}.mlp", (h * inner, inner, inner * h, h, h, h), 4.0 * s * h * inner, s * h,
                summed=True, between=s * inner,
            ),
        ]  # fmt: skip
    output = 2.0 * s * h * vocabulary
    layers.append(Layer("head", (vocabulary, ends * h, ends), output, s * vocabulary, between=s * vocabulary))
    return tuple(layers)


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
