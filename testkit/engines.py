"""Real engines that tests run on or compare with, and what happens where one is missing."""

import os
from functools import cache
from importlib import import_module
from typing import Any

import pytest

__all__ = ["load_torch", "missing_engine", "required", "torch"]


def required() -> str | None:
    """The variable that asks for every engine at its full length, as CI does; None where they are optional."""
    wanted = ("WEFT_REQUIRE_ENGINES", "CI")
    return next((name for name in wanted if os.environ.get(name, "").lower() not in ("", "0", "false")), None)


def missing_engine(name: str) -> None:
    """Skip with a reason (a whole module, if called while it is imported); in CI, where engines are installed, fail."""
    if variable := required():
        pytest.fail(f"{name} is not installed, and {variable} is set", pytrace=False)
    pytest.skip(f"{name} is not installed", allow_module_level=True)


@cache
def load_torch() -> Any:
    """PyTorch, which the profiler measures with; `make torch` brings a build without CUDA."""
    try:
        torch = import_module("torch")
    except ImportError:
        missing_engine("PyTorch (make torch)")
        raise
    torch.set_num_threads(1)  # tests run side by side: threads of each that wait for the others would only spin
    return torch


class _WhenUsed:
    """PyTorch, imported when a test first uses it: processes that only collect such tests need seconds less."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest asks everything in a module for these, while it looks for tests
            raise AttributeError(name)
        return getattr(load_torch(), name)


torch: Any = _WhenUsed()
