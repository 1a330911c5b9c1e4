"""The models of the zoo and the GPU types that it knows, as models.toml has them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache, partial
from importlib.resources import files
from typing import Any

from weft.model.units import MB
from weft.workload.zoo import language, others, vision
from weft.workload.zoo.entry import Gpu, Model, Published, Timing
from weft.workload.zoo.language import Experts, Latent, Transformer


@cache
def _data(file: str = "models.toml") -> dict[str, Any]:
    return tomllib.loads((files("weft.workload.zoo") / file).read_text(encoding="utf-8"))


@cache
def gpus() -> tuple[Gpu, ...]:
    """The GPU types, oldest first."""
    return tuple(
        Gpu(name, **{**row, "aliases": tuple(row.get("aliases", ()))})
        for name, row in _data("gpus.toml")["gpus"].items()
    )


def step_data() -> dict[str, Any]:
    """What a step of a transformer reaches of the peaks of GPU types."""
    found: dict[str, Any] = _data("gpus.toml")["step"]
    return found


@cache
def shapes() -> dict[str, Transformer]:
    """Transformers: encoders with a pooler (Hugging Face's base models), and decoders with their output layer."""
    return {row["name"]: _shape(**row["shape"]) for row in _data()["models"] if "shape" in row}


def _shape(latent: dict[str, int] | None = None, experts: dict[str, Any] | None = None, **plain: Any) -> Transformer:
    return Transformer(
        **plain,
        latent=None if latent is None else Latent(**latent),
        experts=None if experts is None else Experts(**experts),
    )


@cache
def models() -> tuple[Model, ...]:
    """One entry each; layers are built when first asked for."""
    return tuple(_model(**row) for row in _data()["models"])


def _model(
    *,
    name: str,
    batch_range: list[int],
    build: Sequence[Any] = (),
    aliases: tuple[str, ...] = (),
    shape: dict[str, Any] | None = None,
    times: tuple[dict[str, Any], ...] = (),
    **plain: Any,
) -> Model:
    if shape is not None:
        layers = shapes()[name].layers
        plain |= {"sample": f"sequence of {shape['sequence']} tokens", "kind": "language"}
    else:
        made = next(getattr(room, build[0]) for room in (vision, language, others) if hasattr(room, build[0]))
        layers = partial(made, *(getattr(vision, one) if isinstance(one, str) else one for one in build[1:]))
    known = [(row, _timing(row)) for row in times]
    return Model(
        name=name,
        build=layers,
        batch_range=(batch_range[0], batch_range[1]),
        aliases=tuple(aliases),
        timings=tuple(timing for row, timing in known if "up_s" not in row),  # a circle is no time of an iteration
        variants=tuple(
            Published(
                row["variant"], timing, row.get("gradient_mb", 0.0) * MB, row.get("up_s", 0.0), row.get("up_gbps", 0.0)
            )
            for row, timing in known
            if "variant" in row
        ),
        **plain,
    )


def _timing(row: dict[str, Any]) -> Timing:
    source = _data()["sources"].get(row["source"], row["source"])
    if "per_s" in row:
        return Timing(row["gpu"], row["batch"], 1 / (3 * row["per_s"]), 2 / (3 * row["per_s"]), source)
    memory = (
        {"memory_bytes": row["memory_mb"] * MB, "memory_source": f"published: {source}"} if "memory_mb" in row else {}
    )
    return Timing(
        row["gpu"], row["batch"], row["forward_ms"] / 1e3, row["backward_ms"] / 1e3, source, **memory,
        optimiser_s=row.get("optimiser_ms", 0.0) / 1e3, estimated=row.get("estimated", False),
    )  # fmt: skip
