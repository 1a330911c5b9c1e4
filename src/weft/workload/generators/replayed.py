"""Jobs taken from a trace: replayed as they came, or drawn from it as an empirical distribution."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from weft.errors import InputError, TraceError
from weft.workload.generators.draft import Draft, Fits, Times
from weft.workload.generators.drawn import draw_models, draw_sizes, iterations_between, log_normal_s
from weft.workload.generators.spec import WorkloadSpec
from weft.workload.streams import Stream
from weft.workload.traces.columns import parse_map
from weft.workload.traces.reading import read
from weft.workload.traces.rows import Trace, TraceJob
from weft.workload.zoo.names import same_model, without

_MOST_ROWS = 200_000  # a longer trace is not remembered: it would take too much memory
# The same model under another name.
SAME = {
    "alexnet": "alexnet", "bert": "bert-base", "bertbase": "bert-base", "bertlarge": "bert-large",
    "camembert": "camembert", "dlrm": "dlrm", "gpt1": "gpt-1", "gpt2": "gpt-2", "gpt3": "gpt-3",
    "inception3": "inception-v3", "inceptionv3": "inception-v3", "llama7b": "llama-7b", "lstm": "lstm-ptb",
    "lstmptb": "lstm-ptb", "mobilenetv3": "mobilenet-v3", "resnet18": "resnet18", "resnet50": "resnet50",
    "roberta": "roberta", "vgg11": "vgg11", "vgg16": "vgg16", "vgg19": "vgg19", "wideresnet101": "wideresnet101",
    "xlm": "xlm",
    "imagenet": "resnet50", "cifar10": "resnet18",  # Pollux names jobs after the data set
    "resnet50cifar10": "resnet50",
}  # fmt: skip
# These models are not in the zoo; the one named is of the same family, a better guess than a random draw.
NEAR = {
    "googlenet": "inception-v3", "inception4": "inception-v3", "lm": "lstm-ptb", "mobilenetv2": "mobilenet-v3",
    "ncf": "dlrm", "recommendation": "dlrm", "resnet101": "resnet50", "resnet152": "resnet50",
    "transformer": "bert-base",
}  # fmt: skip
# What one format means by a name that elsewhere means something else.
BY_FORMAT = {("dally", "bert"): "bert-large", ("dally", "vgg"): "vgg11"}


def zoo_name(model: str, format: str = "") -> tuple[str | None, bool]:
    """The zoo's name for a trace's model and whether it is the same one; (None, False) if nothing comes near."""
    key = "".join(c for c in model.lower() if c.isalnum())
    if (format, key) in BY_FORMAT:
        return BY_FORMAT[format, key], True
    if key in SAME:
        return SAME[key], True
    return NEAR.get(key), False


def find_trace(name: str, base_dir: Path, field: str = "workload.trace") -> Path:
    """A trace by its path: as given, beside the scenario, or under the folder WEFT_TRACES names."""
    store = os.environ.get("WEFT_TRACES")
    places = [base_dir / name] + ([Path(store) / name] if store else [])
    for place in places:
        if place.exists():
            return place
    where = f"{base_dir} or {store}" if store else f"{base_dir} (WEFT_TRACES is not set)"
    raise TraceError(f"{field}: {name} is not in {where}; give the path of a trace file")


def trace_rows(
    name: str, spec: WorkloadSpec, n_gpus: int, base_dir: Path, notes: list[str], fits: Fits | None = None
) -> tuple[list[TraceJob], str]:
    """The usable jobs of a trace in the order of submission, and its format; what was dropped goes to the notes."""
    field = "workload.trace" if name == spec.trace else "workload.draw_from"
    path = find_trace(name, base_dir, field)
    trace, rows = _sorted_rows(path, _stamps(path), spec.trace_format, spec.damaged_rows, spec.trace_map or "")
    if len(rows) > _MOST_ROWS:
        _sorted_rows.cache_clear()
    notes.append(
        f"trace {name} ({trace.format}): {trace.frame.height} jobs of {trace.n_rows_in} rows "
        f"({trace.n_damaged} damaged, {trace.n_left_out} left out)"
    )
    notes += [f"trace {name}: {note}" for note in trace.notes]
    kept = [job for job in rows if _wanted(job, spec)]
    if len(kept) < len(rows):
        notes.append(f"trace {name}: {len(rows) - len(kept)} jobs are outside the chosen vc and times")
    kept = _sized(kept, name, spec, n_gpus, notes)
    if fits is not None and spec.trace_shapes and spec.oversize == "leave-out":
        found = [job for job in kept if not (each := _per_server(job, job.gpus)) or fits(each, job.gpus)]
        if len(found) < len(kept):
            notes.append(f"trace {name}: {len(kept) - len(found)} jobs have a shape that does not fit and are left out")
        kept = found
    if not kept:
        raise TraceError(f"{field}: {name} has no job that can be used; see `weft trace inspect`")
    return kept, trace.format


@lru_cache(maxsize=1)  # a comparison reads the same trace for every stack and seed
def _sorted_rows(
    path: Path,
    stamps: tuple[tuple[str, int, int], ...],
    format: str | None,
    on_error: Literal["skip", "fail"],
    columns: str,
) -> tuple[Trace, tuple[TraceJob, ...]]:
    """A trace and its jobs in the order of submission. The stamps of its files tell when it must be read again."""
    trace = read(path, format, on_error=on_error, said=parse_map(columns, "workload.trace_map"))
    return trace, tuple(sorted(trace.jobs(), key=lambda job: job.submit_s))


def _stamps(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names of a trace's files, when they were changed, and their sizes."""
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)


