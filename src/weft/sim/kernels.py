"""Loads the compiled kernels on first use, with a cache directory that changes whenever any kernel source does.

numba's own cache looks only at the file of each function; a change in a function it calls would go unseen.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["cache_dir", "compile_all", "engine_kernel", "estimate_kernel", "is_cached", "skip_kernel"]


@cache
def cache_dir() -> Path:
    """Where compiled kernels are kept: a folder named after the hash of all their sources."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(sys.version.encode())
    for source in sorted([*root.rglob("*_kernel.py"), root / "network" / "state.py"]):
        digest.update(source.read_bytes())
    base = os.environ.get("WEFT_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "weft" / f"kernels-{digest.hexdigest()[:16]}"


def is_cached() -> bool:
    """Whether the kernels have been compiled on this machine before."""
    return any(cache_dir().rglob("engine_kernel.run-*.nbc"))


@cache
def _load(name: str) -> ModuleType:
    os.environ["NUMBA_CACHE_DIR"] = str(cache_dir())
    numba_config = importlib.import_module("numba.core.config")
    numba_config.CACHE_DIR = str(cache_dir())  # type: ignore[attr-defined]
    return importlib.import_module(name)


def compile_all() -> None:
    """Compile every kernel that a run needs, by running a small case of each kind."""
    import numpy as np

    from weft.model.plan import Gate
    from weft.sim.engine import Engine, EngineSpec
    from weft.sim.program import compute_node, make_program, transfer_node

    spec = EngineSpec(np.ones(1), np.ones(1, np.bool_), n_gpus=1)
    engine = Engine(spec)
    program = make_program([compute_node(0, 1.0), transfer_node(1, 1.0, [(0, 1)], (0,))], spec.capacity)
    slots = [engine.attach(i, program, 9) for i in range(2)]
    engine.run(3.0)
    engine.set_gate(slots[0], Gate(0.0))
    engine.catch_up_all()
    engine.detach(slots[0])
    engine.run()


def engine_kernel() -> ModuleType:
    """weft.sim.engine_kernel, compiled lazily by numba at the first call."""
    return _load("weft.sim.engine_kernel")


def estimate_kernel() -> ModuleType:
    """weft.sim.estimate_kernel."""
    return _load("weft.sim.estimate_kernel")


def skip_kernel() -> ModuleType:
    """weft.sim.skip_kernel."""
    return _load("weft.sim.skip_kernel")
