"""Layer table of DLRM (Naumov et al., 2019): embedding tables, two multi-layer perceptrons, pairwise interactions."""

from __future__ import annotations

from itertools import pairwise

from weft.workload.zoo.entry import Layer

__all__ = [
    "BENCHMARK_BOTTOM",
    "BENCHMARK_ROWS",
    "BENCHMARK_TOP",
    "CRITEO_KAGGLE_ROWS",
    "DLRM_BOTTOM",
    "DLRM_DIMENSION",
    "DLRM_TOP",
    "dlrm",
    "dlrm_benchmark",
]

# Rows of the 26 categorical features of the Criteo Kaggle data, the set that Meta's DLRM code is shown on.
CRITEO_KAGGLE_ROWS = (
    1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10, 5652,
    2173, 4, 7046547, 18, 15, 286181, 105, 142572,
)  # fmt: skip
DLRM_DIMENSION = 16
DLRM_BOTTOM = (13, 512, 256, 64, DLRM_DIMENSION)
DLRM_TOP = (512, 256, 1)
# The set-up of the benchmark script in Meta's code. Its parameters are 1,962 MiB: what CASSINI's Table 3 has for DLRM.
BENCHMARK_ROWS = (1_000_000,) * 8
BENCHMARK_BOTTOM = (512, 512, 64)
BENCHMARK_TOP = (1024, 1024, 1024, 1)


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


def dlrm_benchmark() -> tuple[Layer, ...]:
    """DLRM with eight tables of a million rows."""
    return dlrm(BENCHMARK_ROWS, BENCHMARK_BOTTOM, BENCHMARK_TOP)


def _perceptron(name: str, widths: tuple[int, ...]) -> tuple[Layer, ...]:
    return tuple(Layer(f"{name}.{i}", (a * b, b), 2.0 * a * b, b) for i, (a, b) in enumerate(pairwise(widths)))
