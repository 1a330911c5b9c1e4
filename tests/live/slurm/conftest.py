"""A real Slurm of 16 nodes for the tests of this folder, one for each process that runs tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import missing_engine
from tests.live.slurm.serving import Serving
from weft.live.slurm.sandbox import Sandbox, missing


@pytest.fixture(scope="session")
def slurm16(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """Sixteen nodes of eight GPUs, four to a leaf switch, with weft's hook and TaskProlog.

    Where that is allowed they go before other processes, this one too: its clocks are real, and the tests beside it
    only compute."""
    if why := missing():
        missing_engine(f"Slurm ({why})")
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    with Sandbox(tmp_path_factory.mktemp("slurm"), 16) as box:
        yield box


@pytest.fixture
def box(slurm16: Sandbox) -> Iterator[Sandbox]:
    """The same, empty before and after each test."""
    yield slurm16
    slurm16.clear()


@pytest.fixture
def serving(box: Sandbox, tmp_path: Path) -> Iterator[Serving]:
    """Makes servers of this Slurm, and closes what is open in the end."""
    made = Serving(box, tmp_path)
    yield made
    made.close()
