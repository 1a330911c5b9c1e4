"""What was run and measured, from the tables of runs, or of summaries, and of systems."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from weft.errors import InputError

COLUMNS = ("submitter", "system", "benchmark", "gpu", "accelerators", "nodes", "gbs", "step_s")
KEY = ["submitter", "system", "benchmark"]


@dataclass(frozen=True)
class Case:
    """A submission: its layout, its machines, and the median step of its runs."""

    submitter: str
    system: str
    benchmark: str
    gpu: str
    gpus: int
    nodes: int
    batch: int  # samples of a step
    tensor: int
    pipeline: int
    virtual: int
    context: int
    micro_batches: int
    dtype: str
    sharded: bool
    gradient_overlap: bool
    gather_overlap: bool
    tensor_overlap: bool
    domain: int  # GPUs that NVLink joins
    nic_gbps: float  # of a node, all together
    step_s: float

    @property
    def id(self) -> str:
        """Submitter, system and benchmark."""
        return f"{self.submitter}/{self.system}/{self.benchmark}"

    @property
    def data(self) -> int:
        """Data-parallel groups."""
        return self.gpus // (self.tensor * self.pipeline * self.context)

    @property
    def per_gpu(self) -> float:
        """Samples per second of a GPU."""
        return self.batch / self.step_s / self.gpus


def table(folder: Path, name: str) -> pl.DataFrame | None:
    """A table of a folder, compressed or not; None if it is not there."""
    for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv"):
        if path.is_file():
            content = path.read_bytes()
            try:
                plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
                return pl.read_csv(plain, infer_schema=False)
            except (pl.exceptions.PolarsError, OSError, EOFError) as error:
                raise InputError(f"{path}: this is no table ({str(error).splitlines()[0]})") from None
    return None


def cases(folder: Path, rules: Mapping[str, Any]) -> list[Case]:
    """Submissions with a step time of a successful run."""
    runs = table(folder, "runs")
    frame = table(folder, "summary") if runs is None else runs
    if frame is None:
        raise InputError(
            f"{folder}: there is neither runs.csv nor summary.csv; give the folder of such a table with --data"
        )
    if missing := [name for name in COLUMNS if name not in frame.columns]:
        raise InputError(f"{folder}: no column {', '.join(missing)}; the table of runs has {', '.join(COLUMNS)}, ...")
    if "status" in frame.columns:
        frame = frame.filter(pl.col("status") == "success")
    systems = table(folder, "systems")
    about = {} if systems is None else {(r["submitter"], r["system"]): r for r in systems.iter_rows(named=True)}
    found = []
    for part in frame.partition_by(KEY, maintain_order=True):
        steps = sorted(_number(value) for value in part["step_s"] if _number(value) > 0)
        row = part.row(0, named=True)
        if steps and _number(row["gbs"]) >= 1 and _number(row["accelerators"]) >= 1:
            median = (steps[(len(steps) - 1) // 2] + steps[len(steps) // 2]) / 2
            found.append(_case(row, about.get((row["submitter"], row["system"]), {}), median, rules))
    return found


def _case(row: Mapping[str, Any], about: Mapping[str, Any], step_s: float, rules: Mapping[str, Any]) -> Case:
    gpus, batch = _count(row, "accelerators"), _count(row, "gbs")
    pipeline, context = _count(row, "pp"), _count(row, "cp")
    data = _count(row, "dp") if row.get("dp") else 0
    tensor = _count(row, "tp") if row.get("tp") else gpus // (data * pipeline * context) if data else 1
    data = gpus // (tensor * pipeline * context)
    mine = max(1, batch // max(data, 1))  # samples of a data-parallel group
    micro = _count(row, "mbs") if row.get("mbs") else max(1, mine // _count(row, "grad_accum"))
    nodes, gpu = max(1, _count(row, "nodes")), row["gpu"]
    each = gpus // nodes
    nics = _number(about.get("nics_per_node")) * _number(about.get("nic_gbps")) or each * rules["nic_gbps"].get(
        gpu, 400
    )
    said = (row.get("precision") or "").strip()
    dtype = "fp4" if "fp4" in said else said or ("bf16" if row["benchmark"] == "flux1" else rules["unsaid"])
    # A domain is filled by whole groups of GPUs: 64 of 72 where the job has powers of two.
    domain = int(_number(about.get("gpu_link_domain"))) or (72 if gpu.startswith("GB") else each)
    domain = next((k for k in range(min(domain, gpus), 0, -1) if gpus % k == 0 and k % each == 0), each)
    return Case(
        row["submitter"], row["system"], row["benchmark"], gpu, gpus, nodes, batch, tensor, pipeline, _count(row,
        "vpp"), context, max(1, mine // micro), dtype, _flag(row, "distopt", True), _flag(row, "grad_overlap", True),
        _flag(row, "param_overlap", True), _flag(row, "tp_overlap", False), domain, nics, step_s,
    )  # fmt: skip


def _number(value: Any) -> float:
    try:
        return float(value or 0)
    except ValueError:
        return 0.0


def _count(row: Mapping[str, Any], name: str) -> int:
    return max(1, int(_number(row.get(name))))


def _flag(row: Mapping[str, Any], name: str, default: bool) -> bool:
    said = str(row.get(name) or "").strip().lower()
    return default if not said else said in ("true", "1", "1.0", "yes")
