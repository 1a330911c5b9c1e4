"""The engine's memory for kernels that run as plain Python (NUMBA_DISABLE_JIT=1): slow, but every index is checked.

memory_kernel uses this instead of numba's own view of an address, which exists in compiled code only.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

__all__ = ["carray"]


class _Row:
    """A row of a structured array: fields are attributes, reading gives plain numbers, writing goes to the array."""

    __slots__ = ("_columns", "_i")

    def __init__(self, columns: dict[str, memoryview], i: int) -> None:
        object.__setattr__(self, "_columns", columns)
        object.__setattr__(self, "_i", i)

    def __getattr__(self, name: str) -> Any:
        return self._columns[name][self._i]

    def __setattr__(self, name: str, value: Any) -> None:
        self._columns[name][self._i] = value


class _Rows:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._columns = {name: memoryview(array[name]) for name in array.dtype.names or ()}
        self._length = len(array)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, i: int) -> _Row:
        if not 0 <= i < self._length:
            raise IndexError(f"row {i} of {self._length}")
        return _Row(self._columns, i)


@cache
def carray(address: int, length: int, dtype: np.dtype[Any]) -> Any:
    """The array that lies at an address."""
    memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
    array = np.frombuffer(memoryview(memory), dtype)
    return _Rows(array) if dtype.names else memoryview(array)  # type: ignore[arg-type]
