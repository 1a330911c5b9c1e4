"""Papers whose claims are checked: `weft reproduce NAME`.

A paper is a package, found by the entry point weft.papers. It has a TITLE, a function `reproduce(request: Request) ->
Reproduction` and its CLAIMS; one whose claims have other names in a quick run also has a function `claims(quick)`. What
all of them have in common is here and in claims.py."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from weft.errors import InputError, near

if TYPE_CHECKING:
    from weft_evidence.checks import Check
    from weft_evidence.claims import Reproduction, Request


class NotCarriedError(InputError):
    """A setting that nothing was run with."""


def papers() -> dict[str, EntryPoint]:
    """The papers that are installed, by name."""
    return {point.name: point for point in entry_points(group="weft.papers")}


def reproduce(name: str, request: Request) -> Reproduction:
    """Check a paper's claims. A setting that nothing was run with is refused."""
    result: Reproduction = _paper(name).reproduce(request)
    if left := [key for key in request.settings if key not in request.carried]:
        raise NotCarriedError(
            f"reproduce {name}: nothing that was run has {' or '.join(left)}; these claims do without it"
        )
    return result


def claims_of(name: str, quick: bool = False) -> dict[str, Check]:
    """The claims of a paper by their names; nothing is run."""
    paper = _paper(name)
    found: dict[str, Check] = paper.claims(quick) if hasattr(paper, "claims") else paper.CLAIMS
    return found


def title_of(name: str) -> str:
    """What a paper is called; its name, if it is not installed here."""
    title: str = _paper(name).TITLE if name in papers() else name
    return title


def _paper(name: str) -> Any:
    known = papers()
    if name not in known:
        raise InputError(f"reproduce: there is no paper {name or 'without a name'}{near(name, sorted(known))}")
    return known[name].load()
