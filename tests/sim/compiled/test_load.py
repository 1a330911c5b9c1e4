import ast
from pathlib import Path

import pytest

from weft.sim.compiled import load as kernels
from weft.sim.warm import compile_all


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kernels, "cache_dir", lambda: tmp_path)
    return tmp_path


def test_nothing_is_compiled_in_an_empty_folder(folder: Path) -> None:
    assert not kernels.is_cached()


def test_kernels_that_were_compiled_are_found() -> None:
    compile_all()
    assert kernels.is_cached()


def test_only_what_is_called_from_outside_is_kept_as_machine_code() -> None:
    """The rest is linked into it: compiled for itself, and read back by nobody, it would be a fifth of the time."""
    compile_all()
    kept = {file.name.split("-")[0] for file in kernels.cache_dir().glob("*/*.nbc")}
    assert {"engine_kernel.run", "membership_kernel.attach", "maxmin_kernel.settle_maxmin"} <= kept
    assert not kept & {"heap_kernel.heap_set", "fill_kernel.fill", "skip_kernel.tick_exact", "tasks_kernel.admit"}


def test_no_number_is_written_out_in_a_call_between_kernels() -> None:
    """numba would compile the callee once more for each: 0 has a type of its own, int64(0) has not."""
    modules = [ast.parse(file.read_text("utf-8")) for file in Path(kernels.__file__).parent.glob("*_kernel.py")]
    functions = [node for module in modules for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    inner = {
        function.name for function in functions if any("inner(" in ast.unparse(d) for d in function.decorator_list)
    }
    calls = [node for module in modules for node in ast.walk(module) if isinstance(node, ast.Call)]
    between = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id in inner]
    assert len(between) > 100
    bare = [ast.unparse(call) for call in between if any(_is_whole(argument) for argument in call.args)]
    assert not bare


def _is_whole(argument: ast.expr) -> bool:
    value = argument.operand if isinstance(argument, ast.UnaryOp) else argument
    return isinstance(value, ast.Constant) and isinstance(value.value, int)  # True and False, too
