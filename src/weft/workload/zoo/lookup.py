"""Names: canonical ones, aliases, variants; and what to say when there is no such model."""

from __future__ import annotations

import difflib
from functools import cache

from weft.errors import InputError
from weft.workload.zoo.catalogue import MODELS
from weft.workload.zoo.entry import Model, Published
from weft.workload.zoo.options import without

__all__ = ["find", "names", "same_model"]


def names() -> tuple[str, ...]:
    """Canonical names of all models, in the order of the catalogue."""
    return tuple(m.name for m in MODELS)


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
    for model in MODELS:
        for name in (model.name, *model.aliases):
            if index.setdefault(_key(name), model) is not model:
                raise ValueError(f"two models of the zoo are called {name}")
    return index
