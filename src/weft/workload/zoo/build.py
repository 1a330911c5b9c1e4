"""From a name or a file to a Profile: times by rule, gradients by layer, tasks by the way it is parallelised."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.model.units import GB, gbps_to_bytes_per_s
from weft.workload import graphs
from weft.workload.graphs import Work
from weft.workload.graphs.layout import RECOMPUTE, Layout, factors, named
from weft.workload.graphs.step import step
from weft.workload.profiles.counters import CountedFile, is_counters, parse_counters
from weft.workload.profiles.files import MeasuredModel, parse_file
from weft.workload.profiles.layers import LayerFile, parse_layers, parse_pipedream, read_text
from weft.workload.profiles.measured import PRECISIONS
from weft.workload.zoo.catalogue import shapes
from weft.workload.zoo.entry import Layer, Model, Published, Timing
from weft.workload.zoo.names import EXPERTS, LAYOUT_TRUTHS, OPTIONS, SHAPE, find, split, without
from weft.workload.zoo.rates import rates
from weft.workload.zoo.timings import at_batch, find_gpu, on_another, same_gpu, scaled, timing, timing_of
from weft.workload.zoo.unused import refuse_unused

Content = MeasuredModel | Profile | LayerFile | CountedFile | Work
_ENDINGS = (".json", ".txt", ".csv", ".tsv", ".gz")


def is_path(model: str) -> bool:
    """Whether a model's name is the path of a file: it has a folder in it, or the ending of one."""
    name = without(model)
    return name.lower().endswith(_ENDINGS) or "/" in name or "\\" in name


def in_folder(name: str, folder: Path) -> str:
    """A model's name as seen from a folder: a file's path starts there, or else in that of WEFT_TRACES."""
    if not is_path(name):
        return name
    store, file = os.environ.get("WEFT_TRACES"), without(name)
    if store and not (folder / file).exists() and (Path(store) / file).exists():
        return str(Path(store) / name)
    return name if folder == Path() else str(folder / name)


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
    if is_counters(first):
        return CountedFile(Path(path).name, parse_counters(text, path))
    raise InputError(
        f"{path}: it is no profile that weft wrote, no layer file, no PipeDream graph and no counters (time_s,bytes); "
        "`weft profile --out FILE.json` writes one"
    )


def measured_work(content: MeasuredModel, path: str, batch: int | None, gpu: str, dtype: str | None) -> Work:
    """Measurements as one layer: for this GPU type if there are any, else for the type that was measured, unscaled."""
    usable = [m for m in content.measurements if dtype is None or m.dtype in (dtype, f"{dtype}-weights")]
    if not usable:
        there = ", ".join(dict.fromkeys(m.dtype for m in content.measurements))
        raise InputError(f"{path}: it has no measurement in {dtype}; use {there}")
    first = next((m for m in usable if same_gpu(m.gpu, gpu)), usable[0])
    alike = [m for m in usable if (m.gpu, m.dtype) == (first.gpu, first.dtype)]
    sources = [f"{Path(path).name}, measured on {m.gpu}, {m.dtype}, {m.date}" for m in alike]
    timings = [timing_of(m, m.gpu, source, source) for m, source in zip(alike, sources, strict=True)]
    seen = at_batch(timings, batch or first.batch)
    work = graphs.work(content.model, (Layer(content.model, ()),), seen)
    return replace(work, layers=(replace(work.layers[0], gradients=(first.gradient_bytes,)),))


