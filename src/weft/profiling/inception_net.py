"""Inception-v3 with its auxiliary classifier in plain PyTorch, for machines without torchvision."""

# mypy: disable-error-code="import-not-found,misc"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.profiling.vision_nets import conv

__all__ = ["InceptionV3"]

# One branch: (output channels, kernel, stride, padding) for each of its convolutions.
Branch = tuple[tuple[int, Any, int, Any], ...]

_ROW, _COLUMN = ((1, 7), (0, 3)), ((7, 1), (3, 0))


def _wide(width: int) -> tuple[Branch, ...]:
    """The 17 x 17 block: one by seven and seven by one convolutions of a given width."""
    (row, across), (column, down) = _ROW, _COLUMN
    return (
        ((192, 1, 1, 0),),
        ((width, 1, 1, 0), (width, row, 1, across), (192, column, 1, down)),
        (
            (width, 1, 1, 0), (width, column, 1, down), (width, row, 1, across), (width, column, 1, down),
            (192, row, 1, across),
        ),
    )  # fmt: skip


def _narrow() -> tuple[Branch, ...]:
    """The 35 x 35 block."""
    return (
        ((64, 1, 1, 0),),
        ((48, 1, 1, 0), (64, 5, 1, 2)),
        ((64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
    )


_REDUCE_A: tuple[Branch, ...] = (((384, 3, 2, 0),), ((64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0)))
_REDUCE_B: tuple[Branch, ...] = (
    ((192, 1, 1, 0), (320, 3, 2, 0)),
    ((192, 1, 1, 0), (192, *_ROW[:1], 1, _ROW[1]), (192, *_COLUMN[:1], 1, _COLUMN[1]), (192, 3, 2, 0)),
)


class _Chain(nn.Module):
    """Convolutions with ReLU, one after another."""

    def __init__(self, inputs: int, branch: Branch) -> None:
        super().__init__()
        steps = []
        for outputs, kernel, stride, padding in branch:
            steps.append(conv(inputs, outputs, kernel, stride, padding))
            inputs = outputs
        self.steps, self.channels = nn.ModuleList(steps), inputs

    def forward(self, x: Tensor) -> Tensor:
        """The last convolution's output."""
        for step in self.steps:
            x = functional.relu(step(x), inplace=True)
        return x


class _Mixed(nn.Module):
    """Branches side by side, and a pooled one: averaged and projected, or (pool 0) the maximum with stride 2."""

    def __init__(self, inputs: int, branches: tuple[Branch, ...], pool: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(_Chain(inputs, b) for b in branches)
        self.pooled = _Chain(inputs, ((pool, 1, 1, 0),)) if pool else None
        self.channels = sum(b.channels for b in self.branches) + (pool or inputs)

    def forward(self, x: Tensor) -> Tensor:
        """All branches, concatenated."""
        if self.pooled is None:
            last = functional.max_pool2d(x, 3, 2)
        else:
            last = self.pooled(functional.avg_pool2d(x, 3, 1, 1))
        return torch.cat([*(b(x) for b in self.branches), last], 1)


class _Split(nn.Module):
    """The 8 x 8 block: two of its branches end in a one by three and a three by one convolution side by side."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.one = _Chain(inputs, ((320, 1, 1, 0),))
        self.stems = nn.ModuleList(
            [_Chain(inputs, ((384, 1, 1, 0),)), _Chain(inputs, ((448, 1, 1, 0), (384, 3, 1, 1)))]
        )
        shapes = (((384, (1, 3), 1, (0, 1)),), ((384, (3, 1), 1, (1, 0)),))
        self.ends = nn.ModuleList(_Chain(384, shape) for _ in self.stems for shape in shapes)
        self.pooled = _Chain(inputs, ((192, 1, 1, 0),))
        self.channels = 320 + 4 * 384 + 192

    def forward(self, x: Tensor) -> Tensor:
        """All branches, concatenated."""
        parts = [self.one(x)]
        for i, stem in enumerate(self.stems):
            y = stem(x)
            parts += [self.ends[2 * i](y), self.ends[2 * i + 1](y)]
        return torch.cat([*parts, self.pooled(functional.avg_pool2d(x, 3, 1, 1))], 1)


class InceptionV3(nn.Module):
    """Inception-v3; in training it returns its logits and the auxiliary ones."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _Chain(3, ((32, 3, 2, 0), (32, 3, 1, 0), (64, 3, 1, 1)))
        self.neck = _Chain(64, ((80, 1, 1, 0), (192, 3, 1, 0)))
        channels, blocks = 192, []
        plan: list[tuple[tuple[Branch, ...], int]] = [(_narrow(), 32), (_narrow(), 64), (_narrow(), 64), (_REDUCE_A, 0)]
        plan += [(_wide(width), 192) for width in (128, 160, 160, 192)]
        for branches, pool in plan:
            blocks.append(_Mixed(channels, branches, pool))
            channels = blocks[-1].channels
        self.middle = nn.Sequential(*blocks)
        self.aux = _Chain(channels, ((128, 1, 1, 0), (768, 5, 1, 0)))
        self.aux_fc = nn.Linear(768, 1000)
        reduce = _Mixed(channels, _REDUCE_B, 0)
        first = _Split(reduce.channels)
        self.end = nn.Sequential(reduce, first, _Split(first.channels))
        self.fc = nn.Linear(first.channels, 1000)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and auxiliary logits."""
        x = functional.max_pool2d(self.stem(x), 3, 2)
        x = self.middle(functional.max_pool2d(self.neck(x), 3, 2))
        side = functional.adaptive_avg_pool2d(self.aux(functional.avg_pool2d(x, 5, 3)), 1)
        x = functional.dropout(functional.adaptive_avg_pool2d(self.end(x), 1), training=self.training)
        return self.fc(torch.flatten(x, 1)), self.aux_fc(torch.flatten(side, 1))
