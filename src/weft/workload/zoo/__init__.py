"""The model zoo: architectures with gradient sizes per layer, memory, batches and compute times, each with its source.

    zoo.profile("vgg16", workers=4)             one iteration, gradients counted from the architecture
    zoo.profile("vgg16@ada-srsf", workers=4)    the same with the sizes and times that the paper itself used

A name may be an alias (`VGG-16`, `inception_v3`); case, dashes and underscores do not matter. After `@` comes a
variant: one paper's own numbers where they differ from the architecture's, for reproducing that paper.
"""

from __future__ import annotations

import difflib
from functools import cache

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.workload.zoo.catalogue import MODELS
from weft.workload.zoo.entry import Layer, Model, Published, Timing

__all__ = ["Layer", "Model", "Published", "Timing", "find", "names", "profile"]


def names() -> tuple[str, ...]:
    """Canonical names of all models, in the order of the catalogue."""
    return tuple(m.name for m in MODELS)


def find(name: str) -> tuple[Model, Published | None]:
    """The model (and variant, after `@`) of a name or alias; an unknown name is refused with the nearest known ones."""
    base, _, variant = name.partition("@")
    model = _index().get(_key(base))
    if model is None:
        near = difflib.get_close_matches(_key(base), list(_index()), n=3, cutoff=0.5)
        known = dict.fromkeys(_index()[k].name for k in near)
        hint = f"did you mean {' or '.join(known)}?" if known else "see `weft models`"
        raise InputError(f"model {base!r} is not in the zoo; {hint}")
    if not variant:
        return model, None
    for published in model.variants:
        if published.variant == variant.lower():
            return model, published
    there = ", ".join(f"{model.name}@{v.variant}" for v in model.variants) or f"plain {model.name}"
    raise InputError(f"model {model.name!r} has no variant {variant!r}; use {there}")


def profile(
    model: str,
    workers: int,
    *,
    batch: int | None = None,
    gpu: str = "V100",
    parallel: str = "data",
    overlap: bool = False,
) -> Profile:
    """One iteration of a zoo model on `workers` GPUs: compute, and the traffic of its parallelisation.

    `overlap` sends gradient buckets during the backward pass instead of all at its end.
    """
    entry, variant = find(model)
    if workers < 1:
        raise InputError(f"model {model!r}: workers is {workers}; it must be at least 1")
    if parallel != "data" or overlap:
        raise InputError(f"model {model!r}: parallel {parallel!r} is not known; use data")
    if batch is not None and batch < 1:
        raise InputError(f"model {model!r}: batch is {batch}; it must be at least 1")
    timing = variant.timing if variant else entry.timings[0]
    scale = (batch or timing.batch) / timing.batch
    tasks: list[Task] = [
        Compute("forward", timing.forward_s * scale),
        Compute("backward", timing.backward_s * scale, (0,)),
    ]
    if workers > 1:
        tasks.append(Transfer("all-reduce", variant.gradient_bytes if variant else entry.gradient_bytes, (1,)))
    return Profile(model, tuple(tasks), workers, timing.memory_bytes, batch or timing.batch, gpu, source=timing.source)


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


@cache
def _index() -> dict[str, Model]:
    index: dict[str, Model] = {}
    for model in MODELS:
        for name in (model.name, *model.aliases):
            if index.setdefault(_key(name), model) is not model:
                raise ValueError(f"two models of the zoo are called {name}")
    return index
