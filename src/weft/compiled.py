"""Compiled kernels: loaded on first use, with a cache folder that changes whenever one of their sources does.

numba's own cache looks only at the file of each function; a change in a function it calls would go unseen. So kernels
that call each other share a folder named after the hash of all of them.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["ENGINE", "cache_dir", "cache_root", "load"]

announce: Callable[[str], None] | None = None  # told before kernels are compiled on first use
ENGINE = ("sim/compiled",)  # rooms whose kernels call each other


@cache
def cache_dir(rooms: tuple[str, ...] = ENGINE) -> Path:
    """Where the compiled kernels of these rooms are kept."""
    root = Path(__file__).resolve().parent
    digest = hashlib.sha256(sys.version.encode())
    for room in rooms:
        for source in sorted([*(root / room).glob("*_kernel.py"), *(root / room).glob("state.py")]):
            digest.update(source.read_bytes())
    return cache_root() / f"kernels-{digest.hexdigest()[:16]}"


def cache_root() -> Path:
    """The folder of everything that weft keeps to save time and could make again."""
    base = os.environ.get("WEFT_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "weft"


@cache
def load(name: str, rooms: tuple[str, ...] = ENGINE) -> ModuleType:
    """A kernel module; its functions are compiled (or read from the cache) when first called."""
    folder = str(cache_dir(rooms))
    if announce is not None and rooms != ENGINE and not any(Path(folder).glob("*/*.nbc")):
        announce(f"compiling {name.rpartition('.')[2].removesuffix('_kernel')}, once for this version (about 20 s) ...")
    os.environ["NUMBA_CACHE_DIR"] = folder
    numba_config = importlib.import_module("numba.core.config")
    numba_config.CACHE_DIR = folder  # type: ignore[attr-defined]
    # numba looks for a fast matrix product and so imports much of scipy; no kernel multiplies matrices.
    hidden = "scipy.linalg"
    missing = hidden not in sys.modules
    if missing:
        sys.modules[hidden] = None  # type: ignore[assignment]
    try:
        return importlib.import_module(name)
    finally:
        if missing:
            del sys.modules[hidden]
