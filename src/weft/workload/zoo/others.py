"""Layer tables of models that are neither stacks of convolutions nor language models: images by attention, graphs."""

from __future__ import annotations

from itertools import pairwise

from weft.workload.zoo.entry import Layer


def vit(hidden: int, blocks: int, inner: int, patch: int, classes: int = 1000, size: int = 224) -> tuple[Layer, ...]:
    """A vision transformer as torchvision has it (Dosovitskiy et al. 2021): patches, a class token, encoder blocks."""
    h, pixels = hidden, 3 * patch * patch
    s = (size // patch) ** 2 + 1
    layers = [Layer("patches", (pixels * h, h, h, s * h), 2.0 * (s - 1) * pixels * h, s * h)]
    for i in range(blocks):
        layers.append(_attended(f"block.{i}.attention", ((h, 3 * h), (h, h)), s, h, (h, h)))
        layers.append(_matrices(f"block.{i}.mlp", ((h, inner), (inner, h)), s, h, (h, h), between=inner))
    layers.append(Layer("head", (h, h, h * classes, classes), 2.0 * h * classes, classes))
    return tuple(layers)


FLUX_TOKENS = (256, 512)  # of an image of 256 x 256 in patches of 16 x 16, and of its text


def flux(guided: bool = True, text: int = FLUX_TOKENS[1]) -> tuple[Layer, ...]:
    """FLUX.1 (Black Forest Labs 2024): 19 blocks with weights of their own for image and text, 38 with common ones.

    Encoders of text and images are frozen and not counted. `guided`: the development model, which is told how closely
    to follow the text.
    """
    h, image = 3072, FLUX_TOKENS[0]
    both, norm = image + text, (128, 128)
    conditions = [(256, h), (h, h), (768, h), (h, h)] + [(256, h), (h, h)] * guided
    tensors = tuple(n for a, b in ((64, h), (4096, h), *conditions) for n in (a * b, b))
    inputs = 2.0 * h * (64 * image + 4096 * text) + 2.0 * sum(a * b for a, b in conditions)
    layers = [Layer("inputs", tensors, inputs, both * h)]
    for i in range(19):
        change = (6 * h * h, 6 * h) * 2  # scale, shift and gate of each half, from the condition; one for each stream
        layers.append(_attended(f"double.{i}.attention", ((h, 3 * h), (h, h)), both, h, (*change, *norm * 2), 2))
        layers.append(_matrices(f"double.{i}.mlp", ((h, 4 * h), (4 * h, h)), both, h, (), between=8 * h, copies=2))
    for i in range(38):
        matrices = ((h, 7 * h), (5 * h, h))
        layers.append(_attended(f"single.{i}", matrices, both, h, (3 * h * h, 3 * h, *norm), between=11 * h))
    layers.append(Layer("output", (2 * h * h, 2 * h, 64 * h, 64), 2.0 * image * 64 * h, image * 64))
    return tuple(layers)


def _matrices(
    name: str, pairs: tuple[tuple[int, int], ...], tokens: int, h: int, more: tuple[int, ...], *, between: int,
    copies: int = 1,
) -> Layer:  # fmt: skip
    """Matrices with biases that every token goes through; of `copies` each token meets one."""
    tensors = tuple(n for a, b in pairs for n in (a * b, b)) * copies
    flops = 2.0 * tokens * sum(a * b for a, b in pairs)
    return Layer(name, tensors + more, flops, tokens * h, summed=True, between=tokens * between)


def _attended(
    name: str, pairs: tuple[tuple[int, int], ...], tokens: int, h: int, more: tuple[int, ...], copies: int = 1,
    between: int = 0,
) -> Layer:  # fmt: skip
    """The same with attention of every token to every other."""
    plain = _matrices(name, pairs, tokens, h, more, between=between or 3 * h, copies=copies)
    products = 4.0 * tokens * tokens * h
    return Layer(
        name, plain.tensors, plain.flops + products, plain.activation, summed=True, attention=products,
        between=plain.between, context=2 * tokens * h,
        heads=h // 128,
    )  # fmt: skip


def graphsage(widths: tuple[int, ...] = (602, 256, 41), neighbours: tuple[int, ...] = (25, 10)) -> tuple[Layer, ...]:
    """GraphSAGE with means of neighbours (Hamilton et al. 2017): a matrix for a node, and one for its neighbours' mean.

    The usual example: Reddit's 602 features, 256 units, 41 classes, 25 and 10 neighbours. A sample is a node.
    """
    layers, nodes = [], 1
    for (a, b), near in reversed(list(zip(pairwise(widths), neighbours, strict=True))):
        layers.append((a, b, nodes))
        nodes *= 1 + near
    return tuple(
        Layer(f"sage.{i}", (a * b, a * b, b), 4.0 * n * a * b, n * b) for i, (a, b, n) in enumerate(reversed(layers))
    )
