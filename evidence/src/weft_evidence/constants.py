"""Constants that we chose, and what was recorded of the verdicts that hang on them.

constants.toml of a paper's package names the constants; stability.py runs the claims."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
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
HOLDS = ("reproduced", "direction")


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
    def holds(self) -> bool:
        """With our values."""
        return self.verdict in HOLDS

    @property
    def stable(self) -> bool:
        """Whether it holds at every end, or at none, as with our values."""
        return all((end.verdict in HOLDS) is self.holds for end in self.ends)

    @property
    def unreached(self) -> list[str]:
        """Constants that do not change the number at all; of a count, which may stay as it is, nothing is said."""
        if self.measured is None or self.measured.is_integer():
            return []
        moved = {end.constant for end in self.ends if end.measured != self.measured}
        return [name for name in dict.fromkeys(end.constant for end in self.ends) if name not in moved]

    @property
    def words(self) -> str:
        """`stable`, or by what it is not, and where only the verdict on the size is another one: each other verdict
        with the constants that lead to it, and their values; and which do not reach it, where that is most."""
        flips, sizes = (
            self._at([e for e in self.ends if e.verdict != self.verdict and (e.verdict in HOLDS) is same])
            for same in (not self.holds, self.holds)
        )
        if flips:
            told = f"unstable: {flips}"
        else:
            few = 2 * len(self.unreached) > len({end.constant for end in self.ends})
            told = f"stable{few * '; not reached by '}{few * ', '.join(self.unreached)}"
        if self.holds and sizes:
            told += f"; size: {sizes}"
        return told

    @staticmethod
    def _at(ends: Sequence[End]) -> str:
        found: dict[str, dict[str, list[str]]] = {}
        for end in ends:
            found.setdefault(end.verdict, {}).setdefault(end.constant, []).append(str(end.value))
        at = {v: ", ".join(f"{name}={'/'.join(ends)}" for name, ends in by.items()) for v, by in found.items()}
        return "; ".join(f"{verdict} at {where}" for verdict, where in at.items())

    def to_dict(self) -> dict[str, Any]:
        """One entry of the JSON."""
        return {**asdict(self), "stable": self.stable, "ends": [asdict(end) for end in self.ends]}


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


def known(paper: str) -> list[Stability]:
    """The same as it was found."""
    return [
        Stability(row["id"], row["headline"], row["verdict"], row["measured"], tuple(End(**e) for e in row["ends"]))
        for row in recorded(paper).values()
    ]


def surely(paper: str) -> set[str] | None:
    """Headline claims that hold at every end; None where that was never run."""
    found = known(paper)
    return {one.id for one in found if one.holds and one.stable} if found else None


def cell(claim: Claim, rows: Mapping[str, Stability], paper: str) -> str:
    """A claim's cell in a table: with its verdict in the quick run, where that is another one; or why it was not run,
    as `without` in constants.toml says, or since quick runs leave it out."""
    if (one := rows.get(claim.headline)) is None:
        quick = claims_of(paper, quick=True).get(claim.id)
        late = "only whole runs" if quick is None or quick.slow else "waits"
        return f"not run: {given(paper).get('without', {}).get(claim.id, late)}"
    return one.words if one.verdict == claim.verdict else f"{one.words} (quick: {one.verdict})"


def sentence(paper: str) -> str:
    """What was recorded, in words."""
    rows, seeds = known(paper), json.loads((folder_of(paper) / "stability.json").read_text("utf-8"))["seeds"]
    moved = {end.constant for one in rows for end in one.ends}
    run, left = ([each for each in constants(paper) if (each.name in moved) is done] for done in (True, False))
    stable = [one for one in rows if one.stable]
    return (
        f"Stability (`--quick` over {seeds} seeds, one constant at a time at either end): {len(stable)} of the "
        f"{len(rows)} headline claims that were run are stable: {sum(one.holds for one in stable)} hold, "
        f"{sum(not one.holds for one in stable)} do not. Constants: {', '.join(each.words for each in run)}"
        f"{'; not run: ' * bool(left)}{', '.join(each.words for each in left)}."
    )


def ends_table(paper: str) -> str:
    """What every headline claim comes to at each end."""
    rows = known(paper)
    ends = list(dict.fromkeys(f"`{end.constant}` {end.value}" for one in rows for end in one.ends))
    lines = [f"| headline claim | ours | {' | '.join(ends)} |", "|---|---:|" + "---:|" * len(ends)]
    for one in rows:
        found = {f"`{end.constant}` {end.value}": end.measured for end in one.ends}
        values = [one.measured, *(found.get(end) for end in ends)]
        lines.append(f"| {one.headline} | {' | '.join('-' if v is None else f'{v:.3g}' for v in values)} |")
    return "\n".join(lines)
