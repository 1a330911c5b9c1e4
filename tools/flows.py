"""The picture of docs/papers/flow-scheduling.md: python -m tools.flows runs the frontier, or takes kept runs of it."""

from __future__ import annotations

from tools.ada_srsf import ROOT, _save

FOLDER = ROOT / "docs" / "papers" / "flow-scheduling"


def main() -> None:
    """Write frontier.svg, the picture that the report of `weft reproduce flows` has."""
    from weft.kept import kept
    from weft.research.claims import Request
    from weft.research.flows import reproduce

    with kept():
        result = reproduce(Request(claims=("beyond.frontier",), workers=1))
    FOLDER.mkdir(parents=True, exist_ok=True)
    (picture,) = result.pictures
    _save(picture.draw(), FOLDER / "frontier.svg")


if __name__ == "__main__":
    main()
