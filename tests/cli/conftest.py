"""The commands say once that they compile kernels; here that is done before, so that stderr holds what is tested."""

from __future__ import annotations

import pytest

from weft.runs.prepare import compile_kernels


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    compile_kernels()
