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
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            metavar="NAME",
            help="A scenario that comes with weft: demo, llm-cluster, vision-2020, pretraining-16k, cassini, ...",
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", hidden=True)] = False,  # until 0.3
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a commented scenario to start from.

    Example: weft init my.toml --template llm-cluster
    """
    from weft.scenario.shipped import scenario_path
    from weft.scenario.template import TEMPLATE

    name = "scenario.toml" if str(path) == "-" else path
    template = template or ("demo" if demo else None)
    text = scenario_path(template).read_text(encoding="utf-8") if template else TEMPLATE.format(name=name)
    if str(path) == "-":
        print(text, end="")
        return
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; choose another name or add --force")
    path.write_text(text, encoding="utf-8")
    notice(f"wrote {path}; run it with: weft simulate {path}")
