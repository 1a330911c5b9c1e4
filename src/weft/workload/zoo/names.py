"""Names of models: canonical ones, aliases, variants, and the options behind them (`vgg16[batch=64]`).

With options in its name, a scenario, a listed job or a command can say how a model is trained wherever it names one.
Jobs of one model that are trained in two ways then have two names. The same notation replaces the layers of a stack.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import Any

from weft.errors import InputError
from weft.workload.graphs.layout import named
from weft.workload.zoo.catalogue import models
from weft.workload.zoo.entry import Model, Published

# The numbers of a transformer that an option may change, and what the zoo's tables call them.
SHAPE = {
    "layers": "blocks", "hidden": "hidden", "heads": "attention_heads", "kv_heads": "kv_heads",
    "head_dim": "head_units", "ffn": "inner", "vocabulary": "vocabulary", "sequence": "sequence",
    "adapters": "adapters",
}  # fmt: skip
EXPERTS = {"experts": "count", "top_k": "active", "expert_ffn": "inner", "shared_experts": "shared"}
_COUNTS = ("batch", "micro_batches", "servers", "workers", "virtual", "zero", *SHAPE, *EXPERTS)
_WORDS = ("parallel", "dtype", "schedule", "recompute")
LAYOUT_TRUTHS = ("gather_overlap", "context_overlap", "expert_overlap", "sequence_parallel")
_TRUTHS = ("overlap", "apart", "tensor_overlap", *LAYOUT_TRUTHS)
OPTIONS = (*_COUNTS, *_WORDS, *_TRUTHS, "gradient_gb")


def without(name: str) -> str:
    """A model's name without its options."""
    base, bracket, rest = name.rpartition("[")
    return base.rstrip() if bracket and rest.rstrip().endswith("]") else name


def has_layout(name: str, parallel: str = "auto") -> bool:
    """Whether a model is trained on a layout that names its factors; `parallel` is for one that does not say."""
    scheme, _, shape = str(split(name)[1].get("parallel", parallel)).partition(":")
    return scheme == "hybrid" and named(shape)


def split(name: str) -> tuple[str, dict[str, Any]]:
    """A model's name without its options, and the options as `zoo.profile` takes them."""
    base = without(name)
    if base == name:
        if "[" in name and not _is_file(name):
            raise InputError(f"model {name!r}: close the bracket; write options as {name.partition('[')[0]}[batch=64]")
        return name, {}
    text = name.rstrip()[:-1].rpartition("[")[2]
    found: dict[str, Any] = {}
    for part in text.split(","):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key in found:
            raise InputError(f"model {name!r}: {key} is there twice; remove one")
        found[key] = _value(name, key, value)
    return base, found


def _is_file(name: str) -> bool:
    """Whether a bracket can be part of a file's name: the path does not end with options."""
    return "/" in name or "\\" in name or "." in name


def _value(name: str, key: str, value: str) -> Any:
    if key not in OPTIONS:
        near = difflib.get_close_matches(key, OPTIONS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"use {', '.join(OPTIONS)}"
        raise InputError(f"model {name!r}: {key!r} is no option of a model; {hint}")
    if key in _COUNTS:
        least = 0 if key in ("zero", "shared_experts", "adapters") else 1
        if not re.fullmatch(r"[0-9]{1,9}", value) or int(value) < least:
            raise InputError(f"model {name!r}: {key} is {value!r}; it must be a whole number of at least {least}")
        return int(value)
    if key in _TRUTHS:
        if value not in ("true", "false"):
            raise InputError(f"model {name!r}: {key} is {value!r}; it must be true or false")
        return value == "true"
    if key == "gradient_gb":
        if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) or not 0 < float(value) <= 1e6:
            raise InputError(f"model {name!r}: gradient_gb is {value!r}; it must be a number of gigabytes above 0")
        return float(value)
    if not value:
        raise InputError(f"model {name!r}: {key} has no value; write {key}=... or leave it out")
    return value


def names() -> tuple[str, ...]:
    """Canonical names of all models, in the order of the catalogue."""
    return tuple(m.name for m in models())


def find(name: str) -> tuple[Model, Published | None]:
    """The model (and variant, after `@`) of a name or alias; an unknown name is refused with the nearest known ones.

    Options behind the name do not matter here.
    """
    base, _, variant = without(name).partition("@")
    model = _index().get(_key(base))
    if model is None:
        near = difflib.get_close_matches(_key(base), list(_index()), n=3, cutoff=0.5)
        known = dict.fromkeys(_index()[k].name for k in near)
        hint = f"did you mean {' or '.join(known)}?" if known else "`weft models` lists what there is"
        raise InputError(f"model {base!r} is not in the zoo; {hint}")
    if not variant:
        return model, None
    for published in model.variants:
        if published.variant == variant.strip().lower():
            return model, published
    there = ", ".join(f"{model.name}@{v.variant}" for v in model.variants) or f"plain {model.name}"
    raise InputError(f"model {model.name!r} has no variant {variant!r}; use {there}")


def same_model(one: str, other: str) -> bool:
    """Whether two names, whatever their options, are one model of the zoo in one variant."""
    pair = [without(name).partition("@") for name in (one, other)]
    known = [_index().get(_key(base)) for base, _, _ in pair]
    return known[0] is not None and known[0] is known[1] and pair[0][2] == pair[1][2]


def _key(name: str) -> str:
    return name.strip().lower().replace("-", "").replace("_", "")


@cache
def _index() -> dict[str, Model]:
    index: dict[str, Model] = {}
    for model in models():
        for name in (model.name, *model.aliases):
            if index.setdefault(_key(name), model) is not model:
                raise ValueError(f"two models of the zoo are called {name}")
    return index
