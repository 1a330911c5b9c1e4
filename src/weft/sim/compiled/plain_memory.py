"""The engine's memory for kernels that run as plain Python (NUMBA_DISABLE_JIT=1): slow, but every index is checked.

memory_kernel uses this instead of rows_kernel, which exists in compiled code only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


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

    def __getitem__(self, i: int) -> _Row:
        if not 0 <= i < self._length:
            raise IndexError(f"row {i} of {self._length}")
        return _Row(self._columns, i)


@cache
def _rows(address: int, length: int, dtype: np.dtype[Any]) -> Any:
    """The array that lies at an address."""
    memory = (ctypes.c_char * (length * dtype.itemsize)).from_address(address)
    array = np.frombuffer(memoryview(memory), dtype)
    return _Rows(array) if dtype.names else memoryview(array)  # type: ignore[arg-type]


def word(at: int) -> Callable[[int], int]:
    """A function: the at-th word of the table that lies at an address."""
    return lambda table: ctypes.c_int64.from_address(table + 8 * at).value


def reader(name: str, at: int, dtype: np.dtype[Any]) -> Callable[[int], Any]:
    """A function: the array of a name, whose address and length are the at-th word of a table and the one after it."""
    address, length = word(at), word(at + 1)
    return lambda table: _rows(address(table), length(table), np.dtype(dtype))


def one(name: str, at: int, dtype: np.dtype[Any]) -> Callable[[int], _Row]:
    """A function: the only record of an array, whose address is the at-th word of a table."""
    rows = reader(name, at, dtype)
    return lambda table: rows(table)[0]
