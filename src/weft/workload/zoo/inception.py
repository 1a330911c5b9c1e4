"""Layer table of Inception-v3 with its auxiliary classifier, as torchvision defines it (Szegedy et al., 2016)."""

from __future__ import annotations

from weft.workload.zoo.entry import Layer
from weft.workload.zoo.vision import ImageNet

__all__ = ["inception_v3"]


def inception_v3() -> tuple[Layer, ...]:
    """Inception-v3 on 299 x 299 images; the auxiliary classifier is trained, so it is counted."""
    net = ImageNet(size=299)
    net.conv("Conv2d_1a", 32, 3, 2).conv("Conv2d_2a", 32, 3).conv("Conv2d_2b", 64, 3, padding=1).pool(3, 2)
    net.conv("Conv2d_3b", 80, 1).conv("Conv2d_4a", 192, 3).pool(3, 2)
    for name, pool in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        _mixed_a(net, name, pool)
    _mixed_b(net, "Mixed_6a")
    for name, width in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        _mixed_c(net, name, width)
    aux = net.branch().pool(5, 3)
    aux.conv("AuxLogits.conv0", 128, 1).conv("AuxLogits.conv1", 768, 5).linear("AuxLogits.fc", 768, 1000)
    _mixed_d(net, "Mixed_7a")
    _mixed_e(net, "Mixed_7b")
    _mixed_e(net, "Mixed_7c")
    return net.linear("fc", 2048, 1000).done()


def _join(net: ImageNet, *branches: ImageNet) -> None:
    net.channels, net.size = sum(b.channels for b in branches), branches[0].size


def _mixed_a(net: ImageNet, name: str, pool: int) -> None:
    one = net.branch().conv(f"{name}.1x1", 64, 1)
    five = net.branch().conv(f"{name}.5x5_1", 48, 1).conv(f"{name}.5x5_2", 64, 5, padding=2)
    three = net.branch().conv(f"{name}.3x3dbl_1", 64, 1).conv(f"{name}.3x3dbl_2", 96, 3, padding=1)
    three.conv(f"{name}.3x3dbl_3", 96, 3, padding=1)
    _join(net, one, five, three, net.branch().conv(f"{name}.pool", pool, 1))


def _mixed_b(net: ImageNet, name: str) -> None:
    three = net.branch().conv(f"{name}.3x3", 384, 3, 2)
    double = net.branch().conv(f"{name}.3x3dbl_1", 64, 1).conv(f"{name}.3x3dbl_2", 96, 3, padding=1)
    double.conv(f"{name}.3x3dbl_3", 96, 3, 2)
    _join(net, three, double, net.branch().pool(3, 2))


def _mixed_c(net: ImageNet, name: str, width: int) -> None:
    row, column = ((1, 7), (0, 3)), ((7, 1), (3, 0))
    one = net.branch().conv(f"{name}.1x1", 192, 1)
    seven = net.branch().conv(f"{name}.7x7_1", width, 1)
    seven.conv(f"{name}.7x7_2", width, row[0], padding=row[1]).conv(f"{name}.7x7_3", 192, column[0], padding=column[1])
    double = net.branch().conv(f"{name}.7x7dbl_1", width, 1)
    for i, (shape, out) in enumerate(((column, width), (row, width), (column, width), (row, 192)), 2):
        double.conv(f"{name}.7x7dbl_{i}", out, shape[0], padding=shape[1])
    _join(net, one, seven, double, net.branch().conv(f"{name}.pool", 192, 1))


def _mixed_d(net: ImageNet, name: str) -> None:
    three = net.branch().conv(f"{name}.3x3_1", 192, 1).conv(f"{name}.3x3_2", 320, 3, 2)
    seven = net.branch().conv(f"{name}.7x7x3_1", 192, 1).conv(f"{name}.7x7x3_2", 192, (1, 7), padding=(0, 3))
    seven.conv(f"{name}.7x7x3_3", 192, (7, 1), padding=(3, 0)).conv(f"{name}.7x7x3_4", 192, 3, 2)
    _join(net, three, seven, net.branch().pool(3, 2))


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
