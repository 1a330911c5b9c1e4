"""Sentences on the pages of papers that give recorded numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Rows = Mapping[str, Mapping[str, Any]]  # recorded claims by their names


def told(paper: str, rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The sentences of a paper by the names of their blocks."""
    by_id = {row["id"]: row for row in rows}
    return {f"{name} {paper}": say(by_id) for name, say in _SENTENCES.get(paper, {}).items()}


def _predicted(rows: Rows) -> str:
    """Table 2 of CASSINI, whose first two snapshots are fitted."""
    verdicts = [row["verdict"] for name, row in rows.items() if name.startswith("table-2.")]
    failed, kept = verdicts.count("no"), verdicts.count("reproduced")
    return (
        "Table 2: periods and one rate per snapshot are *fitted* in snapshots 1 and 2 "
        f"({verdicts.count('fitted')} rows, counted nowhere). Snapshots 3 to 5 are predictions: {failed} of "
        f"{failed + kept} fail."
    )


def _printed(rows: Rows) -> str:
    """What CASSINI to the letter gains in Figure 13, beside what runs by default."""

    def of(key: str) -> str:
        ours, theirs = (
            " and ".join(
                f"{rows[f'figure-13.{planner}.{key}{part}']['measured']:.3g}" for planner in ("themis", "pollux")
            )
            for part in ("", ".printed")
        )
        return f"{theirs} ({ours})"

    return (
        f"By the letter (`cassini:printed`; in brackets ours) the means of Figure 13 gain {of('mean')} over Themis "
        f"and Pollux, with {of('restarts')} restarts, which is all that our additions save."
    )


def _released(rows: Rows) -> str:
    """What the simulator of Dally's authors saves of the mean JCT."""
    found = [
        tuple(rows[f"figure-13a.jct.over-tiresias-racks.{racks}-racks"]["released"].values()) for racks in (2, 4, 8, 16)
    ]
    released, repaired = (", ".join(f"{value:.0f}" for value in values) for values in zip(*found, strict=True))
    return (
        "We ran the authors' simulator, once for each number, with settings chosen with the published numbers in view. "
        f"It leaks GPUs: as released its Dally saves {released} % of the mean JCT over its Tiresias on 2, 4, 8 and 16 "
        f"racks, repaired {repaired} %."
    )


def _sizes(rows: Rows) -> str:
    """What the ratios of Titan are ratios of."""

    def beside(name: str, unit: str = "") -> str:
        row = rows[name]
        return f"{row['measured']:.3g}{unit} for {row['published']:.3g}"

    sent, split = "exp-3.overhead", "exp-2.fragmentation"
    return (
        f"Both *reproduced* rows are ratios of numbers that are not: {beside(f'{sent}.titan', ' GB')} published "
        f"under Titan, {beside(f'{sent}.hived')} under HiveD; {beside(f'{split}.titan', ' %')} fragmented under Titan, "
        f"{beside(f'{split}.tiresias')} under Tiresias. HiveD uses {beside('exp-1.used.hived', ' machines')}."
    )


def _bounds(rows: Rows) -> str:
    """The theorems of Titan on random states."""
    printed, ours = (
        sum(rows[f"exact{tight}.{form}.bound-broken"]["measured"] for tight in ("", "-tight"))
        for form in ("titan-printed", "titan")
    )
    return (
        f"Algorithm 3 as printed breaks the bound of Theorems 4 and 5 in {printed:.0f} random states; ours, our own "
        f"research, in {ours:.0f}."
    )


_SENTENCES = {
    "cassini": {"predicted": _predicted, "letter": _printed},
    "dally": {"released": _released},
    "titan": {"sizes": _sizes, "bounds": _bounds},
}