MICRO_BATCHES = 3  # of a pipeline whose layout has no names
LOW = ("fp8", "fp4")  # precisions whose times are estimated from those in bf16
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
    micro_batches: int | None = None,
    schedule: str = "gpipe",
    virtual: int = 1,
    tensor_overlap: bool = False,
    servers: int = 1,
    apart: bool = False,
    gradient_gb: float | None = None,
    **layout: Any,
) -> Profile:
    """One iteration of a zoo model, or of a file that describes one (its path), on `workers` GPUs.

    `batch` is per worker under data parallelism and per replica of the model otherwise (default: the model's usual
    one). `parallel`: "auto" is the model's usual scheme; "hybrid:TxPxD" fixes tensor x pipeline x data, plain "hybrid"
    chooses them; "pipeline" and "tensor" put one replica on all workers. `overlap` sends gradient buckets during the
    backward pass. `dtype` asks for times in one precision (fp32, tf32, bf16, fp8). Parameter servers stand beside
    workers, or `apart` from them. `gradient_gb` replaces the size of all gradients. Options in the name,
    `vgg16[batch=64]`, come before these; `workers` among them is for those who draw jobs. `virtual` is the
    number of virtual stages of each pipeline stage; `tensor_overlap` sums activations of tensor parallelism while
    they are computed.

    A layout that names its factors, "hybrid:tp4xcp2xpp8" (graphs/layout.py), is timed by a roofline, with sharded
    states, sequence, context and expert parallelism. Further settings are for it: `zero`, `recompute`,
    `sequence_parallel`, `gather_overlap`, `context_overlap`, `expert_overlap`. Numbers of a transformer may be
    changed: `layers`, `hidden`, `heads`, `kv_heads`, `head_dim`, `ffn`, `experts`, `top_k`, `expert_ffn`,
    `shared_experts`, `vocabulary`, `sequence`.
    """
    name, own = split(model)
    how = _How(
        batch, gpu, parallel, overlap, dtype, micro_batches, schedule, virtual, tensor_overlap, servers, apart,
        gradient_gb, layout,
    )  # fmt: skip
    mine = {key: value for key, value in own.items() if key in _NAMED and key != "workers"}
    how = replace(how, **mine, more=layout | {key: value for key, value in own.items() if key not in _NAMED})
    if unknown := [key for key in layout if key not in OPTIONS]:
        raise InputError(f"model {model!r}: {unknown[0]!r} is no option of a model; use {', '.join(OPTIONS)}")
    if workers < 1:
        raise InputError(f"model {model!r}: workers is {workers}; it must be at least 1")
    if how.batch is not None and how.batch < 1:
        raise InputError(f"model {model!r}: batch is {how.batch}; it must be at least 1")
    if how.micro_batches is not None and how.micro_batches < 1:
        raise InputError(f"model {model!r}: micro_batches is {how.micro_batches}; it must be at least 1")
    scheme, colon, _ = how.parallel.partition(":")
    if scheme not in PARALLEL or (colon and scheme != "hybrid"):
        raise InputError(f"model {model!r}: parallel {how.parallel!r} is not known; use one of {', '.join(PARALLEL)}")
    made = _from_file(name, workers, how) if is_path(name) else _from_zoo(name, workers, how)
    return replace(made, name=f"{made.name}{model[len(name) :].lstrip()}") if own else made


@dataclass(frozen=True, slots=True)
class _How:
    """How a model is trained: the keyword arguments of `profile`."""

    batch: int | None
    gpu: str
    parallel: str
    overlap: bool
    dtype: str | None
    micro_batches: int | None
    schedule: str
    virtual: int
    tensor_overlap: bool
    servers: int
    apart: bool
    gradient_gb: float | None
    more: dict[str, Any] = field(default_factory=dict)  # settings of named layouts, and numbers of a transformer

    @property
    def given(self) -> list[str]:
        """Settings of single schemes that are not at their defaults."""
        usual = {"servers": 1, "apart": False, "schedule": "gpipe", "micro_batches": None, "virtual": 1}
        usual["tensor_overlap"] = False
        return [*(key for key, value in usual.items() if getattr(self, key) != value), *self.more]


_NAMED = ("workers", *(each.name for each in fields(_How) if each.name != "more"))


