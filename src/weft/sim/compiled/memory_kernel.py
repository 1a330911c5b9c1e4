"""How kernels reach the engine's memory: one table of addresses and lengths instead of thirty array arguments.

Passing every array to every function made calls cost more than the work they do, and compilation five times as long.
`E` is the address of that table; `jobs(E)` are the rows of the jobs. Readable twin: `weft.sim.compiled.state.Arrays`.
"""

from typing import Any

import numpy as np
from llvmlite import binding
from numba import cfunc, config, njit, types

from weft.sim.compiled import plain_memory, rows_kernel
from weft.sim.compiled.state import (
    CHAIN,
    COMP,
    FLOW,
    GPU,
    JOB,
    LEAD,
    LINK,
    LOAD,
    NODE,
    RECORD,
    SCALARS,
    SEAT,
    SEGMENT,
    Arrays,
)

TABLE = types.int64  # the type of E

_options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # nobody else calls them


def inner(*, merged=False):
    """A kernel function that only kernel functions call; it is compiled with its first caller.

    numba compiles it once for each combination of argument types. Rows give nothing but int64 and float64. A number
    that is written out, such as 0, has a type of its own, so callers write int64(0). A function that is `merged`
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


def _rows(name, dtype):
    return _access.reader(name, _address_of(name), dtype)


def _address_of(name):
    """Where the table has the address of an array; the word after it is the array's length."""
    return 2 * Arrays._fields.index(name)


jobs = _rows("jobs", JOB)
nodes = _rows("nodes", NODE)
succ = _rows("succ", I4)
flows = _rows("flows", FLOW)
ranks = _rows("ranks", I4)
leads = _rows("leads", LEAD)
follows = _rows("follows", I4)
links = _rows("links", LINK)
gpus = _rows("gpus", GPU)
comps = _rows("comps", COMP)
heap_key = _rows("heap_key", F8)
heap_id = _rows("heap_id", I4)
where = _rows("where", I4)
ready = _rows("ready", I4)
finished_nodes = _rows("finished_nodes", I4)
fresh = _rows("fresh", I4)
dirty = _rows("dirty", I4)
held = _rows("held", I4)
dirty_gpus = _rows("dirty_gpus", I4)
batch = _rows("batch", I4)
members = _rows("members", I4)
ticked = _rows("ticked", I4)
work_nodes = _rows("work_nodes", I4)
work_links = _rows("work_links", I4)
work_stack = _rows("work_stack", I4)
fill_key = _rows("fill_key", I8)
fill_id = _rows("fill_id", I4)
ratios = _rows("ratios", F8)
records = _rows("records", RECORD)
segments = _rows("segments", SEGMENT)
finished = _rows("finished", I4)
scalars = _access.one("scalars", _address_of("scalars"), SCALARS)
seats = _rows("seats", SEAT)
drawn = _rows("drawn", I4)
starters = _rows("starters", I4)
loads = _rows("loads", LOAD)
live = _rows("live", U1)
since = _rows("since", F8)
stirs = _rows("stirs", I4)
noted = _rows("noted", U1)
chain = _rows("chain", CHAIN)

n_jobs, n_links, n_records = (_access.word(_address_of(name) + 1) for name in ("jobs", "links", "records"))