def _wanted(job: TraceJob, spec: WorkloadSpec) -> bool:
    if spec.vc and job.vc not in spec.vc:
        return False
    return (spec.from_s is None or job.submit_s >= spec.from_s) and (
        spec.until_s is None or job.submit_s < spec.until_s
    )


def _sized(rows: list[TraceJob], name: str, spec: WorkloadSpec, n_gpus: int, notes: list[str]) -> list[TraceJob]:
    """Jobs that fit the cluster, by the rule chosen for those that do not."""
    large = sum(job.gpus > n_gpus for job in rows)
    if not large:
        return rows
    if spec.oversize == "refuse":
        most = max(job.gpus for job in rows)
        raise InputError(
            f"workload.trace: {large} jobs of {name} want up to {most} GPUs, the cluster has {n_gpus}; set oversize to "
            '"leave-out" or "cap", or enlarge the cluster'
        )
    if spec.oversize == "cap":
        notes.append(f"trace {name}: {large} jobs want more than {n_gpus} GPUs and get {n_gpus}")
        return [job if job.gpus <= n_gpus else replace(job, gpus=n_gpus) for job in rows]
    notes.append(f"trace {name}: {large} jobs want more than {n_gpus} GPUs and are left out")
    return [job for job in rows if job.gpus <= n_gpus]


def drawn_rows(rows: Sequence[TraceJob], n: int, seed: int) -> list[TraceJob]:
    """n rows with repetition: GPUs, duration and model of a job stay together."""
    return Stream(seed, "rows").choices(n, rows)


def rows_to_drafts(
    rows: Sequence[TraceJob], format: str, spec: WorkloadSpec, times: Times, seed: int, notes: list[str]
) -> list[Draft]:
    """Rows as drafts: models named by the trace or drawn, sizes and iterations from the trace or the spec."""
    sizes = draw_sizes(len(rows), spec.gpus, seed) if spec.gpus else [row.gpus for row in rows]
    models = _models(rows, sizes, format, spec, times, seed, notes)
    lengths = _lengths(rows, models, sizes, spec, times, seed, notes)
    shapes = _shapes(rows, sizes, notes) if spec.trace_shapes else [0] * len(rows)
    return [
        Draft(model, gpus, length, row.submit_s, row.job_id, row.user, row.vc, row.batch or 0, spec.elastic,
              per_server=each)
        for row, model, gpus, length, each in zip(rows, models, sizes, lengths, shapes, strict=True)
    ]  # fmt: skip


def _shapes(rows: Sequence[TraceJob], sizes: Sequence[int], notes: list[str]) -> list[int]:
    """Workers of each row on each of its servers; 0 where they were unequal, or its size is not the recorded one."""
    if not any(row.shape for row in rows):
        raise TraceError("workload.trace_shapes: the trace does not say how jobs were spread; set it to false")
    found, unequal = [], 0
    for row, gpus in zip(rows, sizes, strict=True):
        unequal += len(set(_parts(row))) > 1
        found.append(_per_server(row, gpus))
    notes.append(
        f"shapes: {sum(each > 0 for each in found)} jobs as recorded, {unequal} had unequal parts and are free"
    )
    return found


