"""The engine's kernels, loaded on first use."""

from __future__ import annotations

from types import ModuleType

from weft.kernels import cache_dir, load


def is_cached() -> bool:
    """Whether the kernels of this copy of the package have been compiled on this machine before."""
    return any(cache_dir().glob("*/engine_kernel.run-*.nbc"))


def kernel(name: str) -> ModuleType:
    """The kernel module of that name; numba compiles its functions when they are first called."""
    return load(f"weft.sim.compiled.{name}_kernel")