def _from_zoo(name: str, workers: int, how: _How) -> Profile:
    """A model of the zoo, parallelised as asked or as usual."""
    entry, variant = find(name)
    entry = _altered(entry, how.more)
    scheme, _, shape = how.parallel.partition(":")
    usual = entry.parallel if workers > 1 else "data"
    refuse_unused(f"model {name!r}: ", entry.parallel if scheme == "auto" else scheme, how.given)
    if scheme == "hybrid" and named(shape):
        return _on_layout(entry, name, shape, workers, how)
    if settings := [key for key in how.more if key not in SHAPE and key not in EXPERTS]:
        raise InputError(f"model {name!r}: {settings[0]} is for layouts with names; write parallel=hybrid:tp4xpp2, say")
    if variant and variant.up_s > 0 and how.parallel in ("auto", "data"):
        if how.batch not in (None, variant.timing.batch):
            raise InputError(f"model {name!r}: its circle was published for one batch; use plain {entry.name}")
        return _circle(entry.name, variant, workers)
    if how.dtype is not None and how.dtype not in (*PRECISIONS, *LOW):
        there = ", ".join((*PRECISIONS, *LOW))
        raise InputError(f"model {name!r}: dtype {how.dtype!r} is not known; use one of {there}")
    work = _work(entry, variant, name, how.batch, how.gpu, how.dtype)
    work = work if how.gradient_gb is None else work.with_gradients(how.gradient_gb * GB)
    cap = gbps_to_bytes_per_s(_TENSOR_GBPS) if entry.name == "gpt3-cassini" else None
    if how.parallel != "auto":
        return _parallelised(work, workers, how, cap)
    return _parallelised(work, workers, replace(how, parallel=usual), cap, two_stages=usual == "pipeline")


def work_of(model: str, *, batch: int | None = None, gpu: str = "V100", dtype: str | None = None) -> Work:
    """One iteration of a zoo model on one GPU, layer by layer."""
    model, own = split(model)
    entry, variant = find(model)
    entry = _altered(entry, own)
    return _work(entry, variant, model, own.get("batch", batch), gpu, own.get("dtype", dtype))


def _work(
    entry: Model, variant: Published | None, model: str, batch: int | None, gpu: str, dtype: str | None
) -> Work:  # fmt: skip
    size = batch or (variant.timing.batch if variant else entry.batch)
    found = _published(variant, size, gpu) if variant else timing(entry, gpu, size, dtype)
    work = graphs.work(model, entry.layers, found, entry.gradient_dtype_bytes)
    return work.with_gradients(variant.gradient_bytes) if variant and variant.gradient_bytes else work


def _altered(entry: Model, own: Mapping[str, Any]) -> Model:
    """The model with some of its numbers changed; nobody has measured such a one."""
    plain = {SHAPE[key]: value for key, value in own.items() if key in SHAPE}
    mixed = {EXPERTS[key]: value for key, value in own.items() if key in EXPERTS}
    if not plain and not mixed:
        return entry
    known = shapes().get(entry.name)
    if known is None or (mixed and known.experts is None):
        word = next(key for key in own if key in (EXPERTS if mixed else SHAPE))
        raise InputError(f"model {entry.name!r} has no {word} that could be changed; use a transformer of the zoo")
    experts = replace(known.experts, **mixed) if known.experts is not None else None
    if experts is not None and experts.active > experts.count:
        raise InputError(
            f"model {entry.name!r}: top_k is {experts.active} of {experts.count} experts; give at most all"
        )
    shape = replace(known, **plain, experts=experts)
    units = shape.head_units or shape.hidden // shape.heads
    if units < 1 or shape.heads % (shape.kv_heads or shape.heads):
        raise InputError(
            f"model {entry.name!r}: {shape.heads} heads fit neither hidden nor kv_heads; change them together"
        )
    said = ",".join(f"{key}={value}" for key, value in own.items() if key in SHAPE or key in EXPERTS)
    return replace(
        entry, name=f"{entry.name}[{said}]", title=f"{entry.title} with {said}", build=shape.layers, timings=(),
        variants=(), sample=f"sequence of {shape.sequence} tokens", memory_bytes=0.0,
    )  # fmt: skip


