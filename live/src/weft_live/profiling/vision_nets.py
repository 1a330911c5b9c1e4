"""The zoo's image models in plain PyTorch, for machines without torchvision, with the same parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from weft.workload.zoo.vision import INCEPTION, INCEPTION_END, VGG_BLOCKS, Branches, Convs, Row, round_channels

# mypy: disable-error-code="import-not-found,misc"


def conv(inputs: int, outputs: int, kernel: Any, stride: int = 1, padding: Any = 0, groups: int = 1) -> nn.Sequential:
    """A convolution without bias, then batch normalisation."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(outputs)
    )


def _classifier(inputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 4096), nn.ReLU(inplace=True), nn.Dropout(),
        nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, 1000),
    )  # fmt: skip


class Vgg(nn.Module):
    """VGG without batch normalisation."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for count, width in zip(VGG_BLOCKS[depth], (64, 128, 256, 512, 512), strict=True):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        self.classifier = _classifier(512 * 7 * 7)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.adaptive_avg_pool2d(self.features(x), 7)
        return self.classifier(torch.flatten(x, 1))


class AlexNet(nn.Module):
    """AlexNet in its one-tower form."""

    def __init__(self) -> None:
        super().__init__()
        rows = [(3, 64, 11, 4, 2, True), (64, 192, 5, 1, 2, True), (192, 384, 3, 1, 1, False)]
        rows += [(384, 256, 3, 1, 1, False), (256, 256, 3, 1, 1, True)]
        layers: list[nn.Module] = []
        for inputs, outputs, kernel, stride, padding, pool in rows:
            layers += [nn.Conv2d(inputs, outputs, kernel, stride, padding), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(3, 2)] if pool else []
        self.features = nn.Sequential(*layers)
        self.classifier = _classifier(256 * 6 * 6)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.adaptive_avg_pool2d(self.features(x), 6)
        return self.classifier(torch.flatten(x, 1))


class _Residual(nn.Module):
    """A basic block (two 3x3 convolutions) or a bottleneck (1x1, 3x3, 1x1), with its shortcut."""

    def __init__(self, inputs: int, width: int, outputs: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        if bottleneck:
            convs = [conv(inputs, width, 1), conv(width, width, 3, stride, 1), conv(width, outputs, 1)]
        else:
            convs = [conv(inputs, width, 3, stride, 1), conv(width, outputs, 3, 1, 1)]
        self.convs = nn.ModuleList(convs)
        self.downsample = conv(inputs, outputs, 1, stride) if stride > 1 or inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for step in self.convs[:-1]:
            out = functional.relu(step(out), inplace=True)
        shortcut = x if self.downsample is None else self.downsample(x)
        return functional.relu(self.convs[-1](out) + shortcut, inplace=True)


class ResNet(nn.Module):
    """ResNet of basic blocks or bottlenecks; `widen` widens the inside of the bottlenecks."""

    def __init__(self, blocks: tuple[int, ...], bottleneck: bool, widen: int = 1) -> None:
        super().__init__()
        self.stem = conv(3, 64, 7, 2, 3)
        channels, layers = 64, []
        for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True)):
            outputs = 4 * width if bottleneck else width
            for block in range(count):
                stride = 2 if stage and block == 0 else 1
                layers.append(_Residual(channels, width * widen, outputs, stride, bottleneck))
                channels = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.stem(x), inplace=True), 3, 2, 1)
        return self.fc(torch.flatten(functional.adaptive_avg_pool2d(self.layers(x), 1), 1))


class _Excite(nn.Module):
    """Squeeze and excitation: channels weighted by what they hold on average."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = round_channels(channels / 4)
        self.squeeze, self.excite = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        scale = functional.relu(self.squeeze(functional.adaptive_avg_pool2d(x, 1)))
        return x * functional.hardsigmoid(self.excite(scale))


class _Inverted(nn.Module):
    """An inverted residual: expand, depthwise, squeeze and excite, project."""

    def __init__(self, inputs: int, row: Row) -> None:
        super().__init__()
        kernel, expanded, outputs, squeeze, swish, stride = row
        act = nn.Hardswish if swish else nn.ReLU
        layers: list[nn.Module] = []
        if expanded != inputs:
            layers += [conv(inputs, expanded, 1), act(inplace=True)]
        layers += [conv(expanded, expanded, kernel, stride, (kernel - 1) // 2, expanded), act(inplace=True)]
        if squeeze:
            layers.append(_Excite(expanded))
        self.block = nn.Sequential(*layers, conv(expanded, outputs, 1))
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x) + x if self.shortcut else self.block(x)


class MobileNetV3(nn.Module):
    """MobileNetV3 by its table of rows."""

    def __init__(self, rows: tuple[Row, ...], last: int, classifier: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [conv(3, 16, 3, 2, 1), nn.Hardswish(inplace=True)]
        channels = 16
        for row in rows:
            layers.append(_Inverted(channels, row))
            channels = row[2]
        self.features = nn.Sequential(*layers, conv(channels, last, 1), nn.Hardswish(inplace=True))
        self.classifier = nn.Sequential(
            nn.Linear(last, classifier), nn.Hardswish(inplace=True), nn.Dropout(0.2), nn.Linear(classifier, 1000)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.flatten(functional.adaptive_avg_pool2d(self.features(x), 1), 1))


class _Chain(nn.Module):
    """Convolutions with ReLU, one after another."""

    def __init__(self, inputs: int, branch: Convs) -> None:
        super().__init__()
        steps = []
        for outputs, kernel, stride, padding in branch:
            steps.append(conv(inputs, outputs, kernel, stride, padding))
            inputs = outputs
        self.steps, self.channels = nn.ModuleList(steps), inputs

    def forward(self, x: Tensor) -> Tensor:
        for step in self.steps:
            x = functional.relu(step(x), inplace=True)
        return x


class _Mixed(nn.Module):
    """Branches side by side, and a pooled one: averaged and projected, or (pool 0) the maximum with stride 2."""

    def __init__(self, inputs: int, branches: Branches, pool: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList(_Chain(inputs, b) for b in branches.values())
        self.pooled = _Chain(inputs, ((pool, 1, 1, 0),)) if pool else None
        self.channels = sum(b.channels for b in self.branches) + (pool or inputs)

    def forward(self, x: Tensor) -> Tensor:
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
        for _, branches, pool in INCEPTION:
            blocks.append(_Mixed(channels, branches, pool))
            channels = blocks[-1].channels
        self.middle = nn.Sequential(*blocks)
        self.aux = _Chain(channels, ((128, 1, 1, 0), (768, 5, 1, 0)))
        self.aux_fc = nn.Linear(768, 1000)
        reduce = _Mixed(channels, INCEPTION_END, 0)
        first = _Split(reduce.channels)
        self.end = nn.Sequential(reduce, first, _Split(first.channels))
        self.fc = nn.Linear(first.channels, 1000)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = functional.max_pool2d(self.stem(x), 3, 2)
        x = self.middle(functional.max_pool2d(self.neck(x), 3, 2))
        side = functional.adaptive_avg_pool2d(self.aux(functional.avg_pool2d(x, 5, 3)), 1)
        x = functional.dropout(functional.adaptive_avg_pool2d(self.end(x), 1), training=self.training)
        return self.fc(torch.flatten(x, 1)), self.aux_fc(torch.flatten(side, 1))
