"""Units: inside weft time is seconds, size is bytes, speed is bytes per second; these convert at the edges."""

MB = 1e6
MIB = float(2**20)
GB = 1e9
GIB = float(2**30)
GBIT_PER_S = 1e9 / 8.0  # one Gbit/s in bytes per second


def gbps_to_bytes_per_s(gbps: float) -> float:
    """Gbit/s as bytes per second."""
    return gbps * GBIT_PER_S


def bytes_per_s_to_gbps(bytes_per_s: float) -> float:
    """Bytes per second as Gbit/s."""
    return bytes_per_s / GBIT_PER_S
