"""How kernels reach the engine's memory: one table of addresses and lengths instead of thirty array arguments.

Passing every array to every function made calls dearer than the work they do (and compilation five times as long).
`E` is that table; `jobs(E)` is the array of jobs. Readable twin: `weft.network.state.Arrays`.
"""

import numpy as np
from numba import carray, config, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from weft.network import plain_memory
from weft.network.state import COMP, FLOW, GPU, JOB, LEAD, LINK, NODE, RECORD, SEGMENT

TABLE = types.int64[::1]  # the type of E; functions called with several kinds of integers name their types, to be
# compiled once instead of once for each

I4, I8, F8 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float64)


@intrinsic
def _pointer(typingctx, address):
    """An address as a pointer that carray understands."""

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(address), codegen


if config.DISABLE_JIT:  # intrinsics exist in compiled code only
    carray, _pointer = plain_memory.carray, int  # type: ignore[assignment]


@njit(cache=True)
def jobs(E):
    return carray(_pointer(E[0]), E[1], JOB)


@njit(cache=True)
def nodes(E):
    return carray(_pointer(E[2]), E[3], NODE)


@njit(cache=True)
def succ(E):
    return carray(_pointer(E[4]), E[5], I4)


@njit(cache=True)
def flows(E):
    return carray(_pointer(E[6]), E[7], FLOW)


@njit(cache=True)
def ranks(E):
    return carray(_pointer(E[8]), E[9], I4)


@njit(cache=True)
def leads(E):
    return carray(_pointer(E[10]), E[11], LEAD)


@njit(cache=True)
def follows(E):
    return carray(_pointer(E[12]), E[13], I4)


@njit(cache=True)
def links(E):
    return carray(_pointer(E[14]), E[15], LINK)


@njit(cache=True)
def gpus(E):
    return carray(_pointer(E[16]), E[17], GPU)


@njit(cache=True)
def comps(E):
    return carray(_pointer(E[18]), E[19], COMP)


@njit(cache=True)
def heap_key(E):
    return carray(_pointer(E[20]), E[21], F8)


@njit(cache=True)
def heap_id(E):
    return carray(_pointer(E[22]), E[23], I4)


@njit(cache=True)
def where(E):
    return carray(_pointer(E[24]), E[25], I4)


@njit(cache=True)
def ready(E):
    return carray(_pointer(E[26]), E[27], I4)


@njit(cache=True)
def finished_nodes(E):
    return carray(_pointer(E[28]), E[29], I4)


@njit(cache=True)
def fresh(E):
    return carray(_pointer(E[30]), E[31], I4)


@njit(cache=True)
def dirty(E):
    return carray(_pointer(E[32]), E[33], I4)


@njit(cache=True)
def held(E):
    return carray(_pointer(E[34]), E[35], I4)


@njit(cache=True)
def dirty_gpus(E):
    return carray(_pointer(E[36]), E[37], I4)


@njit(cache=True)
def batch(E):
    return carray(_pointer(E[38]), E[39], I4)


@njit(cache=True)
def members(E):
    return carray(_pointer(E[40]), E[41], I4)


@njit(cache=True)
def ticked(E):
    return carray(_pointer(E[42]), E[43], I4)


@njit(cache=True)
def work_nodes(E):
    return carray(_pointer(E[44]), E[45], I4)


@njit(cache=True)
def work_links(E):
    return carray(_pointer(E[46]), E[47], I4)


@njit(cache=True)
def work_stack(E):
    return carray(_pointer(E[48]), E[49], I4)


@njit(cache=True)
def fill_key(E):
    return carray(_pointer(E[50]), E[51], I8)


@njit(cache=True)
def fill_id(E):
    return carray(_pointer(E[52]), E[53], I4)


@njit(cache=True)
def ratios(E):
    return carray(_pointer(E[54]), E[55], F8)


@njit(cache=True)
def records(E):
    return carray(_pointer(E[56]), E[57], RECORD)


@njit(cache=True)
def segments(E):
    return carray(_pointer(E[58]), E[59], SEGMENT)


@njit(cache=True)
def finished(E):
    return carray(_pointer(E[60]), E[61], I4)


@njit(cache=True)
def ints(E):
    return carray(_pointer(E[62]), E[63], I8)


@njit(cache=True)
def floats(E):
    return carray(_pointer(E[64]), E[65], F8)
