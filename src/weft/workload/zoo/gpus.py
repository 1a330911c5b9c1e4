"""GPU types: peak rates and memory from the vendors' data sheets, and the rule that carries a time from one to another.

The rule: a time scales with the ratio of the two GPUs' peak rates in the precision it was measured in. A data sheet's
peak is never reached, but the ratio of two peaks of one precision is close to the ratio of the times. The optimiser
computes next to nothing and passes over all parameters, so its time scales with the bandwidth of the memory.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from weft.errors import InputError

__all__ = ["GPUS", "Gpu", "find_gpu", "same_gpu"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU type. `tflops` is its dense peak by precision: fp32 (without tensor cores), tf32, bf16 (or fp16)."""

    name: str
    memory_gb: float
    fp32_tflops: float
    tf32_tflops: float
    bf16_tflops: float
    memory_gb_per_s: float
    aliases: tuple[str, ...] = ()

    def tflops(self, dtype: str) -> float:
        """Peak rate in a precision; a GPU without it computes in single precision."""
        if dtype.startswith("bf16"):
            return self.bf16_tflops or self.fp32_tflops
        if dtype == "tf32":
            return self.tf32_tflops or self.fp32_tflops
        return self.fp32_tflops

    @property
    def dtype(self) -> str:
        """The precision people train in on it: mixed with bf16 where there is bf16, single elsewhere."""
        return "bf16" if self.tf32_tflops else "fp32"


# NVIDIA data sheets (SXM parts where there are several), without sparsity.
GPUS: tuple[Gpu, ...] = (
    Gpu("K80", 12, 4.37, 0, 0, 240),  # one of the card's two GPUs
    Gpu("P100", 16, 10.6, 0, 21.2, 732),
    Gpu("V100", 16, 15.7, 0, 125, 900, ("Tesla V100",)),
    Gpu("T4", 16, 8.1, 0, 65, 320),
    Gpu("A10", 24, 31.2, 62.5, 125, 600),
    Gpu("A100", 40, 19.5, 156, 312, 1555),
    Gpu("A800", 80, 19.5, 156, 312, 2039),
    Gpu("H100", 80, 66.9, 494, 989, 3350),
    Gpu("H800", 80, 66.9, 494, 989, 3350),
    Gpu("H200", 141, 66.9, 494, 989, 4800, ("NVIDIA H200",)),
)


def find_gpu(name: str) -> Gpu:
    """The GPU type of a name; an unknown one is refused with those there are."""
    key = _key(name)
    for gpu in GPUS:
        if key in (_key(gpu.name), *map(_key, gpu.aliases)):
            return gpu
    near = difflib.get_close_matches(key, [_key(g.name) for g in GPUS], n=1)
    hint = f"did you mean {near[0].upper()}?" if near else f"use one of {', '.join(g.name for g in GPUS)}"
    raise InputError(f"gpu {name!r} is not known to the zoo; {hint}")


def same_gpu(one: str, other: str) -> bool:
    """Whether two names mean one GPU type ("NVIDIA H200" and "H200")."""
    a, b = _key(one).removeprefix("nvidia"), _key(other).removeprefix("nvidia")
    return a == b


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "").replace(" ", "")
