"""What a paper puts first: its headline claims, a sentence about them, and their rows in a few columns."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft_evidence.claims import Claim

COLUMNS = ("headline claim", "published", "here", "95 % interval", "verdict")


@dataclass(frozen=True)
class Headlines:
    """Of one paper: claim by claim a few words and a cause."""

    name: str
    sized: Mapping[str, tuple[str, ...]]  # groups of claims whose sizes the sentence tells
    words: Mapping[str, str]
    causes: Mapping[str, str]
    bounds: Mapping[str, str]  # signs before published numbers that are bounds
    real: str  # what is said above results on real TCP
    beside: Mapping[str, str]  # patterns of claims that repeat others elsewhere, and where

    def sentence(self, claims: list[Claim], stable: Collection[str] | None = None) -> str:
        """How many hold, of these how many wherever our constants lie, and how large the effects are beside the
        published ones."""
        mine = [claim for claim in claims if claim.headline]
        held = [claim for claim in mine if claim.holds]
        same = sum(claim.verdict == "reproduced" for claim in held)
        told = f"{self.name}: {len(held)} of {len(mine)} headline claims hold, {same} in size and {len(held) - same} "
        told += "in direction only"
        left, unsure = len(self.words) - len(mine), sum(claim.verdict == "not judged" for claim in mine)
        told += f", {unsure} not judged" if unsure else ""
        told += f" ({left} of {len(self.words)} {'was' if left == 1 else 'were'} not run)" if left else ""
        if held and stable is not None:
            told += f"; {sum(claim.id in stable for claim in held)} of those that hold are stable"
        sizes = [size for words, ids in self.sized.items() if (size := _size(words, ids, mine))]
        return f"{told}{'; ' * bool(sizes)}{', '.join(sizes)}."


def _size(words: str, ids: Sequence[str], claims: Iterable[Claim]) -> str:
    """How large effects are, and how large the published ones."""
    sized = [c for c in claims if any(fnmatchcase(c.id, one) for one in ids)]
    pairs = [(c.published, c.measured) for c in sized if c.published is not None and c.measured is not None]
    if not pairs:
        return ""
    published, here = (_range(list(values)) for values in zip(*pairs, strict=True))
    return f"{words} {here} {'%' if sized[0].unit == '%' else 'times'} ({published} published)"


def _range(values: list[float]) -> str:
    low, high = (f"{value:.1f}" if abs(value) < 10 else f"{value:.0f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


@cache
def headlines(paper: str) -> Headlines | None:
    """None for what has no headlines, our own stack say."""
    found = tomllib.loads((files("weft_evidence") / "headlines.toml").read_text("utf-8")).get(paper)
    if found is None:
        return None
    words, causes, bounds = (
        {row["id"]: row[key] for row in found["claims"] if key in row} for key in ("what", "cause", "bound")
    )
    sized = {words: tuple(ids) for words, ids in found["sized"].items()}
    return Headlines(found["name"], sized, words, causes, bounds, found.get("real", ""), found.get("beside", {}))


def cells(paper: str, claim: Claim) -> tuple[str, ...]:
    """The cells of a headline claim."""
    known = headlines(paper)
    bound = f"{known.bounds[claim.id]} " if known and claim.id in known.bounds else ""
    low, high = claim.ci95
    interval = "" if low is None or high is None else f"[{_short(low)}, {_short(high)}]"
    unit = f" {claim.unit}" if claim.unit in ("%", "x", "ms") else ""
    return (
        claim.headline,
        "-" if claim.published is None else f"{bound}{_short(claim.published)}{unit}",
        "-" if claim.measured is None else f"{_short(claim.measured)}{unit}",
        interval,
        claim.verdict,
    )


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
