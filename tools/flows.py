"""Claims and the picture of docs/papers/flow-scheduling.md.

`python -m tools.flows` runs the frontier and draws it. `python -m tools.flows claims` runs all claims over five seeds,
with the experiments that change one thing in each, and writes what they measured to claims.json and causes.json. Both
take runs that were kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence

from tools.ada_srsf import ROOT, _save, write_claims

FOLDER = ROOT / "docs" / "papers" / "flow-scheduling"


def causes(claims: Iterable[str], notes: Sequence[str]) -> str:
    """The notes of a reproduction that belong to a claim: what was changed in it, and what came of that."""
    starts = tuple(f"{claim}{mark}" for claim in claims for mark in (",", ":"))
    return json.dumps([note for note in notes if note.startswith(starts)], indent=1) + "\n"


def main() -> None:
    """Write claims.json, or frontier.svg: the picture that the report of `weft reproduce flows` has."""
    from weft.kept import kept
    from weft.research.claims import Request
    from weft.research.flows import reproduce

    FOLDER.mkdir(parents=True, exist_ok=True)
    whole = sys.argv[1:] == ["claims"]
    with kept():
        result = reproduce(Request(seed=1, seeds=5, workers=1, claims=() if whole else ("beyond.frontier",)))
    if whole:
        write_claims(result.claims, FOLDER)
        (FOLDER / "causes.json").write_text(causes([claim.id for claim in result.claims], result.notes), "utf-8")
    else:
        (picture,) = result.pictures
        _save(picture.draw(), FOLDER / "frontier.svg")


if __name__ == "__main__":
    main()
