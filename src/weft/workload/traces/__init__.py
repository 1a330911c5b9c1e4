"""Readers of public traces; `FORMATS` lists them in the order in which they are tried."""

from __future__ import annotations

from weft.workload.traces.base import Delimited, JsonList
from weft.workload.traces.clusters import ACME, CRUX, DLRM, ELASTICFLOW, HELIOS, OPENB, PAI, PHILLY, SPOT
from weft.workload.traces.schedulers import CHRONUS, DALLY, GAVEL, MURI, POLLUX, SHOCKWAVE, THEMIS, TIRESIAS
from weft.workload.traces.tools import PLAIN, SLURM, Parquet

Format = Delimited | JsonList | Parquet

_READERS: tuple[Format, ...] = (
    PLAIN, Parquet(), *PHILLY, *HELIOS, PAI, *ACME, *ELASTICFLOW, OPENB, GAVEL, SHOCKWAVE, MURI, CHRONUS, TIRESIAS,
    *THEMIS, POLLUX, DALLY, SLURM, SPOT, DLRM, CRUX,
)  # fmt: skip

FORMATS = {reader.name: reader for reader in _READERS}
