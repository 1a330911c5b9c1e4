"""`python -m weft_evidence.record PAPER [CLAIM...]` runs claims that have no record yet, or those that are named, as
the whole reproduction does, and puts them beside the others in docs/papers; what was recorded of other claims stays."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft_evidence import claims_of, reproduce
from weft_evidence.claims import Claim, Request
from weft_evidence.pages import KEPT, folder_of, recorded, write_rows

WHOLE = {"flows": Request(seed=1, seeds=5, workers=1), "dally": Request(seeds=3, workers=1)}  # seeds of the records


def merged(paper: str, rows: Iterable[Mapping[str, Any]], claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Records with these claims in the order of the paper's claims, without what is no claim any more."""
    found = {row["id"]: dict(row) for row in rows}
    found |= {claim.id: {k: v for k, v in claim.to_dict().items() if k in KEPT} for claim in claims}
    return [found[name] for name in claims_of(paper) if name in found]


def unrecorded(paper: str) -> tuple[str, ...]:
    """Claims that have no record."""
    known = {row["id"] for row in recorded(paper)}
    return tuple(name for name in claims_of(paper) if name not in known)


def main(arguments: Sequence[str]) -> None:
    """Run, and write."""
    from dataclasses import replace

    from weft.runs.kept import kept

    paper, *named = arguments
    names = tuple(named) or unrecorded(paper)
    if not names:
        raise SystemExit(f"{paper}: every claim is recorded; name those to run again")
    with kept():
        found = reproduce(paper, replace(WHOLE.get(paper, Request(workers=1)), claims=names))
    write_rows(merged(paper, recorded(paper), found.claims), folder_of(paper))
    for claim in found.claims:
        print(f"{claim.id}: {claim.verdict}, {claim.measured} {list(claim.ci95)}, published {claim.published}")


if __name__ == "__main__":
    main(sys.argv[1:])
