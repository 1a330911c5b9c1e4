"""Rows of the engine's arrays: with NUMBA_BOUNDSCHECK=1 no index outside an array goes unnoticed, and integers are wide
wherever compiled code sees them."""

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


WIDE_KERNEL = """
from numba import njit
from weft.sim.compiled import memory_kernel as m


@m.inner()
def twice(E, x):
    return 2 * x


@njit
def sums(E, j):
    job, link, scalars = m.jobs(E)[j], m.links(E)[j], m.scalars(E)
    fields = twice(E, job.node0), twice(E, link.binding), twice(E, scalars.n_heap), twice(E, m.where(E)[j])
    total = 0
    for x in range(job.node0, job.node1):
        total += twice(E, x)
    job.left = job.left - 4
    m.where(E)[j + 1] = m.where(E)[j] - 1
    m.noted(E)[j] = 255
    link.tight = 1
    return fields, total, twice(E, m.noted(E)[j])
"""

WIDE_CODE = """
from weft.sim.compiled import state
import wide_kernel

arrays = state.allocate(2, 2, jobs=2)
arrays.jobs["node0"], arrays.jobs["node1"], arrays.jobs["left"] = (0, -3), (0, 2), (0, 1)
arrays.links["binding"], arrays.where[:] = (0, -1), -(2**31)
arrays.where[1] = 2**31 - 1
table = state.address_table(arrays)
print(wide_kernel.sums(table.ctypes.data, 1))
print(arrays.jobs["left"].tolist(), arrays.where[:3].tolist(), arrays.jobs["node1"].tolist())
print(arrays.links[["binding", "tight", "dirty"]].tolist(), arrays.noted[:3].tolist())
print(len(wide_kernel.twice.signatures))
"""


def test_integers_of_any_width_are_of_one_kind(tmp_path: Path) -> None:
    """Signs are kept, neighbours are not touched, sums do not overflow, and a function is compiled once for all."""
    (tmp_path / "wide_kernel.py").write_text(WIDE_KERNEL)
    folders = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": folders, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", WIDE_CODE], env=environment, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        f"((-6, -2, 0, {2**32 - 2}), -10, 510)", f"[0, -3] [{-(2**31)}, {2**31 - 1}, {2**31 - 2}] [0, 2]",
        "[(0, 0, 0), (-1, 1, 0)] [0, 255, 0]", "1",
    ], done.stderr  # fmt: skip


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
