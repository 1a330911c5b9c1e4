"""How fast a transformer's step is on a GPU type: data-sheet peaks times what large matrix products reach of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from weft.errors import InputError
from weft.workload.graphs.roofline import Rates
from weft.workload.zoo.catalogue import step_data
from weft.workload.zoo.timings import find_gpu

WIDTHS = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp8": 1.0, "fp4": 0.5}
STEP = ("kernel_us", "attention", "memory", "network", "exposed", "step_ms")


@dataclass(frozen=True)
class Reached:
    """Constants of a step for all GPU types; by GPU type and precision the share of the peak that products reach."""

    kernel_us: float
    attention: float
    memory: float
    network: float
    exposed: float
    step_ms: float
    efficiency: Mapping[tuple[str, str], float]
    others: Mapping[str, float] = field(default_factory=dict)
    like: Mapping[str, str] = field(default_factory=dict)

    def of(self, gpu: str, dtype: str) -> tuple[float, bool]:
        """An efficiency, and whether it was fitted to this very type and precision."""
        for name in (gpu, self.like.get(gpu, gpu)):
            if (name, dtype) in self.efficiency:
                return self.efficiency[name, dtype], name == gpu
        return self.others[dtype], False

    def plain(self, gpu: str, dtype: str) -> float:
        """The efficiency of products that stay in bf16: that of wider types, of which more is known, where it was
        fitted."""
        known = [
            self.efficiency[name, "fp8"] for name in (gpu, self.like.get(gpu, gpu)) if (name, "fp8") in self.efficiency
        ]
        return known[0] if known and dtype in ("fp8", "fp4") else self.of(gpu, "bf16")[0]


@cache
def reached() -> Reached:
    """What weft uses where nobody says otherwise."""
    data: dict[str, Any] = step_data()
    table = {(gpu, dtype): value for gpu, row in data["efficiency"].items() for dtype, value in row.items()}
    plain = {name: float(data[name]) for name in STEP}
    return Reached(**plain, efficiency=table, others=data["others"], like=data["like"])


def rates(gpu: str, dtype: str | None = None, how: Reached | None = None) -> Rates:
    """The rates of a GPU type in a precision (by default bf16, or what people train in where there is none)."""
    target, how = find_gpu(gpu), how or reached()
    asked = dtype or target.dtype
    if asked not in WIDTHS:
        raise InputError(f"dtype {asked!r} is not known for a named layout; use one of {', '.join(WIDTHS)}")
    share, fitted = how.of(target.name, asked)
    plain = how.plain(target.name, asked) * 1e12 * target.tflops("bf16")
    said = "fitted to a measured step of MLPerf Training 5.1" if fitted else "taken over from other types"
    source = f"estimated: roofline of {target.sheet}, {share:.0%} of the {asked} peak, {said}"
    return Rates(
        target.name, asked, share * 1e12 * target.tflops(asked), plain, how.attention * plain,
        how.memory * 1e9 * target.memory_gb_per_s, how.kernel_us * 1e-6, how.step_ms * 1e-3, WIDTHS[asked],
        how.exposed, source,
    )  # fmt: skip
