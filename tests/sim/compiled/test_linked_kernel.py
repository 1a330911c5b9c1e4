"""Functions that are only linked: what becomes of them under another numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import numba.core.untyped_passes as passes
{change}
from numba import njit
from weft.sim.compiled.memory_kernel import _linked, inner
@inner()
def twice(x): return 2 * x
@njit
def four(x): return twice(twice(x))
print(bool(_linked), four(1))
"""


def run(change: str, tmp_path: Path) -> str:
    code = CODE.format(change=change)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_numba_with_other_insides_compiles_in_its_own_way(tmp_path: Path) -> None:
    assert run("", tmp_path) == "True 4\n"
    assert run("del passes.FixupArgs", tmp_path) == "False 4\n"
