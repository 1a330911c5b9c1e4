"""Units: inside weft time is seconds, size is bytes, speed is bytes per second; these convert at the edges.

The constants of k-way sharing on 10 GbE, where k transfers on a server take k b + (k - 1) eta per byte (Ada-SRSF, Eq.
5), are those of the authors' code (0.856 and 0.235 ms per MB), with which its results were found; the paper's own fit
has b = 8.53e-10 and a start-up time of 6.69e-4 s.
"""

import math

MB = 1e6
MIB = float(2**20)
GB = 1e9
GBIT_PER_S = 1e9 / 8.0  # one Gbit/s in bytes per second
K_WAY_B_S_PER_BYTE = 8.56e-10  # alone
K_WAY_ETA_S_PER_BYTE = 2.35e-10  # what each further transfer adds


def gbps_to_bytes_per_s(gbps: float) -> float:
    """Gbit/s as bytes per second."""
    return gbps * GBIT_PER_S


def bytes_per_s_to_gbps(bytes_per_s: float) -> float:
    """Bytes per second as Gbit/s."""
    return bytes_per_s / GBIT_PER_S


def rate_unit(fastest_bytes_per_s: float) -> float:
    """The unit in which max-min counts rates: a power of two, 2^-50 of the fastest link or finer."""
    return math.ldexp(1.0, math.frexp(fastest_bytes_per_s)[1] - 50)
