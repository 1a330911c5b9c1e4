import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "weft"
HEAVY = ("numba", "polars", "matplotlib", "scipy", "torch", "numpy", "pydantic")


def imported(path: Path) -> set[str]:
    """Top-level packages that a module imports anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.partition(".")[0])
    return found


def test_numba_is_imported_only_in_kernels() -> None:
    users = {path for path in SOURCE.rglob("*.py") if "numba" in imported(path)}
    assert users, "the engine has compiled kernels"
    assert not [str(p.relative_to(SOURCE)) for p in users if not p.stem.endswith("_kernel")]


def test_kernel_modules_are_named_so_for_a_reason() -> None:
    kernels = list(SOURCE.rglob("*_kernel.py"))
    compiled = ("import numba", "from numba", "weft.sim.compiled.memory_kernel import")
    assert not [p.name for p in kernels if not any(words in p.read_text(encoding="utf-8") for words in compiled)]


@pytest.mark.parametrize("code", ["import weft", "import weft.cli.main"])
def test_starting_loads_nothing_heavy(code: str) -> None:
    check = f"{code}; import sys; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_loads_nothing_heavy() -> None:
    check = (
        "import sys; from weft.cli.main import run; code = run(['--help']);"
        f"print(*(m for m in {HEAVY!r} if m in sys.modules), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert "simulate" in done.stdout
    assert done.stderr.split() == []
