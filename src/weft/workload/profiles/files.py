"""Profile files: JSON, versioned. A scenario's model may be the path of one.

Two kinds, told apart by `kind`:
- "measured": what a profiler saw of a model at some batch sizes; becomes a task graph for any number of workers.
- "graph": one iteration as a task graph for a fixed number of workers, as `weft.model.Profile` has it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from weft.errors import InputError
from weft.model.profile import Compute, Profile, Task, Transfer
from weft.workload.profiles.measured import Bucket, Measured

FORMAT = "weft-profile"
VERSION = 1
_DIGITS = 6  # significant digits written: a measurement has no more

_Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Bytes = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)  # most runs read no profile files


class _BucketEntry(_Strict):
    bytes: _Bytes
    ready_s: _Seconds


class _MeasuredEntry(_Strict):
    gpu: str
    dtype: str = "fp32"
    batch: Annotated[int, Field(ge=1)]
    forward_s: _Seconds
    backward_s: _Seconds
    optimiser_s: _Seconds = 0.0
    buckets: list[_BucketEntry] = []
    params: _Count = 0
    gradient_bytes: _Bytes
    sparse_bytes: _Bytes = 0.0
    memory_bytes: _Bytes = 0.0
    spread: _Seconds = 0.0
    repeats: _Count = 0
    date: str = ""
    software: str = ""
    library: str = ""
    sample: str = ""

    def value(self) -> Measured:
        """The plain value."""
        fields = self.model_dump(exclude={"buckets"})
        return Measured(**fields, buckets=tuple(Bucket(b.bytes, b.ready_s) for b in self.buckets))


class _MeasuredFile(_Strict):
    format: Literal["weft-profile"]
    version: Literal[1]
    kind: Literal["measured"]
    model: str
    measurements: Annotated[list[_MeasuredEntry], Field(min_length=1)]


class _ComputeEntry(_Strict):
    type: Literal["compute"]
    name: str
    seconds: _Seconds
    after: tuple[int, ...] = ()
    workers: tuple[int, ...] | None = None


class _TransferEntry(_Strict):
    type: Literal["transfer"]
    name: str
    bytes: _Bytes
    after: tuple[int, ...] = ()
    workers: tuple[int, ...] | None = None
    collective: str | None = None
    demand_bytes_per_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    servers: Annotated[int, Field(ge=1)] = 1


class _GraphFile(_Strict):
    format: Literal["weft-profile"]
    version: Literal[1]
    kind: Literal["graph"]
    name: str
    workers: Annotated[int, Field(ge=1)]
    memory_bytes: _Bytes = 0.0
    batch: _Count = 0
    gpu: str = ""
    source: str = ""
    memory_source: str = ""
    tasks: list[Annotated[_ComputeEntry | _TransferEntry, Field(discriminator="type")]]


@cache
def _either() -> TypeAdapter[_MeasuredFile | _GraphFile]:
    return TypeAdapter(Annotated[_MeasuredFile | _GraphFile, Field(discriminator="kind")])


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
    if isinstance(parsed, _MeasuredFile):
        return MeasuredModel(parsed.model, tuple(m.value() for m in parsed.measurements))
    try:
        return _graph(parsed)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def save_measured(model: str, measurements: Iterable[Measured], path: str | Path) -> None:
    """Write a measured profile file."""
    entries = [_rounded(asdict(m)) for m in measurements]
    _write({"format": FORMAT, "version": VERSION, "kind": "measured", "model": model, "measurements": entries}, path)


def save_profile(profile: Profile, path: str | Path) -> None:
    """Write a profile as a graph file, number for number: loading it gives an equal profile."""
    tasks: list[dict[str, Any]] = []
    for task in profile.tasks:
        kind = "compute" if isinstance(task, Compute) else "transfer"
        fields = {k: v for k, v in asdict(task).items() if v is not None}
        tasks.append({"type": kind, **fields})
    names = ("name", "workers", "memory_bytes", "batch", "gpu", "source", "memory_source")
    head = {name: getattr(profile, name) for name in names}
    _write({"format": FORMAT, "version": VERSION, "kind": "graph", **head, "tasks": tasks}, path)


def _graph(file: _GraphFile) -> Profile:
    tasks: list[Task] = []
    for entry in file.tasks:
        kind = Compute if isinstance(entry, _ComputeEntry) else Transfer
        tasks.append(kind(**entry.model_dump(exclude={"type"})))
    return Profile(tasks=tuple(tasks), **file.model_dump(exclude={"format", "version", "kind", "tasks"}))


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
