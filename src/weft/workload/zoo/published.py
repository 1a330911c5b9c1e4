"""Compute times and sizes that others measured, each with its source.

Some sources give the whole iteration only; it is then split one third forward, two thirds backward (a backward pass
computes two gradients where the forward pass computes one value), and the source says so.
"""

from __future__ import annotations

from weft.model.units import MB
from weft.workload.zoo.entry import Published, Timing

__all__ = ["DALLY_TABLE_I", "timings", "variants"]

_ADA = "Ada-SRSF (Wang et al. 2020), Table III"
_CASSINI = "CASSINI (Rajasekaran et al. 2024)"
_SPLIT = "iteration time, split 1:2"
_GAVEL = f"Gavel (Narayanan et al. 2020), throughput table; {_SPLIT}"
_ELASTIC = f"ElasticFlow (Gu et al. 2023), throughput table; {_SPLIT}"
_PIPEDREAM = "PipeDream (Narayanan et al. 2019), published profile; batch from its activation sizes, V100 assumed"

# model: size MB, GPU memory MB, batch, forward ms, backward ms (V100, PyTorch 1.2)
_ADA_TABLE_III = {
    "vgg16": (526.4, 4527, 16, 35.8, 53.7),
    "resnet50": (99.2, 3213, 16, 25.0, 37.4),
    "inception-v3": (103.0, 3291, 16, 34.9, 52.4),
    "lstm-ptb": (251.8, 2751, 64, 31.5, 47.3),
}

# model: (GPU, batch, iterations per second alone on one GPU), source
_THROUGHPUT: dict[str, tuple[tuple[str, int, float, str], ...]] = {
    "resnet50": (
        ("V100", 32, 7.787, _GAVEL), ("V100", 64, 4.395, _GAVEL), ("V100", 128, 2.497, _GAVEL),
        ("P100", 16, 9.053, _GAVEL), ("P100", 32, 4.888, _GAVEL), ("P100", 64, 2.619, _GAVEL),
        ("P100", 128, 1.584, _GAVEL),
        ("K80", 16, 2.301, _GAVEL), ("K80", 32, 1.237, _GAVEL), ("K80", 64, 0.619, _GAVEL),
        ("A100", 64, 6.843, _ELASTIC), ("A100", 128, 3.655, _ELASTIC), ("A100", 256, 1.843, _ELASTIC),
    ),
    "vgg16": (("A100", 64, 5.053, _ELASTIC), ("A100", 128, 2.625, _ELASTIC), ("A100", 256, 1.314, _ELASTIC)),
    "inception-v3": (("A100", 64, 4.821, _ELASTIC), ("A100", 128, 2.562, _ELASTIC)),
}  # fmt: skip

# model: batch, forward ms, backward ms, summed over the profile's operators but for its input
_PIPEDREAM_SUMS = {
    "vgg16": (128, 233.9, 438.6),
    "resnet50": (128, 182.5, 260.9),
    "inception-v3": (128, 289.3, 399.8),
    "alexnet": (256, 44.8, 40.5),
    "resnet18": (256, 107.5, 152.3),
}

# Dally (Sharma et al.), Table I: skew, then communication as a fraction of compute time with 8 GPUs inside one
# machine, inside one rack, across racks.
DALLY_TABLE_I: dict[str, tuple[str, float, float, float]] = {
    "vgg11": ("high", 0.01, 0.06, 0.07),
    "alexnet": ("high", 0.02, 0.13, 1.00),
    "mobilenet-v3-small": ("high", 0.42, 9.40, 195.92),
    "resnet18": ("low", 0.07, 1.16, 27.49),
    "resnet50": ("low", 0.12, 0.12, 0.38),
    "bert-large": ("low", 0.08, 0.23, 7.15),
}


def timings(model: str) -> tuple[Timing, ...]:
    """Published compute times of a model, the best source of a GPU type and batch first."""
    found: list[Timing] = []
    if row := _ADA_TABLE_III.get(model):
        found.append(_ada(row))
    for gpu, batch, per_s, source in _THROUGHPUT.get(model, ()):
        found.append(Timing(gpu, batch, 1 / (3 * per_s), 2 / (3 * per_s), source))
    if sums := _PIPEDREAM_SUMS.get(model):
        batch, forward_ms, backward_ms = sums
        found.append(Timing("V100", batch, forward_ms / 1e3, backward_ms / 1e3, _PIPEDREAM))
    return tuple(found)


def variants(model: str) -> tuple[Published, ...]:
    """A paper's own version of a model."""
    found: list[Published] = []
    if row := _ADA_TABLE_III.get(model):
        found.append(Published("ada-srsf", _ada(row), row[0] * MB))
    if model == "vgg16":
        # Section 3, Figure 3: a circle of 255 ms, of which 141 ms Down. Figure 2 shows about 22 Gbit/s for each of two
        # jobs on one link, so a job alone reaches 45 of 50 Gbit/s. The backward pass hides behind the Up phase.
        timing = Timing("A100", 1400, 0.141, 0.0, f"{_CASSINI}, section 3 and Figure 3: 255 ms, 141 ms Down")
        found.append(Published("cassini", timing, up_s=0.114, up_gbps=45.0))
    return tuple(found)


def _ada(row: tuple[float, float, int, float, float]) -> Timing:
    _, memory_mb, batch, forward_ms, backward_ms = row
    return Timing(
        "V100",
        batch,
        forward_ms / 1e3,
        backward_ms / 1e3,
        _ADA,
        memory_bytes=memory_mb * MB,
        memory_source=f"published: {_ADA}",
    )
