"""The models of the zoo: one entry each, with the source of every number."""

from __future__ import annotations

from functools import partial

from weft.model.units import MB
from weft.workload.zoo import inception, language, vision
from weft.workload.zoo.entry import Model, Published, Timing

__all__ = ["MODELS"]

_ADA = "Ada-SRSF (Wang et al.), Table III"


def _ada(size_mb: float, memory_mb: float, batch: int, forward_ms: float, backward_ms: float) -> Published:
    """One row of Table III of the Ada-SRSF paper: Tesla V100, PyTorch 1.2."""
    timing = Timing("V100", batch, forward_ms / 1e3, backward_ms / 1e3, _ADA, memory_mb * MB)
    return Published("ada-srsf", _ADA, timing, size_mb * MB)


_ADA_ROWS = {
    "vgg16": _ada(526.4, 4527, 16, 35.8, 53.7),
    "resnet50": _ada(99.2, 3213, 16, 25.0, 37.4),
    "inception-v3": _ada(103.0, 3291, 16, 34.9, 52.4),
    "lstm-ptb": _ada(251.8, 2751, 64, 31.5, 47.3),
}


def _with_ada(name: str) -> tuple[tuple[Timing, ...], tuple[Published, ...]]:
    row = _ADA_ROWS[name]
    return (row.timing,), (row,)


_CASSINI_BATCH = "CASSINI (Rajasekaran et al.), Table 3"

MODELS: tuple[Model, ...] = (
    Model(
        "vgg16", "VGG-16", "vision", partial(vision.vgg, 16), "Simonyan and Zisserman 2015; torchvision vgg16",
        16, (16, 1800), _CASSINI_BATCH, ("vgg-16",), *_with_ada("vgg16"),
    ),
    Model(
        "resnet50", "ResNet-50", "vision", vision.resnet50, "He et al. 2016; torchvision resnet50",
        16, (16, 1800), _CASSINI_BATCH, ("resnet-50",), *_with_ada("resnet50"),
    ),
    Model(
        "inception-v3", "Inception-v3", "vision", inception.inception_v3,
        "Szegedy et al. 2016; torchvision inception_v3",
        16, (16, 256), _ADA, ("inception3", "inception_v3", "inceptionv3"), *_with_ada("inception-v3"),
    ),
    Model(
        "lstm-ptb", "LSTM-PTB", "language", language.lstm_ptb, "Zaremba et al. 2014, large",
        64, (20, 128), _ADA, ("lstm", "lstm_ptb"), *_with_ada("lstm-ptb"),
    ),
)  # fmt: skip
