"""How kernels reach the engine's memory: one table of addresses and lengths instead of thirty array arguments.

Passing every array to every function made calls cost more than the work they do, and compilation five times as long.
`E` is the address of that table; `jobs(E)` are the rows of the jobs. Readable twin: `weft.sim.compiled.state.Arrays`.
"""

from typing import Any

from llvmlite import binding
from numba import cfunc, config, njit, types

from weft.sim.compiled import plain_memory, rows_kernel
from weft.sim.compiled.state import Arrays, allocate

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

_access = plain_memory if config.DISABLE_JIT else rows_kernel


def _address_of(name):
    """Where the table has the address of an array; the word after it is the array's length."""
    return 2 * Arrays._fields.index(name)


# Each array by its name: `jobs`, `nodes` and so on are functions of E. There is one record of `scalars`.
for _name, _array in allocate(1, 1)._asdict().items():
    _make = _access.reader if _array.ndim else _access.one
    globals()[_name] = _make(_name, _address_of(_name), _array.dtype)

n_jobs, n_links, n_records = (_access.word(_address_of(name) + 1) for name in ("jobs", "links", "records"))
