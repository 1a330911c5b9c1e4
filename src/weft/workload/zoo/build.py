"""From a name to a Profile: times by rule, gradients by layer, tasks by the way it is parallelised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.model.units import gbps_to_bytes_per_s
from weft.workload import graphs
from weft.workload.graphs import Work
from weft.workload.measured import Measured
from weft.workload.zoo.entry import Layer, Published, Timing
from weft.workload.zoo.gpus import same_gpu
from weft.workload.zoo.lookup import find
from weft.workload.zoo.timings import at_batch, timing

__all__ = ["PARALLEL", "check", "grid", "is_path", "load_profile", "profile", "work_of"]

PARALLEL = ("auto", "data", "parameter-server", "pipeline", "tensor", "hybrid", "embedding")

_TENSOR_GBPS = 25.0  # CASSINI section 2.1, Figure 1(c): what tensor parallelism demands of a 50 Gbit/s NIC


def profile(
    model: str,
    workers: int,
    *,
    batch: int | None = None,
    gpu: str = "V100",
    parallel: str = "auto",
    overlap: bool = False,
    dtype: str | None = None,
    micro_batches: int = 3,
    schedule: str = "gpipe",
    servers: int = 1,
) -> Profile:
    """One iteration of a zoo model, or of a profile file (its path), on `workers` GPUs.

    `batch` is per worker under data parallelism and per replica of the model otherwise (default: the model's usual
    one). `parallel`: "auto" is the model's usual scheme; "hybrid:TxPxD" fixes tensor x pipeline x data, plain "hybrid"
    chooses them; "pipeline" and "tensor" put one replica on all workers. `overlap` sends gradient buckets during the
    backward pass. `dtype` asks for times in one precision (fp32, bf16).
    """
    if workers < 1:
        raise InputError(f"model {model!r}: workers is {workers}; it must be at least 1")
    if batch is not None and batch < 1:
        raise InputError(f"model {model!r}: batch is {batch}; it must be at least 1")
    scheme, _, shape = parallel.partition(":")
    if scheme not in PARALLEL:
        raise InputError(f"model {model!r}: parallel {parallel!r} is not known; use one of {', '.join(PARALLEL)}")
    if is_path(model):
        return _from_file(model, workers, batch, gpu, scheme, overlap, servers)
    entry, variant = find(model)
    if variant and variant.up_s > 0 and scheme in ("auto", "data"):
        return _circle(entry.name, variant, workers)
    work = work_of(model, batch=batch, gpu=gpu, dtype=dtype)
    if scheme == "auto":
        scheme = entry.parallel if workers > 1 else "data"
    if scheme == "data":
        return graphs.data_parallel(work, workers, overlap=overlap)
    if scheme == "parameter-server":
        return graphs.parameter_server(work, workers, servers=servers, overlap=overlap)
    if scheme == "embedding":
        return graphs.sharded_embedding(work, workers)
    tensor, pipeline, data = grid(scheme, shape, workers, entry.parallel == "pipeline" and parallel == "auto")
    cap = gbps_to_bytes_per_s(_TENSOR_GBPS) if entry.name == "gpt3-cassini" else None
    return graphs.hybrid(
        work, tensor=tensor, pipeline=pipeline, data=data, micro_batches=micro_batches, schedule=schedule,
        tensor_demand_bytes_per_s=cap,
    )  # fmt: skip


def work_of(model: str, *, batch: int | None = None, gpu: str = "V100", dtype: str | None = None) -> Work:
    """One iteration of a zoo model on one GPU, layer by layer."""
    entry, variant = find(model)
    size = batch or (variant.timing.batch if variant else entry.batch)
    found = _published(variant, size) if variant else timing(entry, gpu, size, dtype)
    work = graphs.work(model, entry.layers, found, entry.gradient_dtype_bytes)
    return work.with_gradients(variant.gradient_bytes) if variant and variant.gradient_bytes else work


def grid(scheme: str, shape: str, workers: int, two_stages: bool = False) -> tuple[int, int, int]:
    """(tensor, pipeline, data) of a scheme on so many workers.

    Plain "hybrid" splits layers over 2 workers, then stages by 2 (or 3), and replicates with what is left: 8 workers
    are 2 x 2 x 2, as in CASSINI's Figure 1(d). `two_stages`: a pipeline of 2 (or 3) stages, replicated.
    """
    if scheme == "tensor":
        return workers, 1, 1
    if scheme == "pipeline" and not two_stages:
        return 1, workers, 1
    if shape:
        return _given(shape, workers)
    tensor = 2 if scheme == "hybrid" and workers % 2 == 0 else 1
    rest = workers // tensor
    pipeline = 2 if rest % 2 == 0 else 3 if rest % 3 == 0 else 1
    return tensor, pipeline, rest // pipeline


def is_path(model: str) -> bool:
    """Whether a model's name is the path of a profile file."""
    return model.endswith(".json") or "/" in model or "\\" in model


