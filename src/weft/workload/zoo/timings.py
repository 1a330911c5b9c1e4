"""GPU types, and compute times of a model on any of them at any batch: measured if somebody measured, else estimated.

Peak rates and memory of GPUs are from the vendors' data sheets. A time scales with the ratio of the two GPUs' peak
rates in the precision it was measured in. A data sheet's peak is never reached, but the ratio of two peaks of one
precision is close to the ratio of the times. The optimiser computes next to nothing but reads and writes all
parameters, so its time scales with memory bandwidth.

A time is looked for in this order:
1. for this GPU type, precision and batch, as measured or published;
2. for the same GPU type and precision at other batches: on the line between the two nearest, or in proportion to the
   batch beyond them;
3. for another precision on the same GPU type (unless one was asked for), as in 1 and 2;
4. for another GPU type (the newest of several), in the same precision if any has it, scaled as above;
5. from floating-point operations: three times the forward pass (the backward pass computes two gradients), at 45 % of
   the peak rate, a little below what LLaMA-7B reached when it was measured.

A time in fp8 or fp4 is the one in bf16, scaled by the ratio of the two peaks. Everything but 1 is labelled "estimated"
in the source.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from weft.errors import InputError
from weft.workload.profiles.measured import Bucket, Measured
from weft.workload.zoo.catalogue import gpus
from weft.workload.zoo.entry import Gpu, Model, Timing


def find_gpu(name: str) -> Gpu:
    """The GPU type of a name; an unknown one is refused with those there are."""
    key = _key(name)
    for gpu in gpus():
        if key in (_key(gpu.name), *map(_key, gpu.aliases)):
            return gpu
    near = difflib.get_close_matches(key, [_key(g.name) for g in gpus()], n=1)
    hint = f"did you mean {near[0].upper()}?" if near else f"use one of {', '.join(g.name for g in gpus())}"
    raise InputError(f"gpu {name!r} is not known to the zoo; {hint}")


def same_gpu(one: str, other: str) -> bool:
    """Whether two names mean one GPU type ("NVIDIA H200" and "H200")."""
    a, b = _key(one).removeprefix("nvidia"), _key(other).removeprefix("nvidia")
    return a == b


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "").replace(" ", "")


UTILISATION = 0.45


@cache
def known(model: Model) -> tuple[Timing, ...]:
    """All times that somebody measured: published ones first, then weft's own (package data)."""
    return model.timings + _measured(model.name)


def timing(model: Model, gpu: str, batch: int, dtype: str | None = None) -> Timing:
    """The time of one iteration, by the first rule above that applies; `estimated` says whether it was measured."""
    target = find_gpu(gpu)
    if dtype in ("fp8", "fp4"):
        return _in_low(timing(model, gpu, batch, "bf16"), target, dtype)
    here = [t for t in known(model) if t.gpu == target.name]
    wanted = dtype or ("bf16" if model.gradient_dtype_bytes == 2 else target.dtype)
    same = [t for t in here if _alike(t.dtype, wanted)] or ([] if dtype else here)
    if same:
        return _with_memory(model, at_batch(same, batch))
    found = _elsewhere(model, target, batch, wanted)
    return _with_memory(model, found) if found else _by_flops(model, target, batch, wanted)