def _parts(row: TraceJob) -> list[int]:
    return [int(part) for part in (row.shape or "").split("+") if part]


def _per_server(row: TraceJob, gpus: int) -> int:
    """Workers on each server of its recorded shape; 0 where they were unequal, or that shape is not of so many GPUs."""
    parts = _parts(row)
    return parts[0] if len(set(parts)) == 1 and sum(parts) == gpus else 0


def _models(
    rows: Sequence[TraceJob], sizes: Sequence[int], format: str, spec: WorkloadSpec, times: Times, seed: int,
    notes: list[str],
) -> list[str]:  # fmt: skip
    """The model of each row. A model is drawn even for rows that name one, so that one unknown name does not shift the
    others' draws."""
    models = draw_models(len(rows), spec.models, seed)
    known: dict[str, str | None] = {}
    used: Counter[str] = Counter()
    for i, row in enumerate(rows):
        if row.model is None or not spec.trace_models:
            used["drawn by seed"] += 1
            continue
        if row.model not in known:
            known[row.model] = _known(row.model, sizes[i], format, spec.models, times, notes)
        name = known[row.model]
        if name is None:
            used["not in the zoo, drawn by seed"] += 1
        else:
            used["named by the trace"] += 1
            models[i] = name
    notes.append("models: " + ", ".join(f"{n} {how}" for how, n in sorted(used.items())))
    return models


def _known(
    model: str, gpus: int, format: str, models: Iterable[str], times: Times, notes: list[str]
) -> str | None:  # fmt: skip
    """The zoo's name of a trace's model, with the options that the scenario's models give it."""
    name, same = zoo_name(model, format)
    if name is None:
        return None
    name = next((m for m in models if without(m) != m and same_model(m, name)), name)
    try:
        times.profile(name, gpus)
    except InputError:
        return None
    if not same:
        notes.append(f"model {name} stands in for {model}")
    return name


def _lengths(
    rows: Sequence[TraceJob], models: Sequence[str], sizes: Sequence[int], spec: WorkloadSpec, times: Times, seed: int,
    notes: list[str],
) -> list[int]:  # fmt: skip
    """Iterations of each row."""
    if spec.iterations:
        notes.append("iterations are drawn, not the trace's")
        return iterations_between(len(rows), *spec.iterations, seed)
    if spec.duration_median_s:
        notes.append("durations are drawn, not the trace's")
        durations = log_normal_s(len(rows), spec.duration_median_s, spec.duration_sigma, seed)
        filled = zip(models, sizes, durations, strict=True)
        return [times.iterations(model, gpus, seconds) for model, gpus, seconds in filled]
    lengths: list[int] = []
    counted = 0
    for row, model, gpus in zip(rows, models, sizes, strict=True):
        if row.iterations is not None and (spec.length == "iterations" or row.duration_s is None):
            counted += 1
            lengths.append(max(1, row.iterations))
        elif row.duration_s is not None:
            lengths.append(times.iterations(model, gpus, row.duration_s))
        else:
            raise InputError(
                f"workload.trace: job {row.job_id} (line {row.line}) has neither duration nor iterations; set "
                "iterations or duration_median_s in [workload]"
            )
    if counted:
        notes.append(f"{counted} jobs have the trace's own number of iterations")
    return lengths


def stretch(drafts: Sequence[Draft], load: float | None, n_gpus: int, times: Times, notes: list[str]) -> list[Draft]:
    """Submissions counted from the first, and stretched so that the jobs keep a fraction `load` of the GPUs busy."""
    first = min(d.submit_s for d in drafts)
    factor = 1.0
    if load is not None:
        span = max(d.submit_s for d in drafts) - first
        if span <= 0:
            raise InputError("workload.load: all jobs of the trace come at once, which cannot be stretched; remove it")
        implied = math.fsum(times.gpu_seconds(d) for d in drafts) / (n_gpus * span)
        factor = implied / load
        notes.append(f"arrival times are multiplied by {factor:.4g}: the trace alone is a load of {implied:.4g}")
    return [replace(d, submit_s=round((d.submit_s - first) * factor, 6)) for d in drafts]
