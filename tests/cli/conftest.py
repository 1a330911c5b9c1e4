import pytest

from weft.runs.prepare import compile_kernels


@pytest.fixture(scope="session", autouse=True)
def _kernels() -> None:
    compile_kernels()