def memory(model: Model, batch: int, dtype: str = "") -> tuple[float, str]:
    """Bytes of GPU memory of one replica, and their source: the first of these that there is.

    1. measured by weft, or published, at this batch; 2. what a paper states for all batches of the model's range;
    3. on the line between measured batches, or beyond them; 4. a formula: weights and gradients, Adam's two moments and
    a single-precision copy (16 bytes per parameter), and four bytes for every activation of the batch.
    Measurements in the same precision count before others, weft's own before published ones.
    """
    seen = [t for t in known(model) if t.memory_bytes]
    seen = [t for t in seen if _alike(t.dtype, dtype) or _alike(dtype, t.dtype)] or seen
    by_batch = {t.batch: t for t in sorted(seen, key=lambda t: not t.memory_source.startswith("published"))}
    if batch in by_batch:
        return by_batch[batch].memory_bytes, by_batch[batch].memory_source
    if model.memory_bytes and model.batch_range[0] <= batch <= model.batch_range[1]:
        return model.memory_bytes, model.memory_source
    if by_batch:
        return _memory_line(model, [by_batch[b] for b in sorted(by_batch)], batch)
    trained = sum(layer.trained for layer in model.layers)
    size = (
        16.0 * trained + 2.0 * (model.params - trained) + 4.0 * batch * sum(layer.activation for layer in model.layers)
    )
    frozen = ", 2 per frozen one" * (trained < model.params)
    return size, f"formula: 16 bytes per parameter{frozen} and 4 per activation"


def _memory_line(model: Model, seen: list[Timing], batch: int) -> tuple[float, str]:
    """Memory at a batch that nobody measured, from those that somebody did (in order of their batches)."""
    if len(seen) == 1:
        only = seen[0]
        fixed = min(2.0 * model.gradient_bytes, only.memory_bytes)
        size = fixed + (only.memory_bytes - fixed) * batch / only.batch
        return size, f"estimated in proportion from batch {only.batch}: {only.memory_source}"
    at = max(1, min(sum(t.batch < batch for t in seen), len(seen) - 1))
    low, high = seen[at - 1], seen[at]
    slope = (high.memory_bytes - low.memory_bytes) / (high.batch - low.batch)
    size = max(low.memory_bytes + slope * (batch - low.batch), 0.5 * seen[0].memory_bytes)
    return size, f"estimated on the line through batches {low.batch} and {high.batch}: {low.memory_source}"


@cache
def _measured(name: str) -> tuple[Timing, ...]:
    path = files("weft.workload.zoo") / "measured" / f"{name}.json"
    if not path.is_file():
        return ()
    found = []
    for entry in json.loads(path.read_text(encoding="utf-8"))["measurements"]:
        m = Measured(**{**entry, "buckets": tuple(Bucket(**bucket) for bucket in entry["buckets"])})
        where = f"measured by weft on {m.gpu}, {m.dtype}"
        found.append(timing_of(m, find_gpu(m.gpu).name, f"{where}, {m.software}, {m.library}, {m.date}", where))
    return tuple(found)


def timing_of(m: Measured, gpu: str, source: str, memory_source: str) -> Timing:
    """A measurement as the time of an iteration on that GPU type."""
    buckets = tuple((bucket.bytes, bucket.ready_s) for bucket in m.buckets)
    return Timing(
        gpu, m.batch, m.forward_s, m.backward_s, source, m.dtype, m.memory_bytes, m.optimiser_s, buckets,
        memory_source=memory_source,
    )  # fmt: skip


def _alike(dtype: str, wanted: str) -> bool:
    return dtype == wanted or (wanted == "bf16" and dtype == "bf16-weights")


def at_batch(same: list[Timing], batch: int) -> Timing:
    """Rules 1 and 2. Of several sources for one batch the first counts."""
    by_batch = {t.batch: t for t in reversed(same)}
    if batch in by_batch:
        return by_batch[batch]
    batches = sorted(by_batch)
    above = [b for b in batches if b > batch]
    below = [b for b in batches if b < batch]
    if above and below:
        low, high = by_batch[below[-1]], by_batch[above[0]]
        w = (batch - low.batch) / (high.batch - low.batch)
        return replace(
            low, batch=batch, estimated=True,
            forward_s=low.forward_s + w * (high.forward_s - low.forward_s),
            backward_s=low.backward_s + w * (high.backward_s - low.backward_s),
            **_memory_between(low, high, w),
            buckets=_stretch(high, low.backward_s + w * (high.backward_s - low.backward_s)),
            source=f"estimated between batches {low.batch} and {high.batch}: {low.source}",
        )  # fmt: skip
    near = by_batch[above[0] if above else below[-1]]
    return scaled(near, batch / near.batch, f"in proportion from batch {near.batch}", batch, near.gpu)