def check(model: str) -> None:
    """Refuse a name that is not in the zoo, and a profile file that cannot be read."""
    if is_path(model):
        from weft.workload.profiles_io import load_file

        load_file(model)
    else:
        find(model)


def _given(shape: str, workers: int) -> tuple[int, int, int]:
    try:
        tensor, pipeline, data = (int(part) for part in shape.lower().split("x"))
    except ValueError as error:
        raise InputError(f"parallel hybrid:{shape}: give tensor x pipeline x data, as in hybrid:2x2x2") from error
    if min(tensor, pipeline, data) < 1 or tensor * pipeline * data != workers:
        raise InputError(f"parallel hybrid:{shape}: the product must be the number of workers, {workers}")
    return tensor, pipeline, data


def _published(variant: Published, batch: int) -> Timing:
    """A variant's own times; at another batch in proportion to it."""
    t = variant.timing
    if batch == t.batch:
        return t
    ratio = batch / t.batch
    source = f"estimated in proportion from batch {t.batch}: {t.source}"
    return replace(
        t, batch=batch, forward_s=t.forward_s * ratio, backward_s=t.backward_s * ratio, source=source, estimated=True
    )


def _circle(name: str, variant: Published, workers: int) -> Profile:
    """A paper's circle: Down for the compute time, then Up at a stated rate for a stated time.

    The message is such that a ring of these workers sends, per worker, what the paper's job sent.
    """
    tasks: list[Task] = [Compute("forward", variant.timing.forward_s)]
    if workers > 1:
        rate = gbps_to_bytes_per_s(variant.up_gbps)
        message = rate * variant.up_s * workers / (2 * (workers - 1))
        tasks.append(Transfer("all-reduce", message, (0,), None, "ring", rate))
    t = variant.timing
    return Profile(f"{name}@{variant.variant}", tuple(tasks), workers, t.memory_bytes, t.batch, t.gpu, t.source)


def _from_file(
    path: str, workers: int, batch: int | None, gpu: str, scheme: str, overlap: bool, servers: int
) -> Profile:
    """The profile of a file: a graph as it is, or measurements as data parallelism."""
    from weft.workload.profiles_io import load_file

    content = load_file(path)
    if isinstance(content, Profile):
        if content.workers != workers:
            raise InputError(f"{path}: it is a graph for {content.workers} workers, not {workers}; use that many")
        return content
    if scheme not in ("auto", "data", "parameter-server"):
        raise InputError(f"{path}: measurements know no layers, so parallel {scheme} is not possible; use data")
    first = next((m for m in content.measurements if same_gpu(m.gpu, gpu)), content.measurements[0])
    alike = [m for m in content.measurements if (m.gpu, m.dtype) == (first.gpu, first.dtype)]
    seen = at_batch([_timing_of(m, Path(path).name) for m in alike], batch or first.batch)
    whole = Layer(content.model, ())
    work = graphs.work(content.model, (whole,), seen)
    layer = replace(work.layers[0], gradients=(first.gradient_bytes,))
    work = replace(work, layers=(layer,))
    if scheme == "parameter-server":
        return graphs.parameter_server(work, workers, servers=servers, overlap=overlap)
    return graphs.data_parallel(work, workers, overlap=overlap)


def _timing_of(m: Measured, file: str) -> Timing:
    source = f"{file}, measured on {m.gpu}, {m.dtype}, {m.date}"
    buckets = tuple((b.bytes, b.ready_s) for b in m.buckets)
    return Timing(m.gpu, m.batch, m.forward_s, m.backward_s, source, m.dtype, m.memory_bytes, m.optimiser_s, buckets)


def load_profile(path: str | Path, workers: int | None = None, **options: object) -> Profile:
    """The profile of a file for so many workers (a graph file knows its own number)."""
    from weft.workload.profiles_io import load_file

    content = load_file(path)
    if isinstance(content, Profile) and workers in (None, content.workers):
        return content
    return profile(str(Path(path)) if is_path(str(path)) else f"./{path}", workers or 1, **options)  # type: ignore[arg-type]
