"""The one place that imports torch, so that a machine without it gets one line instead of a traceback."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.errors import InputError


def load_torch() -> Any:
    """The torch module."""
    try:
        return import_module("torch")
    except ImportError as error:
        raise InputError(
            f"profiling needs PyTorch, which does not load here ({error}); pip install 'weft[torch]'"
        ) from error


def optional(name: str) -> Any | None:
    """A package that helps when it is installed (torchvision, transformers)."""
    try:
        return import_module(name)
    except ImportError:
        return None
