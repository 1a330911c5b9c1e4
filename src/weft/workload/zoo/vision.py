"""Layer tables of the image models, as torchvision defines them (ImageNet, 1,000 classes)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.workload.zoo.entry import Layer


@dataclass
class ImageNet:
    """A builder that follows one image through convolutions: channels and side length in, layers out."""

    channels: int = 3
    size: int = 224
    layers: list[Layer] = field(default_factory=list)

    def conv(
        self,
        name: str,
        out: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
        *,
        groups: int = 1,
        bias: bool = False,
        norm: bool = True,
    ) -> ImageNet:
        """A convolution, with batch normalisation (scale and shift) unless told otherwise."""
        kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
        ph, pw = (padding, padding) if isinstance(padding, int) else padding
        height = (self.size + 2 * ph - kh) // stride + 1
        width = (self.size + 2 * pw - kw) // stride + 1
        weight = kh * kw * (self.channels // groups) * out
        tensors = (weight, *((out,) if bias else ()), *((out, out) if norm else ()))
        self.layers.append(Layer(name, tensors, 2.0 * weight * height * width, out * height * width))
        self.channels, self.size = out, height
        return self

    def pool(self, kernel: int, stride: int, padding: int = 0) -> ImageNet:
        """A pooling that changes the side length only."""
        self.size = (self.size + 2 * padding - kernel) // stride + 1
        return self

    def linear(self, name: str, inputs: int, outputs: int) -> ImageNet:
        """A fully connected layer with bias."""
        self.layers.append(Layer(name, (inputs * outputs, outputs), 2.0 * inputs * outputs, outputs))
        return self

    def branch(self) -> ImageNet:
        """A side branch that starts here and writes to the same list."""
        return ImageNet(self.channels, self.size, self.layers)

    def done(self) -> tuple[Layer, ...]:
        """The layers."""
        return tuple(self.layers)


VGG_BLOCKS = {
    11: (1, 1, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


def vgg(depth: int) -> tuple[Layer, ...]:
    """VGG-11/16/19 without batch normalisation (Simonyan and Zisserman, 2015)."""
    net = ImageNet()
    for block, (count, width) in enumerate(zip(VGG_BLOCKS[depth], (64, 128, 256, 512, 512), strict=True), 1):
        for i in range(count):
            net.conv(f"conv{block}_{i + 1}", width, 3, padding=1, bias=True, norm=False)
        net.pool(2, 2)
    net.linear("fc6", 512 * 7 * 7, 4096).linear("fc7", 4096, 4096).linear("fc8", 4096, 1000)
    return net.done()


def alexnet() -> tuple[Layer, ...]:
    """AlexNet in its one-tower form (Krizhevsky, 2014)."""
    net = ImageNet()
    net.conv("conv1", 64, 11, 4, 2, bias=True, norm=False).pool(3, 2)
    net.conv("conv2", 192, 5, padding=2, bias=True, norm=False).pool(3, 2)
    net.conv("conv3", 384, 3, padding=1, bias=True, norm=False)
    net.conv("conv4", 256, 3, padding=1, bias=True, norm=False)
    net.conv("conv5", 256, 3, padding=1, bias=True, norm=False).pool(3, 2)
    net.linear("fc6", 256 * 6 * 6, 4096).linear("fc7", 4096, 4096).linear("fc8", 4096, 1000)
    return net.done()


def resnet(blocks: tuple[int, ...], bottleneck: bool = True, widen: int = 1) -> tuple[Layer, ...]:
    """ResNet (He et al., 2016) of basic blocks of two 3x3 convolutions, or of bottlenecks whose stride is in the 3x3
    convolution (torchvision's v1.5). `widen` widens the inside of bottlenecks (Zagoruyko and Komodakis, 2016)."""
    net = ImageNet().conv("conv1", 64, 7, 2, 3).pool(3, 2, 1)
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 1):
        out = 4 * width if bottleneck else width
        for block in range(count):
            stride = 2 if stage > 1 and block == 0 else 1
            name, shortcut = f"layer{stage}.{block}", net.branch()
            if bottleneck:
                net.conv(f"{name}.conv1", width * widen, 1).conv(f"{name}.conv2", width * widen, 3, stride, 1)
                net.conv(f"{name}.conv3", out, 1)
            else:
                net.conv(f"{name}.conv1", out, 3, stride, 1).conv(f"{name}.conv2", out, 3, padding=1)
            if stride == 2 or shortcut.channels != out:
                shortcut.conv(f"{name}.downsample", out, 1, stride)
    return net.linear("fc", net.channels, 1000).done()


# kernel, expanded channels, output channels, squeeze-and-excitation, hard-swish, stride
Row = tuple[int, int, int, bool, bool, int]

LARGE: tuple[Row, ...] = (
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1),
)  # fmt: skip
SMALL: tuple[Row, ...] = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2), (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2), (5, 240, 40, True, True, 1), (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1), (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2), (5, 576, 96, True, True, 1), (5, 576, 96, True, True, 1),
)  # fmt: skip


