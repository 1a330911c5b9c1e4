"""Papers whose claims are checked: `weft reproduce NAME`.

A paper is a module with a function `reproduce(request: Request) -> Reproduction` and its claims. What all of them have
in common is here and in claims.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from weft.errors import InputError
from weft.registry import near

if TYPE_CHECKING:
    from weft.papers.claims import Reproduction, Request

__all__ = ["PAPERS", "reproduce"]

# name: module, title
PAPERS: dict[str, tuple[str, str]] = {
    "ada-srsf": (
        "weft.papers.ada_srsf",
        "Communication contention aware scheduling of multiple deep learning training jobs (2020)",
    ),
}


def reproduce(name: str, request: Request) -> Reproduction:
    """Check a paper's claims."""
    if name not in PAPERS:
        raise InputError(f"reproduce: there is no paper {name}{near(name, list(PAPERS))}")
    result: Reproduction = import_module(PAPERS[name][0]).reproduce(request)
    return result
