"""Parameter totals of the layer tables against the numbers that the architectures are known by."""

from __future__ import annotations

import pytest

from weft.workload import zoo

# torchvision's documented totals (weights of each architecture), and Zaremba et al.'s 66 million for the LSTM.
TOTALS = {
    "vgg16": 138_357_544,
    "resnet50": 25_557_032,
    "inception-v3": 27_161_264,
    "lstm-ptb": 66_034_000,
}


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_parameter_total(name: str) -> None:
    model, _ = zoo.find(name)
    assert model.params == TOTALS[name]
    assert model.gradient_bytes == 4 * TOTALS[name]
