"""Without PyTorch the profiler says in one line what is missing."""

from __future__ import annotations

import sys

import pytest

from weft.errors import InputError
from weft.profiling import torch_bridge


def test_missing_torch_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # what Python itself does for a module that cannot be imported
    with pytest.raises(InputError, match=r"pip install 'weft\[torch\]'") as error:
        torch_bridge.load_torch()
    assert "\n" not in str(error.value)


def test_an_optional_package_may_be_missing() -> None:
    assert torch_bridge.optional("no_such_package_of_models") is None
    assert torch_bridge.optional("json") is not None
