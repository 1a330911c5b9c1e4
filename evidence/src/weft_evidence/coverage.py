"""What papers state, by somebody who had not seen which claims are checked, beside the claims that judge it."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

from weft_evidence import papers


class Needs(StrEnum):
    """Why something that a paper states cannot be run here."""

    HARDWARE = "hardware"
    PRIVATE = "private data"
    UNPRINTED = "not printed"


@dataclass(frozen=True)
class Stated:
    """A number or an order that a paper's text, tables or captions state."""

    id: str
    where: str
    what: str
    value: str  # as printed
    claims: tuple[str, ...] = ()  # names of the claims that judge it; * stands for anything
    tests: tuple[str, ...] = ()  # or what computes it in the project's tests, FILE::NAME
    real: tuple[str, ...] = ()  # or a row on real TCP, as it begins
    needs: Needs | None = None
    fitted: bool = False  # a constant was chosen on it, the run was told, or it is true by construction

    @property
    def status(self) -> str:
        """`judged`, `fitted`, `not run`, or `open`: it could be run, and nobody has."""
        if self.claims or self.tests or self.real:
            return "judged"
        return "fitted" if self.fitted else "not run" if self.needs else "open"

    def state(self, recorded: Sequence[str] | None) -> str:
        """The status where only recorded claims count (None: all do): `waits` if none that judges it is."""
        waits = recorded is not None and self.claims and not (self.tests or self.real or self.judged_by(recorded))
        return "waits" if waits else self.status

    def judged_by(self, known: Iterable[str]) -> list[str]:
        """The claims, of those known, that judge it."""
        return [name for name in known if any(fnmatchcase(name, pattern) for pattern in self.claims)]


@cache
def stated(paper: str) -> tuple[Stated, ...]:
    """What a paper states; nothing, if nobody has listed it."""
    folder = papers()[paper].module if paper in papers() else ""
    path = files(folder) / "stated.toml" if folder else None
    if path is None or not path.is_file():
        return ()
    found = tomllib.loads(path.read_text("utf-8"))["stated"]
    return tuple(
        Stated(
            row["id"], row["where"], row["what"], row["value"], tuple(row.get("claims", ())),
            tuple(row.get("tests", ())), tuple(row.get("real", ())),
            Needs(row["needs"]) if row.get("needs") else None, row.get("fitted", False),
        )
        for row in found
    )  # fmt: skip


def counted(paper: str, recorded: Sequence[str] | None = None) -> str:
    """How much of what a paper states is judged, in a sentence; of claims only those that are recorded, if that is
    known."""
    mine = stated(paper)
    number = Counter(one.state(recorded) for one in mine)
    waits = number["waits"]
    why = {needs: sum(one.status == "not run" and one.needs is needs for one in mine) for needs in Needs}
    reasons = ", ".join(
        f"{n} for {needs}" if needs is not Needs.UNPRINTED else f"{n} {needs}" for needs, n in why.items() if n
    )
    share = 100 * (number["not run"] + number["open"]) / len(mine)
    fitted = f"{number['fitted']} fitted, told to the run or by construction, " if number["fitted"] else ""
    tests = sum(one.state(recorded) == "judged" and not one.claims and not one.real for one in mine)
    by_tests = f" ({tests} of them by unit tests only)" if tests else ""
    return (
        f"The paper states {len(mine)} numbers and orders, listed before the claims were seen: "
        f"{number['judged']} are judged{by_tests}, {fitted}{number['not run']} not run"
        f"{f' ({reasons})' if reasons else ''}, {number['open']} open, {share:.0f} % together"
        f"{f', and of {waits} the claims are written and wait for their runs' if waits else ''}."
    )
