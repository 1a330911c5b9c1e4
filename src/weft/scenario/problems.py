"""Reading TOML and JSON files, with one clear line for whatever is wrong: the file, the field, what to do instead."""

from __future__ import annotations

import difflib
import json
import tomllib
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from weft.errors import ScenarioError


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a table."""
    try:
        return tomllib.loads(_read_text(path, f"write one with: weft init {path}"))
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: not valid TOML: {_lower(str(error))}; mend that line") from None
    except RecursionError:
        raise ScenarioError(f"{path}: not valid TOML: nested too deeply; flatten it") from None


def read_json(path: Path, kind: str, command: str, shape: str) -> dict[str, Any]:
    """A JSON file whose top level is an object; a key written twice is an error, not a silent choice.

    What kind of file it is, which command reads it and the shape of its top level go into what a user is told.
    """
    text = _read_text(path, f"give the path of a {kind} (see: {command} --help)")
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _object(path, pairs))
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise ScenarioError(f"{path}: not valid JSON: {_lower(error.msg)} at {where}; mend that line") from None
    except RecursionError:
        raise ScenarioError(f"{path}: not valid JSON: nested too deeply; flatten it") from None
    except ValueError as error:  # an integer of thousands of digits
        raise ScenarioError(
            f"{path}: not valid JSON: {_lower(str(error)).split(';')[0]}; shorten that number"
        ) from None
    if not isinstance(value, dict):
        raise ScenarioError(f"{path}: the top level is not an object; write {shape}")
    return value


def _object(path: Path, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ScenarioError(f'{path}: the key "{twice}" is written twice in one object; rename or remove one')
    return table


def _read_text(path: Path, remedy: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file; {remedy}") from None
    except IsADirectoryError:
        raise ScenarioError(f"{path}: is a directory; give the path of a file in it") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    except ValueError:
        raise ScenarioError(f"{str(path)!r}: not a file name; {remedy.split(':')[0]}") from None


def _lower(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].lower() + text[1:]


Model = TypeVar("Model", bound=BaseModel)

_TYPES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list [..]",
    "tuple_type": "a list [..]",
    "dict_type": "a table {..}",
    "model_type": "a table {..}",
    "model_attributes_type": "a table {..}",
    "finite_number": "a finite number",
    "path_type": "a file name in quotes",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def problem(text: str, field: str = "") -> PydanticCustomError:
    """An error to raise in a validator; `text` continues "<field> ...", `field` names a field below the one checked."""
    return PydanticCustomError("weft", "{text}", {"text": text, "field": field})


def explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """The one line: the first problem (a misspelt key comes before what it made missing) and how many more."""
    details = sorted(error.errors(include_url=False), key=_rank)
    first = _place(details[0])
    # A value that fits no member of a union is reported once for each member, but is one problem.
    more = sum(1 for d in details[1:] if not _within(first, _place(d)))
    tail = f" (and {more} more problem{'s' if more > 1 else ''})" if more else ""
    return f"{where}: {_line(details[0], model)}{tail}"


def _rank(detail: ErrorDetails) -> int:
    """A misspelt key comes first; that a word is no table comes last, as where a table or a name may stand the names
    say more."""
    if detail["type"] == "extra_forbidden":
        return 0
    return 2 if detail["type"].startswith("model_") and isinstance(detail.get("input"), str) else 1


def checked(model: type[Model], data: dict[str, Any], where: str) -> Model:
    """What was written, as a model; what is wrong with it becomes one line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(explain(error, model, where)) from None


def check_names(names: Iterable[str]) -> None:
    """Refuse a file in which two jobs have the same name."""
    seen: set[str] = set()
    for i, name in enumerate(names):
        if name in seen:
            raise problem(f'is "{name}", which another job has already; give each its own', f"jobs[{i}].id")
        seen.add(name)


