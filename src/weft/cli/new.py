"""`weft new`: a package to start from."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from weft.cli.common import notice
from weft.errors import InputError

app = typer.Typer(no_args_is_help=True)

PROJECT = """\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "0.1.0"
description = "A policy for weft: {layer} {name}"
requires-python = ">=3.11"
dependencies = ["weft"]

[project.entry-points."weft.{layer}"]
{name} = "{module}:{title}"
"""
README = """\
# {name}

    pip install -e .                                  beside an installed weft
    pytest                                            weft's own conformance suite
    weft compare demo --stack srsf --{layer} {name}
"""
TEST = """\
from weft.testing import check_{layer}

from {module} import {title}


def test_it_keeps_the_rules_of_its_layer() -> None:
    check_{layer}({title})
"""
ORDER = '''\
"""Who goes next: the jobs in the order of their claims."""

from weft.policies.order.base import Claim, Order, Ranking


class {title}(Order):
    """The smallest jobs first; of equally large ones, the one that was submitted first."""

    name = "{name}"

    def rank(self, view, state):
        """The waiting jobs, first the one that should go first.

        A Claim is a job that wants GPUs, how many, and why it comes at this place in the order. A Ranking is all
        claims, and what the policy remembers until it is asked again.
        """
        queue = view.waiting_by(lambda job: job.job.gpus)  # of equal ones, who came first
        return Ranking((Claim(job.id, job.job.gpus, f"wants {{job.job.gpus}} GPUs") for job in queue), state)
'''
PLACE = '''\
"""On which GPUs: the offer is the GPUs as they are, the answer names some of them, with a reason."""

import numpy as np

from weft.policies.place.base import Answer, Place


class {title}(Place):
    """Fills up the servers that have the fewest free GPUs, so that others stay empty."""

    name = "{name}"

    def place(self, view, job, gpus, offer, state):
        """That many GPUs for the job, or None and why it must wait."""
        free = np.flatnonzero(offer.free)
        if len(free) < gpus:
            return Answer(None, f"wants {{gpus}} GPUs; {{len(free)}} are free", state)
        server = view.cluster.server_of_gpu[free]
        fullest = np.lexsort((free, offer.free_per_server[server]))[:gpus]
        return Answer(tuple(sorted(free[fullest].tolist())), "the fullest servers", state)
'''
LAYERS = {"order": ORDER, "place": PLACE}


@app.callback()
def _new() -> None:
    """Write a package with a policy of your own, which passes the conformance suite.

    Example: weft new policy smallest-first --layer order
    """


@app.command("policy")
def policy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the policy is called: smallest-first.")],
    layer: Annotated[str, typer.Option("--layer", help="What it decides: order or place.")] = "place",
    folder: Annotated[Path | None, typer.Option("--into", metavar="DIR", help="Where (default: ./NAME).")] = None,
) -> None:
    """Write a package with a policy of that name, its test and its entry point.

    Example: weft new policy smallest-first --layer order
    """
    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(module):
        raise InputError(f"{name}: a policy's name is small letters, digits and dashes, such as smallest-first")
    if layer not in LAYERS:
        raise InputError(f"--layer {layer}: there are {' and '.join(LAYERS)}; docs/design.md has the others")
    into = folder or Path(name)
    if into.exists():
        raise InputError(f"{into}: exists already; choose another name, or another folder with --into")
    said = {"name": name, "module": module, "layer": layer, "title": name.title().replace("-", "")}
    files = {
        "pyproject.toml": PROJECT, "README.md": README, f"src/{module}.py": LAYERS[layer],
        f"tests/test_{module}.py": TEST,
    }  # fmt: skip
    for path, text in files.items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_text(text.format(**said), encoding="utf-8")
    notice(
        f"wrote {into}; try it with: weft compare demo --stack srsf --{layer} {into}/src/{module}.py:{said['title']}"
    )