def _on_layout(entry: Model, name: str, shape: str, workers: int, how: _How) -> Profile:
    """A step on a layout that names its factors."""
    whose = f"model {name!r}: "
    if (entry.name.partition("[")[0] != name.partition("@")[0] and "@" in name) or how.gradient_gb is not None:
        raise InputError(f"{whose}published sizes and named layouts do not go together; use plain {entry.name}")
    sizes = factors(shape, workers, whose)
    refuse_unused(whose, "hybrid", how.given, sizes)
    micro = how.micro_batches or how.batch or (4 * sizes["pipeline"] if sizes["pipeline"] > 1 else 1)
    zero = how.more.get("zero", sizes.get("zero", 1))
    if not 0 <= zero <= 3 or (zero < 3 and "zero" in sizes):
        raise InputError(
            f"{whose}zero is {zero}; " + ("with fsdp it is 3; leave it out" if "zero" in sizes else "it is 0 to 3")
        )
    if (recompute := how.more.get("recompute", "none")) not in RECOMPUTE:
        raise InputError(f"{whose}recompute {recompute!r} is not known; use one of {', '.join(RECOMPUTE)}")
    layout = Layout(**{
        **sizes, "zero": zero, "virtual": how.virtual, "micro_batches": micro, "recompute": recompute,
        "schedule": "1f1b" if sizes["pipeline"] == 1 else how.schedule, "gradient_overlap": how.overlap,
        "tensor_overlap": how.tensor_overlap, "sequence": how.more.get("sequence_parallel", True),
        **{key: how.more[key] for key in LAYOUT_TRUTHS[:-1] if key in how.more},
    })  # fmt: skip
    return step(name, entry.layers, how.batch or micro, layout, rates(how.gpu, how.dtype))


def grid(scheme: str, shape: str, workers: int, two_stages: bool = False, model: str = "") -> tuple[int, int, int]:
    """(tensor, pipeline, data) of a scheme on that many workers; `model` is for the message if the shape is wrong.

    Plain "hybrid" splits layers over 2 workers, then stages by 2 (or 3), and replicates with what is left: 8 workers
    are 2 x 2 x 2, as in CASSINI's Figure 1(d). `two_stages`: a pipeline of 2 (or 3) stages, replicated.
    """
    if scheme == "tensor":
        return workers, 1, 1
    if scheme == "pipeline" and not two_stages:
        return 1, workers, 1
    if shape:
        return _given(shape, workers, f"model {model!r}: " if model else "")
    tensor = 2 if scheme == "hybrid" and workers % 2 == 0 else 1
    rest = workers // tensor
    pipeline = 2 if rest % 2 == 0 else 3 if rest % 3 == 0 else 1
    return tensor, pipeline, rest // pipeline


def replicas(model: str, workers: int) -> int:
    """Copies of the model among that many workers: a batch is one copy's."""
    name, options = split(model)
    scheme, _, shape = str(options.get("parallel", "auto")).partition(":")
    usual = "data" if is_path(name) else find(name)[0].parallel
    if workers == 1 or (usual if scheme == "auto" else scheme) not in ("pipeline", "tensor", "hybrid"):
        return workers
    if named(shape):
        return factors(shape, workers, f"model {name!r}: ")["data"]
    return grid(usual if scheme == "auto" else scheme, shape, workers, scheme == "auto" and usual == "pipeline", name)[
        2
    ]


def check(model: str) -> None:
    """Refuse a name that is not in the zoo, an option that no model has, and a file that cannot be read."""
    name, _ = split(model)
    if is_path(name):
        read_model(name)
    else:
        find(name)


