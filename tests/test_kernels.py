import gc
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from weft import kernels
from weft.sim import few_collections


def test_the_key_covers_every_module_that_a_kernel_takes_something_from() -> None:
    names = {source.name for source in kernels.sources("weft.sim.compiled")}
    assert {"engine_kernel.py", "state.py", "units.py"} <= names  # a kernel, its constants, and theirs
    assert "world.py" not in names


def test_a_changed_constant_changes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weft" / "room").mkdir(parents=True)
    (tmp_path / "weft" / "room" / "a_kernel.py").write_text("from weft.room import (\n    numbers as n,\n)\n")
    numbers = tmp_path / "weft" / "room" / "numbers.py"
    numbers.write_text("MISSED = 1.5\n")
    monkeypatch.setattr(kernels, "_ROOT", tmp_path)
    kernels.cache_dir.cache_clear()
    before = kernels.cache_dir("weft.room")
    numbers.write_text("MISSED = 2.5\n")
    kernels.cache_dir.cache_clear()
    assert kernels.cache_dir("weft.room") != before
    kernels.cache_dir.cache_clear()


def test_another_copy_of_the_package_compiles_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """numba keeps kernels by the folder of their source, so those of a clone are of no use though sources are equal."""
    found = []
    for copy in ("one", "two"):
        (tmp_path / copy / "weft" / "room").mkdir(parents=True)
        (tmp_path / copy / "weft" / "room" / "a_kernel.py").write_text("A = 1\n")
        monkeypatch.setattr(kernels, "_ROOT", tmp_path / copy)
        kernels.cache_dir.cache_clear()
        found.append(kernels.cache_dir("weft.room"))
    kernels.cache_dir.cache_clear()
    assert found[0] != found[1]


def test_numbas_flags_are_part_of_the_key(tmp_path: Path) -> None:
    """Those that change what is compiled, from the environment or from numba's own file; others are not."""

    def folder(**more: str) -> str:
        environment = {**{k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}, **more}
        code = "from weft.kernels import cache_dir; print(cache_dir())"
        return subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        ).stdout  # fmt: skip

    usual = folder()
    assert folder(NUMBA_BOUNDSCHECK="1") != usual
    assert folder(NUMBA_NUM_THREADS="1") == usual
    (tmp_path / ".numba_config.yaml").write_text("boundscheck: 1\n")
    assert folder() == folder(NUMBA_BOUNDSCHECK="1") != usual


CODE = """
import os
from numba import config
before = (config.CACHE_DIR, dict(os.environ))
from weft.kernels import load
kernel = load("weft.policies.pace.mcs.mcs_kernel")
assert (config.CACHE_DIR, dict(os.environ)) == before
assert str(__import__("weft.kernels").kernels.cache_dir("weft.policies.pace.mcs")) in kernel.decide.stats.cache_path
"""


def test_loading_a_kernel_leaves_numbas_settings_and_the_environment_alone() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)


@pytest.mark.parametrize(("own_process", "imported"), [(False, True), (True, False)])
def test_numba_finds_its_matrix_product_in_a_program_that_uses_weft(own_process: bool, imported: bool) -> None:
    """numba looks for it in scipy.linalg once in the life of a process. The weft command needs none and saves that."""
    code = f"""
import sys
from weft import kernels
kernels.own_process = {own_process}
kernels.load("weft.sim.compiled.engine_kernel")
assert ("scipy.linalg" in sys.modules) == {imported}
import scipy.linalg
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_leaves_what_its_caller_has_frozen() -> None:
    """Also if there was a run before: it must leave nothing behind that is frozen with the rest and then freed."""
    with few_collections():
        pass
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with few_collections():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
    with few_collections():
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0


def test_runs_that_overlap_leave_the_collector_as_the_first_one_found_it() -> None:
    """A begins, B begins, A ends, B ends, as runs in two threads may. Collections stay rare until B ends."""
    before = gc.get_threshold()
    a, b = few_collections(), few_collections()
    try:
        with ExitStack() as until_b_ends:
            with a:
                until_b_ends.enter_context(b)
                rare = gc.get_threshold()
                assert rare != before
            assert gc.get_threshold() == rare
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == before
        assert gc.get_freeze_count() == 0
    finally:
        gc.set_threshold(*before)


PLAIN = """
from types import SimpleNamespace
import numpy as np
from weft.kernels import load
from weft.policies.interleave.cassini.rotate import rotate
from benchmarks.cassini import random_circles
from testkit.oracles.job import slow_factor

spec = SimpleNamespace(seed=7, jitter=0.1, straggle_p=0.5, straggle_x=3.0)
kernel = load("weft.sim.compiled.random_kernel")
for i in range(9):
    assert kernel.slow_factor(7, 2, i, 1, 0.1, 0.5, 3.0) == slow_factor(spec, 2, i, 1)
rng = np.random.default_rng(1)
for _ in range(3):
    assert rotate(random_circles(rng, 3), 50.0, restarts=4, work=0).score > 0.9
"""


def test_numbers_that_wrap_around_in_plain_python_are_no_warning() -> None:
    """Those that jitter and the starts of rotations are drawn from."""
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", PLAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
