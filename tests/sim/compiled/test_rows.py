"""Rows of the engine's arrays with NUMBA_BOUNDSCHECK=1: no index outside an array goes unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

KERNEL = """
from numba import int64, njit
from weft.sim.compiled import memory_kernel as m


@m.inner()
def _near(E, j):
    return int64(m.jobs(E)[j].done)


@m.apart(int64(m.TABLE, int64))
def _far(E, j):
    return int64(m.jobs(E)[j].done)


@njit
def near(E, j):
    return _near(E, j)


@njit
def far(E, j):
    return _far(E, j)
"""

CODE = """
from weft.sim.compiled import state
import probe_kernel

arrays = state.allocate(1, 1, jobs=8)
arrays.jobs["done"] = 5
table = state.address_table(arrays)
for row in (0, 7, 8, -1):
    try:
        print(probe_kernel.near(table.ctypes.data, row))
    except IndexError as error:
        print(str(error)[:14])
print(probe_kernel.far(table.ctypes.data, 7))
probe_kernel.far(table.ctypes.data, 8)
"""


def test_a_wrong_index_is_noticed(tmp_path: Path) -> None:
    """It raises; in a part that is compiled apart from its callers, it is at least said."""
    (tmp_path / "probe_kernel.py").write_text(KERNEL)
    folders = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {
        **os.environ, "PYTHONPATH": folders, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["5", "5", "no such row of", "no such row of", "5"]
    assert "IndexError: no such row of" in done.stderr
