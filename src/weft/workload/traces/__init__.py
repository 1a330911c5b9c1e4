"""Readers of public traces; `FORMATS` lists them in the order in which they are tried."""

from __future__ import annotations

from weft.workload.traces.base import Format
from weft.workload.traces.clusters import ACME, CRUX, DLRM, ELASTICFLOW, HELIOS, OPENB, PAI, PHILLY, SPOT
from weft.workload.traces.schedulers import CHRONUS, DALLY, GAVEL, MURI, POLLUX, SHOCKWAVE, THEMIS, TIRESIAS
from weft.workload.traces.tools import PARQUET, PLAIN, SLURM

_READERS = (
    *PLAIN, *PARQUET, *PHILLY, *HELIOS, *PAI, *ACME, *ELASTICFLOW, *OPENB, *GAVEL, *SHOCKWAVE, *MURI, *CHRONUS,
    *TIRESIAS, *THEMIS, *POLLUX, *DALLY, *SLURM, *SPOT, *DLRM, *CRUX,
)  # fmt: skip

FORMATS: dict[str, Format] = {reader.name: reader for reader in _READERS}
