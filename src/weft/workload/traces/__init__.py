"""One reader per public trace format; `FORMATS` lists them in the order in which they are tried."""

from __future__ import annotations

from weft.workload.traces import (
    acme,
    chronus,
    dally,
    dlrm,
    elasticflow,
    gavel,
    helios,
    muri,
    openb,
    pai,
    parquet,
    philly,
    plain,
    pollux,
    shockwave,
    slurm,
    spot,
    themis,
    tiresias,
)
from weft.workload.traces.base import Format

__all__ = ["FORMATS"]

_MODULES = (
    plain, parquet, philly, helios, pai, acme, elasticflow, openb, gavel, shockwave, muri, chronus, tiresias, themis,
    pollux, dally, slurm, spot, dlrm,
)  # fmt: skip

FORMATS: dict[str, Format] = {reader.name: reader for module in _MODULES for reader in module.FORMATS}
