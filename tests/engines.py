"""Real engines that tests run on or compare with, and what happens where one is missing."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import pytest

__all__ = ["load_torch", "missing_engine"]


def missing_engine(name: str) -> None:
    """Skip with a reason (a whole module, if called while it is imported); in CI, where engines are installed, fail."""
    for variable in ("WEFT_REQUIRE_ENGINES", "CI"):
        if os.environ.get(variable, "").lower() not in ("", "0", "false"):
            pytest.fail(f"{name} is not installed, and {variable} is set", pytrace=False)
    pytest.skip(f"{name} is not installed", allow_module_level=True)


def load_torch() -> Any:
    """PyTorch, which the profiler measures with; `make torch` brings a build without CUDA."""
    try:
        torch = import_module("torch")
    except ImportError:
        missing_engine("PyTorch (make torch)")
        raise
    torch.set_num_threads(1)  # tests run side by side: threads of each that wait for the others would only spin
    return torch