def round_channels(channels: float) -> int:
    """The nearest multiple of 8, never more than 10 % below: the rule for squeeze widths."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


def mobilenet_v3(rows: tuple[Row, ...], last: int, classifier: int) -> tuple[Layer, ...]:
    """MobileNetV3: inverted residuals (expand, depthwise, squeeze and excite, project), then two linear layers."""
    net = ImageNet().conv("features.0", 16, 3, 2, 1)
    for i, (kernel, expanded, out, squeeze, _, stride) in enumerate(rows, 1):
        if expanded != net.channels:
            net.conv(f"features.{i}.expand", expanded, 1)
        net.conv(f"features.{i}.depthwise", expanded, kernel, stride, (kernel - 1) // 2, groups=expanded)
        if squeeze:
            inner, side = round_channels(expanded / 4), net.branch()
            side.size = 1
            side.conv(f"features.{i}.squeeze", inner, 1, bias=True, norm=False)
            side.conv(f"features.{i}.excite", expanded, 1, bias=True, norm=False)
        net.conv(f"features.{i}.project", out, 1)
    net.conv(f"features.{len(rows) + 1}", last, 1)
    return net.linear("classifier.0", last, classifier).linear("classifier.3", classifier, 1000).done()


Convs = tuple[tuple[int, Any, int, Any], ...]  # output channels, kernel, stride and padding of one after another
Branches = dict[str, Convs]  # side by side

_ROW, _COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))


def _wide(width: int) -> Branches:
    """The 17 x 17 block of Inception: one by seven and seven by one convolutions of a given width."""
    double = ((width, 1, 1, 0), (width, *_COLUMN), (width, *_ROW), (width, *_COLUMN), (192, *_ROW))
    return {"1x1": ((192, 1, 1, 0),), "7x7": ((width, 1, 1, 0), (width, *_ROW), (192, *_COLUMN)), "7x7dbl": double}


_NARROW: Branches = {
    "1x1": ((64, 1, 1, 0),),
    "5x5": ((48, 1, 1, 0), (64, 5, 1, 2)),
    "3x3dbl": ((64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
}
# Blocks of Inception-v3 with the channels of their pooled branch: averaged and projected, or (0) the maximum, stride 2.
INCEPTION: tuple[tuple[str, Branches, int], ...] = (
    ("Mixed_5b", _NARROW, 32), ("Mixed_5c", _NARROW, 64), ("Mixed_5d", _NARROW, 64),
    ("Mixed_6a", {"3x3": ((384, 3, 2, 0),), "3x3dbl": ((64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0))}, 0),
    ("Mixed_6b", _wide(128), 192), ("Mixed_6c", _wide(160), 192), ("Mixed_6d", _wide(160), 192),
    ("Mixed_6e", _wide(192), 192),
)  # fmt: skip
INCEPTION_END: Branches = {
    "3x3": ((192, 1, 1, 0), (320, 3, 2, 0)),
    "7x7x3": ((192, 1, 1, 0), (192, *_ROW), (192, *_COLUMN), (192, 3, 2, 0)),
}


def inception_v3() -> tuple[Layer, ...]:
    """Inception-v3 on 299 x 299 images; the auxiliary classifier is trained, so it is counted."""
    net = ImageNet(size=299)
    net.conv("Conv2d_1a", 32, 3, 2).conv("Conv2d_2a", 32, 3).conv("Conv2d_2b", 64, 3, padding=1).pool(3, 2)
    net.conv("Conv2d_3b", 80, 1).conv("Conv2d_4a", 192, 3).pool(3, 2)
    for name, branches, pool in INCEPTION:
        _mixed(net, name, branches, pool)
    aux = net.branch().pool(5, 3)
    aux.conv("AuxLogits.conv0", 128, 1).conv("AuxLogits.conv1", 768, 5).linear("AuxLogits.fc", 768, 1000)
    _mixed(net, "Mixed_7a", INCEPTION_END, 0)
    _mixed_e(net, "Mixed_7b")
    _mixed_e(net, "Mixed_7c")
    return net.linear("fc", 2048, 1000).done()


def _join(net: ImageNet, *branches: ImageNet) -> None:
    net.channels, net.size = sum(b.channels for b in branches), branches[0].size


def _mixed(net: ImageNet, name: str, branches: Branches, pool: int) -> None:
    ends = []
    for label, convs in branches.items():
        ends.append(net.branch())
        for i, (out, kernel, stride, padding) in enumerate(convs, 1):
            ends[-1].conv(f"{name}.{label}" + f"_{i}" * (len(convs) > 1), out, kernel, stride, padding)
    _join(net, *ends, net.branch().conv(f"{name}.pool", pool, 1) if pool else net.branch().pool(3, 2))


def _mixed_e(net: ImageNet, name: str) -> None:
    def split(stem: ImageNet, label: str) -> ImageNet:
        left = stem.branch().conv(f"{name}.{label}a", 384, (1, 3), padding=(0, 1))
        right = stem.branch().conv(f"{name}.{label}b", 384, (3, 1), padding=(1, 0))
        _join(stem, left, right)
        return stem

    one = net.branch().conv(f"{name}.1x1", 320, 1)
    three = split(net.branch().conv(f"{name}.3x3_1", 384, 1), "3x3_2")
    double = net.branch().conv(f"{name}.3x3dbl_1", 448, 1).conv(f"{name}.3x3dbl_2", 384, 3, padding=1)
    double = split(double, "3x3dbl_3")
    _join(net, one, three, double, net.branch().conv(f"{name}.pool", 192, 1))
