"""How transfers that meet on a link or a server share it: the constants that the models of sharing have in common.

k-way sharing on 10 GbE: k transfers on a server take k b + (k - 1) eta per byte (Ada-SRSF, Eq. 5). The constants are
those of the authors' code (0.856 and 0.235 ms per MB), with which its results were found; the paper's own fit has
b = 8.53e-10 and a start-up time of 6.69e-4 s.
"""

from __future__ import annotations

import math

K_WAY_B_S_PER_BYTE = 8.56e-10  # alone
K_WAY_ETA_S_PER_BYTE = 2.35e-10  # what each further transfer adds


def rate_unit(fastest_bytes_per_s: float) -> float:
    """The unit in which max-min counts rates: a power of two, 2^-50 of the fastest link or finer."""
    return math.ldexp(1.0, math.frexp(fastest_bytes_per_s)[1] - 50)
