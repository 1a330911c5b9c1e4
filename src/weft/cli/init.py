"""`weft init`: a commented scenario to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.common import notice
from weft.errors import InputError


def init(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help='Where to write it ("-": stdout).')] = Path(
        "scenario.toml"
    ),
    demo: Annotated[bool, typer.Option("--demo", help="The scenario of weft's demo instead.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented scenario to start from.

    Example: weft init my.toml
    """
    from weft.scenario.shipped import scenario_path
    from weft.scenario.template import TEMPLATE

    text = scenario_path("demo").read_text(encoding="utf-8") if demo else TEMPLATE.format(name=path)
    if str(path) == "-":
        print(text if demo else TEMPLATE.format(name="scenario.toml"), end="")
        return
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; choose another name or add --force")
    path.write_text(text, encoding="utf-8")
    notice(f"wrote {path}; run it with: weft simulate {path}")