def _given(shape: str, workers: int, whose: str) -> tuple[int, int, int]:
    what = f"{whose}parallel hybrid:{shape}"
    try:
        tensor, pipeline, data = (int(part) for part in shape.lower().split("x"))
    except ValueError as error:
        raise InputError(
            f"{what}: give tensor x pipeline x data, as in hybrid:2x2x2, or factors by name, as in hybrid:tp4xcp2"
        ) from error
    if min(tensor, pipeline, data) < 1:
        raise InputError(f"{what}: each of tensor, pipeline and data is at least 1")
    if (product := tensor * pipeline * data) != workers:
        raise InputError(
            f"{what}: the product must be the number of workers, {workers}; give the job {product} GPUs, or write "
            "parallel=hybrid, which chooses a shape that fits"
        )
    return tensor, pipeline, data


def _published(variant: Published, batch: int, gpu: str) -> Timing:
    """A variant's own times; at another batch in proportion to it, on another GPU type by the ratio of peak rates. A
    circle was published as it is."""
    t = found = variant.timing
    if batch != t.batch:
        found = scaled(t, batch / t.batch, f"in proportion from batch {t.batch}", batch, t.gpu)
        said = f"of batch {t.batch}: {t.memory_source}" if t.memory_bytes else ""
        found = replace(found, memory_bytes=t.memory_bytes, memory_source=said)
    target = find_gpu(gpu)
    return found if variant.up_s > 0 or target.name == t.gpu else on_another(found, target)


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
    return Profile(
        f"{name}@{variant.variant}", tuple(tasks), workers, t.memory_bytes, t.batch, t.gpu, t.source, t.memory_source
    )


def _from_file(path: str, workers: int, how: _How) -> Profile:
    """The profile of a file: a graph or a layer file as it is, measurements and PipeDream graphs parallelised."""
    content = read_model(path)
    usual = replace(how, parallel="data") if how.parallel == "auto" else how
    refuse_unused(f"{path}: ", usual.parallel.partition(":")[0], how.given)
    if isinstance(content, MeasuredModel):
        if usual.parallel not in ("data", "parameter-server"):
            raise InputError(
                f"{path}: measurements know no layers, so parallel {how.parallel} is not possible; use data"
            )
        return _parallelised(measured_work(content, path, how.batch, how.gpu, how.dtype), workers, usual)
    for name, value in (("batch", how.batch), ("dtype", how.dtype)):
        if value is not None:
            raise InputError(f"{path}: its times are those of one {name}; leave {name} out")
    if isinstance(content, Work):
        return _parallelised(content, workers, usual)
    if how.parallel != "auto":
        raise InputError(f"{path}: the file says itself what is sent; leave parallel out")
    if isinstance(content, LayerFile | CountedFile):
        return content.profile(workers)
    if content.workers != workers:
        raise InputError(f"{path}: it is a graph for {content.workers} workers, not {workers}; use that many")
    return content


def _parallelised(
    work: Work, workers: int, how: _How, tensor_bytes_per_s: float | None = None, two_stages: bool = False
) -> Profile:
    """Work as a profile for that many workers."""
    scheme, _, shape = how.parallel.partition(":")
    if scheme == "data":
        return graphs.data_parallel(work, workers, overlap=how.overlap)
    if scheme == "parameter-server":
        return graphs.parameter_server(work, workers, servers=how.servers, apart=how.apart, overlap=how.overlap)
    if scheme == "embedding":
        return graphs.sharded_embedding(work, workers)
    tensor, pipeline, data = grid(scheme, shape, workers, two_stages, work.name)
    return graphs.hybrid(
        work, tensor=tensor, pipeline=pipeline, data=data, micro_batches=how.micro_batches or MICRO_BATCHES,
        schedule=how.schedule, chunks=how.virtual, overlap=how.overlap, tensor_overlap=how.tensor_overlap,
        tensor_demand_bytes_per_s=tensor_bytes_per_s,
    )  # fmt: skip
