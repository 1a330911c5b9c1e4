"""Claims and the picture of docs/papers/flow-scheduling.md.

`python -m tools.flows` runs the frontier and draws it. `python -m tools.flows claims` runs all claims over five seeds,
without the experiments that change one thing in each, and writes claims.json. Both take runs that were kept.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from tools.ada_srsf import ROOT, _save, write_claims

FOLDER = ROOT / "docs" / "papers" / "flow-scheduling"


def main() -> None:
    """Write claims.json, or frontier.svg: the picture that the report of `weft reproduce flows` has."""
    from weft.kept import kept
    from weft.research.claims import Request
    from weft.research.flows import CLAIMS, reproduce

    FOLDER.mkdir(parents=True, exist_ok=True)
    whole = sys.argv[1:] == ["claims"]
    if whole:
        CLAIMS.update({name: replace(check, controls=()) for name, check in CLAIMS.items()})
    with kept():
        result = reproduce(Request(seed=1, seeds=5, workers=1, claims=() if whole else ("beyond.frontier",)))
    if whole:
        write_claims(result.claims, FOLDER)
    else:
        (picture,) = result.pictures
        _save(picture.draw(), FOLDER / "frontier.svg")


if __name__ == "__main__":
    main()
