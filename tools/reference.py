"""Writes pages of docs/: commands.md from the command line, scenario.md from the schema, api.md and policies.md from
the code."""

from __future__ import annotations

import inspect
import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tools import names, policies
from weft.cli.main import app
from weft.scenario import Scenario
from weft.scenario.jobfile import JobFile

DOCS = Path(__file__).resolve().parent.parent / "docs"

COMMANDS_HEAD = """\
# Commands

Generated from the command line (`make docs`); `weft COMMAND --help` shows the same.

Results go to stdout, progress and notices to stderr. With `--json` stdout is one JSON object and nothing
else; numbers that are not defined are null. Exit codes: 0 done; 2 something in what you gave is wrong, with
one line that says what and how to mend it; 1 a bug in weft (`WEFT_DEBUG=1` shows the traceback); 130
interrupted.

Wherever there is `--stack NAME`, `--order`, `--place`, `--interleave`, `--pace` and `--route` replace one layer of that
stack (`--place first-fit`); a combination that cannot work is refused with the reason.

Compiled kernels are kept in `~/.cache/weft` (`WEFT_CACHE_DIR` moves them), one folder per version of their
source.
"""

SCENARIO_HEAD = """\
# Scenarios and job files

Generated from the schema (`make docs`). `weft init` writes a commented scenario to start from.

A scenario is a TOML file. Unknown keys are errors. Only `[cluster]` and `[workload]` must be there. Names of
files in it are relative to its own folder.
"""

JOB_FILE_HEAD = """\
## Job files

The input of `weft replay`: a JSON object with the physics alone. Phases repeat in a cycle; compute and
transfer of one phase run side by side, and the phase ends when both are done. Each flow carries `bytes`, a link
carries as many of them as `flows` says, and all advance in lock step. A cycle of zero length is refused.
"""


def commands() -> str:
    """docs/commands.md."""
    root: Any = typer.main.get_command(app())
    parts = [COMMANDS_HEAD]
    for name, command in root.commands.items():
        parts += _command(f"weft {name}", command)
    return "\n".join(parts).rstrip() + "\n"


def scenario() -> str:
    """docs/scenario.md."""
    parts = [SCENARIO_HEAD]
    for name, field in Scenario.model_fields.items():
        model = _model(field.annotation)
        if model is not None:
            parts += [f"## [{name}]\n", _doc(model), "", *_fields(model, f"[{name}]")]
    parts += [JOB_FILE_HEAD, *_fields(JobFile, "the top level")]
    return "\n".join(parts).rstrip() + "\n"


def _command(name: str, command: Any) -> list[str]:
    """A heading per command, its help, its arguments and options; sub-commands follow."""
    text = inspect.cleandoc(command.help or "")
    lines = [f"## {name}\n", _examples(text), ""]
    if hasattr(command, "commands"):
        for sub, inner in command.commands.items():
            lines += _command(f"{name} {sub}", inner)
        return lines
    rows = [_parameter(p) for p in command.params if p.name != "help" and not getattr(p, "hidden", False)]
    if rows:
        lines += ["| | |", "|---|---|", *rows, ""]
    return lines


def _examples(text: str) -> str:
    """Help text, its example as code."""
    before, found, example = text.partition("Example: ")
    return before + (f"    {example}" if found else "")


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        shown = parameter.metavar or parameter.name.upper()
    else:
        shown = ", ".join(parameter.opts)
        if not parameter.is_flag:
            shown += f" {parameter.metavar or parameter.name.upper()}"
    return f"| `{shown}` | {_cell(parameter.help or '')} |"


def _fields(model: type[BaseModel], where: str) -> list[str]:
    """A table of a model's keys, then those of the tables inside it."""
    lines = ["| key | type | default | |", "|---|---|---|---|"]
    inner: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else _default(field)
        lines.append(f"| `{name}` | {_type(field.annotation)} | {default} | {_cell(field.description or '')} |")
        below = _model(field.annotation)
        if below is not None:
            inner.append((name, below))
    lines.append("")
    for name, below in inner:
        lines += [f"### `{name}` in {where}\n", _doc(below), "", *_fields(below, f"`{name}`")]
    return lines


def _default(field: Any) -> str:
    if field.default_factory is not None:
        value = field.default_factory()
        return "" if isinstance(value, BaseModel) or not value else f"`{value}`"
    if field.default is None or field.default is PydanticUndefined or field.default == "":
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _type(annotation: Any) -> str:
    """A type in words that a user of TOML or JSON knows."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(args[0])
    if origin is Literal:
        return ", ".join(f"`{a}`" for a in args)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(a) for a in args if a is not type(None)))
    if origin in (list, tuple):
        return "list"
    if origin is dict or _model(annotation) is not None:
        return "table"
    return {int: "integer", float: "number", str: "text", bool: "true or false"}.get(annotation, str(annotation))


def _model(annotation: Any) -> type[BaseModel] | None:
    """The model inside a type, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for a in get_args(annotation) if (m := _model(a)) is not None), None)


def _doc(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


PAGES = {"api.md": names.page, "commands.md": commands, "policies.md": policies.page, "scenario.md": scenario}


def main() -> None:
    """Write all pages."""
    for name, write in PAGES.items():
        (DOCS / name).write_text(write(), encoding="utf-8")
        print(f"wrote docs/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()
