"""Profile files: JSON, versioned. A scenario's model may be the path of one.

Two kinds, told apart by `kind`:
- "measured": what a profiler saw of a model at some batch sizes; becomes a task graph for any number of workers.
- "graph": one iteration as a task graph for a fixed number of workers, as `weft.model.Profile` has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Transfer
from weft.workload.profiles.measured import Bucket, Measured

FORMAT = "weft-profile"
VERSION = 1
_DIGITS = 6  # significant digits written: a measurement has no more

_CHECKED = {float: Annotated[float, Field(ge=0, allow_inf_nan=False)], int: Annotated[int, Field(ge=0)]}
_AT_LEAST_1 = Annotated[int, Field(ge=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


def _entry(of: type[Any], **other: Any) -> Any:
    """A dataclass as it stands in a file: its fields, no number below 0, but for the `other` ones (type, default)."""
    hints = get_type_hints(of)
    plain = {
        f.name: (_CHECKED.get(hints[f.name], hints[f.name]), ... if f.default is MISSING else f.default)
        for f in fields(of)
    }
    return create_model(of.__name__, __base__=_Strict, **{**plain, **other})


def _one_of(key: str, *entries: Any) -> Any:
    """One of these, as the text at a key says."""
    return Annotated[Union[entries], Field(discriminator=key)]  # noqa: UP007 - of a tuple


def _list_of(entry: Any, least: int = 0) -> Any:
    return Annotated[list[entry], Field(min_length=least)]


@cache
def _either() -> TypeAdapter[Any]:
    """What a file may hold, described when the first one is read: most runs read none."""
    head: dict[str, Any] = {"format": (Literal["weft-profile"], ...), "version": (Literal[1], ...)}
    measured = _entry(
        Measured, batch=(_AT_LEAST_1, ...), dtype=(str, "fp32"), optimiser_s=(_CHECKED[float], 0.0),
        params=(_CHECKED[int], 0), buckets=(_list_of(_entry(Bucket)), []),
    )  # fmt: skip
    demand = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
    compute = _entry(Compute, type=(Literal["compute"], ...))
    transfer = _entry(
        Transfer, type=(Literal["transfer"], ...), servers=(_AT_LEAST_1, 1), demand_bytes_per_s=(demand, None)
    )
    measurements: dict[str, Any] = {
        **head, "kind": (Literal["measured"], ...), "model": (str, ...), "measurements": (_list_of(measured, 1), ...),
    }  # fmt: skip
    graph = _entry(
        Profile, **head, kind=(Literal["graph"], ...), workers=(_AT_LEAST_1, ...),
        tasks=(_list_of(_one_of("type", compute, transfer)), ...),
    )  # fmt: skip
    return TypeAdapter(_one_of("kind", create_model("Measurements", __base__=_Strict, **measurements), graph))


@dataclass(frozen=True)
class MeasuredModel:
    """The contents of a measured profile file."""

    model: str
    measurements: tuple[Measured, ...]


def parse_file(text: str, path: str | Path) -> MeasuredModel | Profile:
    """What the text of a profile file holds; an InputError names the `path`, the field and the remedy."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: it is not JSON ({_first_line(error)}); weft profile writes profile files") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise InputError(f'{path}: format must be "{FORMAT}"; weft profile writes such files')
    if raw.get("version") != VERSION:
        raise InputError(f"{path}: version is {raw.get('version')!r}, this weft reads {VERSION}; write it again")
    if raw.get("kind") not in ("measured", "graph"):
        said = f"is {raw['kind']!r}" if "kind" in raw else "is missing"
        raise InputError(f'{path}: kind {said}; give "measured" (times by batch) or "graph" (tasks of one iteration)')
    try:
        parsed = _either().validate_python(raw)
    except ValidationError as error:
        raise InputError(f"{path}: {_where(error)}; correct the field") from error
    said = parsed.model_dump(exclude={"format", "version", "kind"})
    if parsed.kind == "measured":
        rows = [{**row, "buckets": tuple(Bucket(**b) for b in row["buckets"])} for row in said["measurements"]]
        return MeasuredModel(said["model"], tuple(Measured(**row) for row in rows))
    try:
        return Profile.from_json(said)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def save_measured(model: str, measurements: Iterable[Measured], path: str | Path) -> None:
    """Write a measured profile file."""
    entries = [_rounded(asdict(m)) for m in measurements]
    _write({"format": FORMAT, "version": VERSION, "kind": "measured", "model": model, "measurements": entries}, path)


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile as a graph file, number for number: loading it gives an equal profile."""
    said = profile.as_json()
    if profile.worth == 1.0:
        del said["worth"]  # which few have, and earlier versions did not read
    said["tasks"] = [{k: v for k, v in task.items() if v is not None} for task in said["tasks"]]
    _write({"format": FORMAT, "version": VERSION, "kind": "graph", **said}, path)


def _write(content: dict[str, Any], path: str | Path) -> None:
    try:
        Path(path).write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; choose a path that can be written") from error


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if value != int(value) else value
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value


def _where(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(p) for p in first["loc"] if p not in ("measured", "graph", "compute", "transfer"))
    return f"{place or 'file'}: {_first_line(first['msg'])}"


def _first_line(text: object) -> str:
    return str(text).splitlines()[0] if str(text) else "no reason given"
