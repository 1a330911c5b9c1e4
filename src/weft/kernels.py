"""Compiled kernels: loaded on first use, with one cache folder for each state of what they are compiled from.

numba's own cache looks only at the file of each function; a change in a function that it calls, in a constant that it
takes from elsewhere, or in numba's flags would go unseen. So the kernels of a folder, which call each other, share a
cache folder that is named after the hash of all of this. The path of the sources is part of the hash, because numba
files kernels by that path: another clone compiles its own.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

own_process = False  # whether this process is the weft command or one of its workers, and not somebody's program
announce: Callable[[str], None] | None = None  # told when kernels other than the engine's are compiled, on first use
_ENGINE = "weft.sim.compiled"
_FLAGS = (  # numba's flags that change what is compiled
    "BOUNDSCHECK", "CPU_FEATURES", "CPU_NAME", "DEBUGINFO_DEFAULT", "DISABLE_INTEL_SVML", "DISABLE_JIT", "ENABLE_AVX",
    "LLVM_REFPRUNE_FLAGS", "LLVM_REFPRUNE_PASS", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE",
)  # fmt: skip
_ROOT = Path(__file__).resolve().parent.parent
_IMPORTS = re.compile(r"^from (weft[.\w]*) import (?:\(([^)]*)\)|(.*))", re.MULTILINE)


@cache
def cache_dir(package: str = "weft.sim.compiled") -> Path:
    """Where the compiled kernels of a package are kept."""
    numba, llvmlite = (importlib.import_module(name) for name in ("numba", "llvmlite"))
    digest = hashlib.sha256(f"{sys.version} {numba.__version__} {llvmlite.__version__} {_ROOT}".encode())
    config: Any = numba.config  # flags of the environment and of .numba_config.yaml
    digest.update(repr([str(getattr(config, name, None)) for name in _FLAGS]).encode())
    for source in sources(package):
        digest.update(source.read_bytes())
    return cache_root() / f"kernels-{digest.hexdigest()[:16]}"


def sources(package: str) -> list[Path]:
    """The kernels of a package, and every module of ours from which they take functions or constants."""
    found: set[str] = set()
    todo = sorted(map(str, _ROOT.joinpath(*package.split(".")).glob("*_kernel.py")))
    while todo:
        source = todo.pop()
        if source in found:
            continue
        found.add(source)
        for module, several, one in _IMPORTS.findall(Path(source).read_text(encoding="utf-8")):
            at = os.path.join(_ROOT, *module.split("."))
            if os.path.isfile(f"{at}.py"):
                todo.append(f"{at}.py")
                continue
            names = [name.split(" as ")[0].split("#")[0].strip() for name in re.split("[,\n]", several or one)]
            inside = [os.path.join(at, f"{name}.py") for name in ("__init__", *names) if name]
            todo += filter(os.path.isfile, inside)
    return [Path(source) for source in sorted(found)]


def cache_root() -> Path:
    """The folder of everything that weft keeps to save time and could make again."""
    base = os.environ.get("WEFT_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "weft"


@cache
def load(name: str) -> ModuleType:
    """A kernel module; its functions are compiled (or read from the cache) when first called."""
    package, _, kernel = name.rpartition(".")
    if announce is not None and package != _ENGINE and not any(cache_dir(package).glob("*/*.nbc")):
        announce(f"compiling {kernel.removesuffix('_kernel')}, once for this version (about 20 s) ...")
    config: Any = importlib.import_module("numba").config
    # numba imports much of scipy to look for a fast matrix product, which no kernel needs. What it finds counts for all
    # functions of the process, so a program that uses weft as a library is left to find it.
    hidden = "scipy.linalg"
    missing = own_process and hidden not in sys.modules
    if missing:
        sys.modules[hidden] = None  # type: ignore[assignment]
    before = config.CACHE_DIR
    config.CACHE_DIR = str(cache_dir(package))  # a function asks for it when it is defined
    try:
        return importlib.import_module(name)
    finally:
        config.CACHE_DIR = before
        if missing:
            del sys.modules[hidden]
