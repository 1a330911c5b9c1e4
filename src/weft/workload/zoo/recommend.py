"""Layer table of DLRM (Naumov et al., 2019): embedding tables, two multi-layer perceptrons, pairwise interactions."""

from __future__ import annotations

from itertools import pairwise

from weft.workload.zoo.entry import Layer

__all__ = ["CRITEO_KAGGLE_ROWS", "DLRM_BOTTOM", "DLRM_DIMENSION", "DLRM_TOP", "dlrm"]

# Rows of the 26 categorical features of the Criteo Kaggle data, the set that Meta's DLRM code is shown on.
CRITEO_KAGGLE_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
DLRM_DIMENSION = 16
DLRM_BOTTOM = (13, 512, 256, 64, DLRM_DIMENSION)
DLRM_TOP = (512, 256, 1)


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


def _perceptron(name: str, widths: tuple[int, ...]) -> tuple[Layer, ...]:
    return tuple(Layer(f"{name}.{i}", (a * b, b), 2.0 * a * b, b) for i, (a, b) in enumerate(pairwise(widths)))
