"""The constants of k-way sharing on 10 GbE: k transfers on a server take k b + (k - 1) eta per byte (Ada-SRSF, Eq. 5).

Those of the authors' code (0.856 and 0.235 ms per MB), with which its results were found; the paper's own fit has
b = 8.53e-10 and a start-up time of 6.69e-4 s.
"""

from __future__ import annotations

__all__ = ["K_WAY_B_S_PER_BYTE", "K_WAY_ETA_S_PER_BYTE"]

K_WAY_B_S_PER_BYTE = 8.56e-10  # alone
K_WAY_ETA_S_PER_BYTE = 2.35e-10  # what each further transfer adds
