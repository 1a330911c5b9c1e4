"""Layer tables of the image models, as torchvision defines them (ImageNet, 1,000 classes)."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.workload.zoo.entry import Layer

__all__ = ["VGG_BLOCKS", "ImageNet", "alexnet", "resnet18", "resnet50", "vgg", "wide_resnet101"]


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

    def pool(self, kernel: int, stride: int, padding: int = 0, *, ceil: bool = False) -> ImageNet:
        """A pooling that changes the side length only."""
        span = self.size + 2 * padding - kernel
        self.size = (-(-span // stride) if ceil else span // stride) + 1
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


def resnet18() -> tuple[Layer, ...]:
    """ResNet-18: basic blocks of two 3x3 convolutions (He et al., 2016)."""
    net = _resnet_stem()
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for block in range(2):
            stride = 2 if stage > 1 and block == 0 else 1
            name, shortcut = f"layer{stage}.{block}", net.branch()
            net.conv(f"{name}.conv1", width, 3, stride, 1).conv(f"{name}.conv2", width, 3, padding=1)
            if stride == 2:
                shortcut.conv(f"{name}.downsample", width, 1, 2)
    return net.linear("fc", 512, 1000).done()


def resnet50() -> tuple[Layer, ...]:
    """ResNet-50: bottleneck blocks, stride in the 3x3 convolution (He et al., 2016; torchvision's v1.5)."""
    return _bottlenecks((3, 4, 6, 3), 1)


def wide_resnet101() -> tuple[Layer, ...]:
    """WideResNet-101-2: ResNet-101 with twice as many channels inside each block (Zagoruyko and Komodakis, 2016)."""
    return _bottlenecks((3, 4, 23, 3), 2)


def _resnet_stem() -> ImageNet:
    return ImageNet().conv("conv1", 64, 7, 2, 3).pool(3, 2, 1)


def _bottlenecks(blocks: tuple[int, ...], widen: int) -> tuple[Layer, ...]:
    net = _resnet_stem()
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True), 1):
        for block in range(count):
            stride = 2 if stage > 1 and block == 0 else 1
            name, shortcut = f"layer{stage}.{block}", net.branch()
            net.conv(f"{name}.conv1", width * widen, 1)
            net.conv(f"{name}.conv2", width * widen, 3, stride, 1)
            net.conv(f"{name}.conv3", 4 * width, 1)
            if block == 0:
                shortcut.conv(f"{name}.downsample", 4 * width, 1, stride)
    return net.linear("fc", 2048, 1000).done()
