"""Layer tables of MobileNetV3, as torchvision defines it (Howard et al., 2019)."""

from __future__ import annotations

from weft.workload.zoo.entry import Layer
from weft.workload.zoo.vision import ImageNet

__all__ = ["LARGE", "SMALL", "mobilenet_v3", "round_channels"]

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
