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
    judged = [row for name, row in rows.items() if name.startswith("table-2.") and row["verdict"] in ("reproduced", "no")]
    fitted = sum(name.startswith("table-2.") and row["verdict"] == "fitted" for name, row in rows.items())
    failed = sum(row["verdict"] == "no" for row in judged)
    return (
        f"Table 2: periods and one rate per snapshot are *fitted* in snapshots 1 and 2 ({fitted} rows, counted nowhere). "
        f"Snapshots 3 to 5 are predictions: {failed} of {len(judged)} fail."
    )


def _released(rows: Rows) -> str:
    """What the simulator of Dally's authors saves of the mean JCT."""
    found = [
        tuple(rows[f"figure-13a.jct.over-tiresias-racks.{racks}-racks"]["released"].values()) for racks in (2, 4, 8, 16)
    ]
    released, repaired = (", ".join(f"{value:.0f}" for value in values) for values in zip(*found, strict=True))
    return (
        "We ran the authors' simulator, once for each number, with settings chosen with the published numbers in view. It "
        f"leaks GPUs: as released its Dally saves {released} % of the mean JCT over its Tiresias on 2, 4, 8 and 16 racks, "
        f"repaired {repaired} %."
    )


def _sizes(rows: Rows) -> str:
    """What the ratios of Titan are ratios of."""

    def pair(name: str, unit: str) -> str:
        row = rows[name]
        return f"{row['measured']:.3g}{unit} where {row['published']:.3g} are published"

    return (
        "Both *reproduced* rows are ratios of numbers that are not: across machines Titan has "
        f"{pair('exp-3.overhead.titan', ' GB')}, HiveD {pair('exp-3.overhead.hived', '')}; of fragmentation, on drawn jobs, "
        f"Titan has {pair('exp-2.fragmentation.titan', ' %')}, Tiresias {pair('exp-2.fragmentation.tiresias', '')}. HiveD uses "
        f"{rows['exp-1.used.hived']['measured']:.0f} machines ({rows['exp-1.used.hived']['published']:.0f} published)."
    )


def _bounds(rows: Rows) -> str:
    """The theorems of Titan on random states."""
    printed, ours = (
        sum(rows[f"exact{tight}.{form}.bound-broken"]["measured"] for tight in ("", "-tight"))
        for form in ("titan-printed", "titan")
    )
    return (
        f"Algorithm 3 as printed breaks the bound of Theorems 4 and 5 in {printed:.0f} random states; ours in {ours:.0f}, "
        "which is counted as our own."
    )


_SENTENCES = {
    "cassini": {"predicted": _predicted},
    "dally": {"released": _released},
    "titan": {"sizes": _sizes, "bounds": _bounds},
}
