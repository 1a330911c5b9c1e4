"""Constants that we chose, and what was recorded of the verdicts that hang on them.

constants.toml of a paper's package names the constants; stability.py runs the claims."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft_evidence import claims_of, papers

if TYPE_CHECKING:
    from weft_evidence.claims import Claim

ROOT = Path(__file__).resolve().parents[3]  # of a checkout
MOST = 8  # constants of a paper


@dataclass(frozen=True)
class Constant:
    """A constant that we chose: how a request sets it (settings.py), our value, and the ends of its range."""

    name: str
    key: str
    ours: Any
    low: Any
    high: Any
    source: str  # of the range
    unit: str = ""

    @property
    def ends(self) -> list[Any]:
        """Those that are not our value."""
        return [value for value in (self.low, self.high) if value != self.ours]

    @property
    def words(self) -> str:
        """Our value and its range."""
        return f"`{self.name}` {self.ours} ({self.low} to {self.high}){self.unit and ' '}{self.unit}"


@dataclass(frozen=True)
class End:
    """What a claim comes to with a constant at an end of its range."""

    constant: str
    value: Any
    measured: float | None
    verdict: str


@dataclass(frozen=True)
class Stability:
    """A headline claim with our values, and at each end of each constant."""

    id: str
    headline: str
    verdict: str
    measured: float | None
    ends: tuple[End, ...]

    @property
    def flips(self) -> list[str]:
        """Where the verdict is another one, and which."""
        return [f"{end.constant}={end.value} -> {end.verdict}" for end in self.ends if end.verdict != self.verdict]

    @property
    def words(self) -> str:
        """`stable`, or by what it is not."""
        return f"unstable: {'; '.join(self.flips)}" if self.flips else "stable"

    @property
    def short(self) -> str:
        """The same for a table: each other verdict with the constants that lead to it, and their values."""
        found: dict[str, dict[str, list[str]]] = {}
        for end in self.ends:
            if end.verdict != self.verdict:
                found.setdefault(end.verdict, {}).setdefault(end.constant, []).append(str(end.value))
        at = {v: ", ".join(f"{name}={'/'.join(ends)}" for name, ends in by.items()) for v, by in found.items()}
        ways = (f"{verdict} at {where}" for verdict, where in at.items())
        return f"unstable: {'; '.join(ways)}" if found else "stable"

    def to_dict(self) -> dict[str, Any]:
        """One entry of the JSON."""
        return {**asdict(self), "stable": not self.flips, "ends": [asdict(end) for end in self.ends]}


@cache
def given(paper: str) -> Mapping[str, Any]:
    path = files(papers()[paper].module) / "constants.toml" if paper in papers() else None
    return tomllib.loads(path.read_text("utf-8")) if path is not None and path.is_file() else {}


def constants(paper: str) -> tuple[Constant, ...]:
    """The constants of a paper; none, if nobody has listed them."""
    return tuple(Constant(**row) for row in given(paper).get("constant", ()))


def folder_of(paper: str) -> Path:
    """Where the records of a paper's page lie."""
    return ROOT / "docs" / "papers" / ("flow-scheduling" if paper == "flows" else paper)


def recorded(paper: str) -> dict[str, Mapping[str, Any]]:
    """What was recorded, by the words of the headline claim; nothing where that was never done, or is not installed."""
    path = folder_of(paper) / "stability.json"
    rows = json.loads(path.read_text("utf-8"))["claims"] if path.is_file() else []
    return {row["headline"]: row for row in rows}


def cell(claim: Claim, rows: Mapping[str, Mapping[str, Any]], paper: str) -> str:
    """A claim's cell in a table: with its verdict in the quick run, where that is another one; or why it was not run,
    as `without` in constants.toml says, or since quick runs leave it out."""
    if (row := rows.get(claim.headline)) is None:
        quick = claims_of(paper, quick=True).get(claim.id)
        late = "only whole runs" if quick is None or quick.slow else "waits for its run"
        return f"not run: {given(paper).get('without', {}).get(claim.id, late)}"
    ends = tuple(End(**end) for end in row["ends"])
    words = Stability(claim.id, claim.headline, row["verdict"], row["measured"], ends).short
    return words if row["verdict"] == claim.verdict else f"{words} (quick: {row['verdict']})"


def sentence(paper: str) -> str:
    """What was recorded, in words."""
    rows = recorded(paper)
    moved = {end["constant"] for row in rows.values() for end in row["ends"]}
    return (
        f"Stability: at `--quick` size, {sum(row['stable'] for row in rows.values())} of the "
        f"{len(rows)} headline claims that were run keep their verdict with one constant at a time at either end: "
        f"{', '.join(each.words for each in constants(paper) if each.name in moved)}. "
        "Where the verdict at that size is not the one in the table, the column says both."
    )
