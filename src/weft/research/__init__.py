"""Papers whose claims are checked: `weft reproduce NAME`.

A paper is a module with a function `reproduce(request: Request) -> Reproduction` and its CLAIMS; one whose claims have
other names in a quick run also has a function `claims(quick)`. What all of them have in common is here and in
claims.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import InputError
from weft.registry import near

if TYPE_CHECKING:
    from weft.research.checks import Check
    from weft.research.claims import Reproduction, Request

# name: module, title
PAPERS: dict[str, tuple[str, str]] = {
    "ada-srsf": (
        "weft.research.ada_srsf",
        "Communication contention aware scheduling of multiple deep learning training jobs (2020)",
    ),
    "cassini": (
        "weft.research.cassini",
        "CASSINI: network-aware job scheduling in machine learning clusters (2024)",
    ),
    "dally": (
        "weft.research.dally",
        "Dally: a network-placement sensitive cluster scheduler for deep learning (2025)",
    ),
    "flows": (
        "weft.research.flows",
        "Dynamic flow scheduling for DNN training workloads in data centers",
    ),
    "titan": (
        "weft.research.titan",
        "Non-idle machine-aware worker placement for efficient distributed training in GPU clusters (Titan)",
    ),
    "weft": (
        "weft.research.weft",
        "The stack weft, held to the methods of these papers on their scenarios",
    ),
}


def reproduce(name: str, request: Request) -> Reproduction:
    """Check a paper's claims."""
    result: Reproduction = _paper(name).reproduce(request)
    return result


def claims_of(name: str, quick: bool = False) -> dict[str, Check]:
    """The claims of a paper by their names; nothing is run."""
    paper = _paper(name)
    found: dict[str, Check] = paper.claims(quick) if hasattr(paper, "claims") else paper.CLAIMS
    return found


def _paper(name: str) -> Any:
    if name not in PAPERS:
        raise InputError(f"reproduce: there is no paper {name or 'without a name'}{near(name, list(PAPERS))}")
    return import_module(PAPERS[name][0])
