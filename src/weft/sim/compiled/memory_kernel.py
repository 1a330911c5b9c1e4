"""How kernels reach the engine's memory: one table of addresses and lengths instead of thirty array arguments.

Passing every array to every function made calls cost more than the work they do, and compilation five times as long.
`E` is the address of that table; `jobs(E)` are the rows of the jobs. Readable twin: `weft.sim.compiled.state.Arrays`.
"""

from typing import Any

import numpy as np
from llvmlite import binding
from numba import cfunc, config, njit, types

from weft.sim.compiled import plain_memory, rows_kernel
from weft.sim.compiled.state import CHAIN, COMP, FLOW, GPU, JOB, LEAD, LINK, LOAD, NODE, RECORD, SCALARS, SEAT, SEGMENT

TABLE = types.int64  # the type of E

_options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # nobody else calls them


def inner(*, merged=False):
    """A kernel function that only kernel functions call; it is compiled with its first caller.

    It is compiled once more for every other kind of argument. Rows hold nothing but int64 and float64, whatever is in
    memory; a number that is written out is of its own kind, so callers pass it as int64(0). One that is `merged`
    becomes part of its callers, whatever the compiler thinks of its size: small instants spend much of their time in
    calls.
    """
    return njit(error_model="numpy", forceinline=merged, **_options)


def apart(signature):
    """A kernel function that callers reach by its name only: they are compiled and optimised without it.

    Otherwise whatever a function calls, directly or not, is optimised once more with it. An index error (with
    NUMBA_BOUNDSCHECK=1) cannot leave such a function: numba prints it and goes on, and pytest makes it a failure.
    """

    def register(function):
        if config.DISABLE_JIT:
            return function
        compiled = cfunc(signature, cache=True, error_model="numpy")(function)
        name = f"{function.__module__}.{function.__name__}"
        binding.add_symbol(name, compiled.address)
        return _keep.setdefault(name, (types.ExternalFunction(name, signature), compiled))[0]

    return register


_keep: dict[str, tuple[object, object]] = {}  # compiled code lives as long as somebody holds it

U1, I4, I8, F8 = (np.dtype(kind) for kind in (np.uint8, np.int32, np.int64, np.float64))

_access = plain_memory if config.DISABLE_JIT else rows_kernel
_rows, _word = _access.reader, _access.word

jobs = _rows(0, JOB)
nodes = _rows(2, NODE)
succ = _rows(4, I4)
flows = _rows(6, FLOW)
ranks = _rows(8, I4)
leads = _rows(10, LEAD)
follows = _rows(12, I4)
links = _rows(14, LINK)
gpus = _rows(16, GPU)
comps = _rows(18, COMP)
heap_key = _rows(20, F8)
heap_id = _rows(22, I4)
where = _rows(24, I4)
ready = _rows(26, I4)
finished_nodes = _rows(28, I4)
fresh = _rows(30, I4)
dirty = _rows(32, I4)
held = _rows(34, I4)
dirty_gpus = _rows(36, I4)
batch = _rows(38, I4)
members = _rows(40, I4)
ticked = _rows(42, I4)
work_nodes = _rows(44, I4)
work_links = _rows(46, I4)
work_stack = _rows(48, I4)
fill_key = _rows(50, I8)
fill_id = _rows(52, I4)
ratios = _rows(54, F8)
records = _rows(56, RECORD)
segments = _rows(58, SEGMENT)
finished = _rows(60, I4)
scalars = _access.one(62, SCALARS)
seats = _rows(64, SEAT)
drawn = _rows(66, I4)
starters = _rows(68, I4)
loads = _rows(70, LOAD)
live = _rows(72, U1)
since = _rows(74, F8)
stirs = _rows(76, I4)
noted = _rows(78, U1)
chain = _rows(80, CHAIN)

n_jobs = _word(1)
n_links = _word(15)
n_records = _word(57)