def near(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def dotted(loc: Iterable[int | str]) -> str:
    """("cluster", "links", 2, "gbps") as cluster.links[2].gbps."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if part.isprintable() and part else json.dumps(part)
            text += f".{name}" if text else name
    return text


def quoted(value: Any) -> str:
    """A value as its author would recognise it, cut short."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
    elif isinstance(value, bool):
        text = str(value).lower()
    elif value is None:
        text = "null"
    elif isinstance(value, Mapping):
        text = "a table" if value else "an empty table"
    elif isinstance(value, list | tuple):
        text = "a list" if value else "an empty list"
    else:
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _place(detail: ErrorDetails) -> tuple[int | str, ...]:
    """Where the problem is, without pydantic's marks for members of a union (list[str], Model) and keys of a table."""
    models = {each.__name__ for each in _below(BaseModel)}
    return tuple(part for part in detail["loc"] if isinstance(part, int) or ("[" not in part and part not in models))


def _below(model: type[BaseModel]) -> Iterable[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)


def _within(a: tuple[int | str, ...], b: tuple[int | str, ...]) -> bool:
    n = min(len(a), len(b))
    return a[:n] == b[:n]


def _line(detail: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value, ctx = detail["type"], detail.get("input"), detail.get("ctx", {})
    loc = _place(detail)
    name = dotted(loc) or "the file"
    if kind == "weft":
        return f"{dotted((*loc, ctx['field'])) if ctx['field'] else name} {ctx['text']}"
    if kind == "extra_forbidden":
        return f"{name} is not a known key; {_suggest(model, loc)}"
    if kind == "missing":
        return f"{name} is missing; add it{_choices(model, loc)}"
    if kind == "literal_error":
        return f"{name} is {quoted(value)}; {_choose(value, ctx['expected'])}"
    if kind in _BOUNDS:
        word, key = _BOUNDS[kind]
        return f"{name} is {quoted(value)}; give {word} {ctx[key]:g}"
    if kind in _TYPES:
        return f"{name} is {quoted(value)}; give {_TYPES[kind]}"
    if kind == "string_too_short":
        return f"{name} is {quoted(value)}; give a name"
    if kind == "too_short":
        least = ctx["min_length"]
        return f"{name} is {quoted(value)}; give at least {least} entr{'y' if least == 1 else 'ies'}"
    if kind == "too_long":
        return f"{name} has {ctx['actual_length']} entries; give at most {ctx['max_length']}"
    if kind == "value_error":
        here = _model_at(model, loc)
        known = here is not None and str(ctx["error"]).split(" ")[0] in here.model_fields
        return f"{name}{'.' if known else ': '}{ctx['error']}"
    return f"{name} is {quoted(value)}; {detail['msg']}"


def _choose(value: Any, expected: str) -> str:
    known = [word.strip("' ") for word in expected.replace(" or ", ", ").split(", ")]
    guess = near(value, known) if isinstance(value, str) else None
    hint = f"did you mean {guess}? known: " if guess else "choose one of "
    return hint + ", ".join(known)


def _suggest(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """The remedy for an unknown key: a near match, the section it belongs in, or what is known there."""
    word, here = str(loc[-1]), _model_at(model, loc[:-1])
    known = list(here.model_fields) if here else []
    if guess := near(word, known):
        return f"did you mean {guess}?"
    for section, field in model.model_fields.items():
        below = model_in(field.annotation)
        if len(loc) == 2 and below is not None and word in below.model_fields:
            return f"it belongs in [{section}]"
    return f"known: {', '.join(known)}" if known else "remove it"


def _choices(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    above = _model_at(model, loc[:-1])
    field = above.model_fields.get(str(loc[-1])) if above else None
    if field is None:
        return ""
    args = get_args(field.annotation)
    if args and all(isinstance(a, str) for a in args):
        return ": one of " + ", ".join(args)
    words = (field.description or "").rstrip(".")
    return f" ({words[0].lower()}{words[1:]})" if words else ""


def _model_at(model: type[BaseModel], loc: Iterable[int | str]) -> type[BaseModel] | None:
    """The model that describes the table at `loc`."""
    here: type[BaseModel] | None = model
    for part in loc:
        if here is None:
            return None
        if part in here.model_fields:
            here = model_in(here.model_fields[str(part)].annotation)
    return here


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None`, `list[Model]` or `dict[str, Model]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in (Union, types.UnionType, list, tuple, dict):
        return next((m for a in get_args(annotation) if (m := model_in(a)) is not None), None)
    return None
