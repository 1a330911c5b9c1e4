"""Numbers and pictures of docs/papers/cassini.md: python -m weft_evidence.cassini.experiments [STUDY...] runs studies
and draws them.

Without names all are run. Numbers go to docs/papers/cassini/studies.json; studies that are not named keep theirs.
`python -m weft_evidence.cassini.experiments claims` runs the whole reproduction instead, and writes
claims.json beside them."""

from __future__ import annotations

import json
import sys
from typing import Any

from weft_evidence.pages import ROOT, asked_for, rounded, save_figure, write_claims

FOLDER = ROOT / "docs" / "papers" / "cassini"
NUMBERS = FOLDER / "studies.json"


def main() -> None:
    """Run what is asked for and draw everything there are numbers of."""
    from weft.runs.kept import kept
    from weft_evidence import reproduce
    from weft_evidence.cassini.beyond import STUDIES
    from weft_evidence.claims import Request

    FOLDER.mkdir(parents=True, exist_ok=True)
    if sys.argv[1:] == ["claims"]:
        with kept():
            write_claims(reproduce("cassini", Request()).claims, FOLDER)
        return
    numbers: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    for name in asked_for(STUDIES):
        with kept():  # a study that is interrupted goes on from the runs that it had finished
            numbers[name] = rounded(STUDIES[name]())
        NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        print(f"ran {name}", file=sys.stderr)
    if "many_jobs" in numbers:
        _many_jobs(numbers["many_jobs"])
    if "padding" in numbers:
        _padding(numbers["padding"])


def _many_jobs(rows: list[dict[str, Any]]) -> None:
    from weft.results.pictures.style import DASHES, PALETTE, house_style, new_figure, tidy_axes

    with house_style():
        figure, (left, right) = new_figure(8.4, 3.4, columns=2)
        for i, duty in enumerate(sorted({row["duty"] for row in rows})):
            mine = [row for row in rows if row["duty"] == duty]
            jobs = [row["jobs"] for row in mine]
            for axes, keys in ((left, ("score", "score_unshifted")), (right, ("shifted", "unshifted"))):
                for j, key in enumerate(keys):
                    label = f"{duty:.0%} of the iteration" if j == 0 else None
                    axes.plot(jobs, [row[key] for row in mine], color=PALETTE[i], linestyle=DASHES[j], label=label)
        left.legend(fontsize=8)
        tidy_axes(left, "Score (solid: shifted)", "jobs on the link", "score")
        tidy_axes(right, "Iteration time (solid: shifted)", "jobs on the link", "over dedicated")
        save_figure(figure, FOLDER / "many-jobs.svg")


def _padding(rows: list[dict[str, Any]]) -> None:
    from weft.results.pictures.style import DASHES, MUTED, PALETTE, house_style, new_figure, tidy_axes

    with house_style():
        figure, (axes,) = new_figure(5.4, 3.4)
        for i, comm in enumerate(sorted({row["comm_ms"] for row in rows})):
            mine = [row for row in rows if row["comm_ms"] == comm]
            axes.plot(
                [100 * row["idle"] for row in mine], [row["gain"] for row in mine], color=PALETTE[i],
                linestyle=DASHES[i], marker="o", markersize=3.5, label=f"{comm:.0f} of 300 ms sent",
            )  # fmt: skip
        axes.axhline(1.0, color=MUTED, linewidth=0.8)
        axes.legend(fontsize=8)
        tidy_axes(axes, "When padding pays", "idle time added to the shorter job (%)", "unshifted over padded time")
        save_figure(figure, FOLDER / "padding.svg")


if __name__ == "__main__":
    main()
