"""Models that come from files: weft's own profiles, ASTRA-sim layer files, PipeDream graphs. The kind is detected."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from weft.errors import InputError
from weft.model.profile import Profile
from weft.workload import graphs
from weft.workload.graphs import Work
from weft.workload.profiles.files import MeasuredModel, parse_file
from weft.workload.profiles.layers import LayerFile, parse_layers, read_text
from weft.workload.profiles.measured import Measured
from weft.workload.profiles.pipedream import parse_pipedream
from weft.workload.zoo.entry import Layer, Timing
from weft.workload.zoo.gpus import same_gpu
from weft.workload.zoo.options import without
from weft.workload.zoo.timings import at_batch

__all__ = ["Content", "is_path", "measured_work", "read_model"]

Content = MeasuredModel | Profile | LayerFile | Work
_ENDINGS = (".json", ".txt", ".csv", ".tsv", ".gz")


def is_path(model: str) -> bool:
    """Whether a model's name is the path of a file: it has a folder in it, or the ending of one."""
    name = without(model)
    return name.lower().endswith(_ENDINGS) or "/" in name or "\\" in name


def read_model(path: str | Path) -> Content:
    """What a file says of a model; an InputError names the file, the field or line, and the remedy."""
    text = read_text(path)
    first = next((line for line in text.splitlines() if line.strip()), "")
    if str(path).lower().removesuffix(".gz").endswith(".json") or first.lstrip().startswith("{"):
        return parse_file(text, path)
    if re.match(r"\s*node\d+ -- ", first):
        return parse_pipedream(text, str(path))
    if re.fullmatch(r"[A-Z][A-Z_]+", (first.split() or [""])[0]):
        return parse_layers(text, str(path))
    raise InputError(
        f"{path}: it is no profile that weft wrote, no ASTRA-sim layer file and no PipeDream graph; "
        "`weft profile --out FILE.json` writes one"
    )


def measured_work(content: MeasuredModel, path: str, batch: int | None, gpu: str, dtype: str | None) -> Work:
    """Measurements as one layer: those of this GPU type, or else those of the type that was measured, unscaled."""
    usable = [m for m in content.measurements if dtype is None or _alike(m.dtype, dtype)]
    if not usable:
        there = ", ".join(dict.fromkeys(m.dtype for m in content.measurements))
        raise InputError(f"{path}: it has no measurement in {dtype}; use {there}")
    first = next((m for m in usable if same_gpu(m.gpu, gpu)), usable[0])
    alike = [m for m in usable if (m.gpu, m.dtype) == (first.gpu, first.dtype)]
    seen = at_batch([_timing_of(m, Path(path).name) for m in alike], batch or first.batch)
    work = graphs.work(content.model, (Layer(content.model, ()),), seen)
    return replace(work, layers=(replace(work.layers[0], gradients=(first.gradient_bytes,)),))


def _alike(dtype: str, wanted: str) -> bool:
    return dtype == wanted or dtype == f"{wanted}-weights"


def _timing_of(m: Measured, file: str) -> Timing:
    source = f"{file}, measured on {m.gpu}, {m.dtype}, {m.date}"
    buckets = tuple((b.bytes, b.ready_s) for b in m.buckets)
    return Timing(
        m.gpu,
        m.batch,
        m.forward_s,
        m.backward_s,
        source,
        m.dtype,
        m.memory_bytes,
        m.optimiser_s,
        buckets,
        memory_source=source,
    )
