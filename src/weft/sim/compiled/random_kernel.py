"""Jitter and stragglers: factors on compute time keyed by (seed, job, iteration, worker), some by task too, so free of
event order.

Only integer hashing and the four basic operations are used: the same numbers on every machine.
"""

import numpy as np
from numba import config

from weft.sim.compiled.memory_kernel import inner

_A = np.uint64(0x9E3779B97F4A7C15)
_B = np.uint64(0xBF58476D1CE4E5B9)
_C = np.uint64(0x94D049BB133111EB)
_D = np.uint64(0xD6E8FEB86659FD93)
_MASK16 = np.uint64(0xFFFF)


@inner()
def mix(x):
    """splitmix64's finaliser."""
    x = (x ^ (x >> np.uint64(30))) * _B
    x = (x ^ (x >> np.uint64(27))) * _C
    return x ^ (x >> np.uint64(31))


@inner()
def slow_factor(seed, job, iteration, worker, jitter, straggle_p, straggle_x):
    """1 + jitter x z, z nearly normal (four summed uniforms, scaled to unit variance), times straggle_x with
    probability straggle_p."""
    x = mix(np.uint64(seed) * _A + np.uint64(job))
    x = mix(x + np.uint64(iteration) * _D + np.uint64(1))
    x = mix(x + np.uint64(worker) * _A + np.uint64(2))
    total = 0.0
    for i in range(4):
        total += np.float64((x >> np.uint64(16 * i)) & _MASK16) + 0.5
    z = (total / 65536.0 - 2.0) * 1.7320508075688772
    factor = max(1.0 + jitter * z, 0.05)
    if straggle_p > 0.0:
        y = mix(x + np.uint64(3))
        if np.float64(y >> np.uint64(11)) / 9007199254740992.0 < straggle_p:
            factor *= straggle_x
    return factor


@inner()
def task_factor(seed, job, iteration, worker, task, spread, uneven):
    """1 + spread x z, drawn anew for each task of a worker. z is nearly normal; if work is uneven (sequences of other
    lengths), it is u^5 for a uniform u, scaled to mean 0 and variance 1."""
    x = mix(np.uint64(seed) * _A + np.uint64(job))
    x = mix(x + np.uint64(iteration) * _D + np.uint64(4))
    x = mix(x + np.uint64(worker) * _A + np.uint64(5))
    x = mix(x + np.uint64(task) * _D + np.uint64(6))
    if uneven != 0:
        u = (np.float64(x >> np.uint64(11)) + 0.5) / 9007199254740992.0
        return max(1.0 + spread * ((u * u * u * u * u - 1.0 / 6.0) * 3.9799497484264799), 0.05)
    total = 0.0
    for i in range(4):
        total += np.float64((x >> np.uint64(16 * i)) & _MASK16) + 0.5
    return max(1.0 + spread * ((total / 65536.0 - 2.0) * 1.7320508075688772), 0.05)


if config.DISABLE_JIT:  # numbers wrap around on purpose, and numpy would warn of it
    slow_factor, task_factor = (np.errstate(over="ignore")(one) for one in (slow_factor, task_factor))
