"""Which headline verdicts hang on constants that we chose: each runs again with one constant at a time at either end.

constants.toml of a paper's package names them. `weft reproduce PAPER --stability` runs and prints this;
`python -m weft_evidence.stability PAPER [CLAIM...]` records it beside the paper's page."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Any

from weft.errors import InputError
from weft_evidence import NotCarriedError, claims_of, reproduce
from weft_evidence.checks import FEWEST_SEEDS, chosen
from weft_evidence.claims import Claim, Request
from weft_evidence.constants import Constant, End, Stability, constants, folder_of, given, recorded


def covered(paper: str) -> list[str]:
    """The headline claims that are run: those of a quick run, but for those that `without` names."""
    without = given(paper).get("without", {})
    checks = claims_of(paper, quick=True)
    return [name for name, check in checks.items() if check.headline and not check.slow and name not in without]


def stability(paper: str, request: Request) -> list[Stability]:
    """Every headline claim that is covered with our values and at each end, in a quick run. Where claims are asked for,
    they are run, and constants that they do without are left out."""
    known = constants(paper)
    if not known:
        raise InputError(f"reproduce {paper}: nobody has listed the constants that its claims hang on")
    names = chosen(request, claims_of(paper, quick=True))[0] if request.claims else covered(paper)
    points: list[tuple[Constant | None, Any]] = [(None, None), *((c, value) for c in known for value in c.ends)]
    each = replace(request, quick=True, claims=tuple(names), seeds=request.seeds or FEWEST_SEEDS)
    found: list[tuple[Claim, ...]] = []
    for i, (constant, value) in enumerate(points):

        def tell(done: int, total: int, i: int = i) -> None:
            if request.on_progress is not None:
                request.on_progress(100 * i + 100 * done // max(total, 1), 100 * len(points))

        settings = {constant.key: value} if constant is not None else {}
        try:
            found.append(reproduce(paper, replace(each, settings=settings, carried=set(), on_progress=tell)).claims)
        except NotCarriedError:
            if not request.claims:
                raise
            found.append(())
    return [
        Stability(claim.id, claim.headline, claim.verdict, claim.measured, tuple(
            End(constant.name, value, claims[k].measured, claims[k].verdict)
            for (constant, value), claims in zip(points, found, strict=True)
            if constant is not None and claims
        ))
        for k, claim in enumerate(found[0])
    ]  # fmt: skip


def to_dict(paper: str, found: list[Stability], seeds: int | None) -> dict[str, Any]:
    """What `weft reproduce --stability --json` prints, and what is recorded."""
    return {
        "paper": paper, "seeds": seeds or FEWEST_SEEDS, "constants": [asdict(each) for each in constants(paper)],
        "claims": [each.to_dict() for each in found],
    }  # fmt: skip


def main() -> None:
    """Run and record a paper, or some of its claims; the rows of the others stay."""
    from weft.runs.kept import kept
    from weft_evidence.pages import rounded

    paper, *claims = sys.argv[1:]
    with kept(say=print):
        found = stability(paper, Request(claims=tuple(claims), on_progress=_say))
    made = to_dict(paper, found, None)
    rows = recorded(paper) | {row["headline"]: rounded(row) for row in made["claims"] if row["headline"]}
    text = json.dumps({**made, "claims": list(rows.values())}, indent=1)
    (folder_of(paper) / "stability.json").write_text(f"{text}\n", encoding="utf-8")


def _say(done: int, total: int) -> None:
    print(f"\r{100 * done // total} %", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
