"""Whether kernels must be compiled first, which is announced since it takes long."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.sim.compiled import load as kernels


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernels, "cache_dir", lambda: tmp_path)
    return tmp_path


def test_nothing_is_compiled_in_an_empty_folder(folder: Path) -> None:
    assert not kernels.is_cached()


def test_kernels_that_were_compiled_are_found() -> None:
    kernels.compile_all()
    assert kernels.is_cached()


def test_only_what_is_called_from_outside_is_kept_as_machine_code() -> None:
    """The rest is linked into it: compiled for itself, and read back by nobody, it would be a fifth of the time."""
    kernels.compile_all()
    kept = {file.name.split("-")[0] for file in kernels.cache_dir().glob("*/*.nbc")}
    assert {"engine_kernel.run", "attach_kernel.attach", "maxmin_kernel.settle_maxmin"} <= kept
    assert not kept & {"heap_kernel.heap_set", "fill_kernel.fill", "skip_kernel.tick_exact", "tasks_kernel.admit"}