def _memory_between(low: Timing, high: Timing, w: float) -> dict[str, Any]:
    if not (low.memory_bytes and high.memory_bytes):  # the sources of times do not all state memory
        return {"memory_bytes": 0.0, "memory_source": ""}
    size = low.memory_bytes + w * (high.memory_bytes - low.memory_bytes)
    source = f"estimated on the line through batches {low.batch} and {high.batch}: {low.memory_source}"
    return {"memory_bytes": size, "memory_source": source}


def _elsewhere(model: Model, target: Gpu, batch: int, dtype: str) -> Timing | None:
    """Rule 4: the newest GPU type that has this precision (or any, where none has)."""
    times = known(model)
    for alike in ([t for t in times if _alike(t.dtype, dtype)], list(times)):
        for gpu in reversed(gpus()):
            there = [t for t in alike if t.gpu == gpu.name]
            if there:
                return on_another(at_batch(there, batch), target)
    return None


def on_another(base: Timing, target: Gpu) -> Timing:
    """The time on another GPU type: by the ratio of peak rates, the optimiser by that of the memories' bandwidths."""
    gpu = find_gpu(base.gpu)
    ratio = gpu.tflops(base.dtype) / target.tflops(base.dtype)
    why = f"from {gpu.name} by the ratio of peak rates ({base.dtype}) {ratio:.3g}"
    found = scaled(base, ratio, why, base.batch, target.name)
    return replace(found, optimiser_s=base.optimiser_s * gpu.memory_gb_per_s / target.memory_gb_per_s)


def _in_low(base: Timing, target: Gpu, dtype: str) -> Timing:
    """What takes so long in bf16 (or in whatever there is), in fp8 or fp4: by the ratio of this GPU type's peaks."""
    ratio = target.tflops(base.dtype) / target.tflops(dtype)
    found = scaled(base, ratio, f"from {base.dtype} by the ratio of peak rates {ratio:.3g}", base.batch, target.name)
    return replace(found, dtype=dtype)


def _by_flops(model: Model, target: Gpu, batch: int, dtype: str) -> Timing:
    """Rule 5."""
    forward_s = model.flops * batch / (UTILISATION * 1e12 * target.tflops(dtype))
    source = f"estimated from {model.flops:.3g} operations per sample at {UTILISATION:.0%} of the {dtype} peak"
    frozen = sum(x.flops - x.attention for x in model.layers if x.frozen) / model.flops if model.flops else 0.0
    backward_s = (2 - frozen) * forward_s  # what is frozen needs gradients of its inputs only
    return _with_memory(model, Timing(target.name, batch, forward_s, backward_s, source, dtype, estimated=True))


def scaled(base: Timing, ratio: float, why: str, batch: int, gpu: str) -> Timing:
    """A time multiplied by a ratio. Its source then says that it is estimated, and why."""
    source = base.source.removeprefix("estimated ")
    return replace(
        base, gpu=gpu, batch=batch, estimated=True, forward_s=base.forward_s * ratio,
        backward_s=base.backward_s * ratio, buckets=_stretch(base, base.backward_s * ratio),
        source=f"estimated {why}: {source}",
        memory_bytes=base.memory_bytes if batch == base.batch else 0.0,
        memory_source=base.memory_source if batch == base.batch else "",
    )  # fmt: skip


def _stretch(base: Timing, backward_s: float) -> tuple[tuple[float, float], ...]:
    ratio = backward_s / base.backward_s if base.backward_s else 0.0
    return tuple((size, ready * ratio) for size, ready in base.buckets)


def _with_memory(model: Model, found: Timing) -> Timing:
    """The time with its memory: what was published for this very GPU type and batch, else by the rules of `memory`."""
    if found.memory_bytes and not found.estimated:
        return found
    size, source = memory(model, found.batch, found.dtype)
    return replace(found, memory_bytes=size, memory_source=source)
