"""Why claims fail: causes.toml has, for every claim that the whole reproduction says no to, what was found by changing
one thing at a time. A cause is shown beside a claim only where the claim fails."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from weft_evidence.claims import Claim, Reproduction

Found = Literal["measured", "in part", "open"]


@dataclass(frozen=True)
class Cause:
    """What an experiment says of claims whose names match `claims`."""

    claims: tuple[str, ...]
    why: str
    found: Found = "measured"

    def to_dict(self) -> dict[str, Any]:
        """Beside a claim in the JSON."""
        return {"why": self.why, "found": self.found}


def cause_of(paper: str, claim: Claim) -> Cause | None:
    """Why a claim fails; None if it does not, or if nothing is known of it."""
    if claim.verdict != "no":
        return None
    return next((each for each in causes(paper) if any(fnmatchcase(claim.id, name) for name in each.claims)), None)


def why_claims_fail(result: Reproduction) -> dict[str, list[str]]:
    """Each cause in words with the claims that it is about, in the order of the file; at the end, claims that fail in
    this run only. Nothing for what has no page of causes."""
    if not causes(result.paper):
        return {}
    found: dict[Cause | None, list[str]] = {each: [] for each in (*causes(result.paper), None)}
    for claim, cause in result.with_causes():
        if claim.verdict == "no":
            found[cause].append(claim.id)
    return {_words(each): names for each, names in found.items() if names}


def _words(cause: Cause | None) -> str:
    if cause is None:
        return "These claims do not fail in the whole run that was recorded, so nothing was looked for."
    return cause.why if cause.found == "measured" else f"{cause.found.capitalize()}: {cause.why}"


@cache
def causes(paper: str) -> tuple[Cause, ...]:
    """The causes of a paper, the more special ones first."""
    read = tomllib.loads((files("weft_evidence") / "causes.toml").read_text("utf-8"))
    return tuple(Cause(**{**entry, "claims": tuple(entry["claims"])}) for entry in read.get(paper, []))
