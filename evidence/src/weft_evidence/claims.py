"""Claim and Reproduction: what a paper says, what was measured here, and whether the measurement confirms it."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

from weft.results.compare import flat_metrics, mean_and_interval
from weft_evidence.causes import Cause, cause_of
from weft_evidence.constants import surely
from weft_evidence.headlines import headlines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from weft.results.run import RunResult

Progress = Callable[[int, int], None]
Interval = tuple[float | None, float | None]
Metric = str | Callable[["RunResult"], float | None]  # one that every run has, or what is computed from a run
# reproduced: the published number lies in the interval over seeds, which is no wider than the published effect (or than
# half of a plain number), or within a tenth of the mean where the interval is narrower. direction: there is an effect
# on the published side, of another size or of one that is not published. not judged: fewer than three seeds, an
# interval that holds what was published and is too wide to tell, or a bound that a few random states keep.
Verdict = Literal["reproduced", "direction", "no", "not judged", "input", "fitted", "by construction", "control"]
VERDICTS: tuple[Verdict, ...] = ("reproduced", "direction", "no", "not judged")


class Kind(StrEnum):
    """What a claim is, which says how far it can hold and where it counts."""

    NUMBER = "number"  # published, without a value of no effect
    EFFECT = "effect"  # published, with a value of no effect
    ORDER = "order"  # of methods, or the place of one of them
    DIRECTION = "direction"  # a bound, a range, or words: no size that could be reproduced
    OWN = "own research"  # nobody published it; counted apart
    # The rest is no claim. Its verdict is the word itself, and it is counted nowhere.
    INPUT = "input"  # the run was told
    FITTED = "fitted"  # a constant was chosen on this row
    CONSTRUCTION = "by construction"
    CONTROL = "control"


NO_CLAIM: Mapping[Kind, Verdict] = {
    Kind.INPUT: "input", Kind.FITTED: "fitted", Kind.CONSTRUCTION: "by construction", Kind.CONTROL: "control",
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What to check: seeds from `seed` on (None: as many as the paper's page says), some claims only, or all.

    `settings` are other values of constants than ours (settings.py); `carried` has those that something was run with.
    """

    quick: bool = False
    seed: int = 0
    seeds: int | None = None
    claims: tuple[str, ...] = ()
    workers: int | None = None
    on_progress: Progress | None = None
    on_compile: Callable[[str], None] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    carried: set[str] = field(default_factory=set, compare=False)

    def numbers(self, full: int, quick: int) -> list[int]:
        """The seeds: as many as asked for, else `quick` or `full` of them."""
        return [self.seed + i for i in range(self.seeds or (quick if self.quick else full))]


@dataclass(frozen=True)
class Measured:
    """A number and its 95 % interval over seeds (None, None where there is none)."""

    value: float | None
    ci95: Interval = (None, None)

    @staticmethod
    def over_seeds(values: Sequence[float | None], least: float = -math.inf) -> Measured:
        """Mean and Student t interval, cut off at the least value there can be."""
        found = mean_and_interval(values, least)
        return Measured(found["mean"], (found["ci95"][0], found["ci95"][1]))


@dataclass(frozen=True)
class Claim:
    """One thing a paper says."""

    id: str
    what: str  # and how it is judged, where that is not obvious
    published: float | None  # None: the paper gives no number
    measured: float | None
    ci95: Interval
    unit: str
    verdict: Verdict
    scenario: str
    command: str
    seeds: tuple[int, ...]
    released: tuple[float, float] | None = None  # by the authors' own simulator: as released, and repaired
    # By how many percent the goodput of cross traffic changes: while jobs run, and by the end of both runs.
    cross_traffic: tuple[Measured, Measured] | None = None
    kind: Kind = Kind.NUMBER
    headline: str = ""  # what the paper itself puts first, in a few words

    @property
    def holds(self) -> bool:
        """Whether the effect is there, be it of the published size or not."""
        return self.verdict in ("reproduced", "direction")

    def to_dict(self) -> dict[str, Any]:
        """One entry of the JSON."""
        return {
            "id": self.id, "kind": str(self.kind), "headline": self.headline or None, "what": self.what,
            "published": self.published, "measured": self.measured, "ci95": list(self.ci95), "unit": self.unit,
            "verdict": self.verdict, "holds": self.holds, "scenario": self.scenario, "command": self.command,
            "seeds": list(self.seeds),
            "released": self.released and dict(zip(("as_released", "repaired"), self.released, strict=True)),
            "cross_traffic_percent": self.cross_traffic and {
                when: {"mean": found.value, "ci95": list(found.ci95)}
                for when, found in zip(("meanwhile", "by_the_end_of_both"), self.cross_traffic, strict=True)
            },
        }  # fmt: skip


@dataclass(frozen=True)
class Picture:
    """A figure with its caption, drawn when the report is written."""

    caption: str
    draw: Callable[[], Figure]


@dataclass(frozen=True)
class Reproduction:
    """All claims of a paper, and what a reader must know."""

    paper: str
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = field(default=(), repr=False)

    @property
    def counts(self) -> str:
        """How many of the paper's claims have which verdict, in words; what is no claim of the paper's is apart."""
        mine = self.published
        each = ", ".join(f"{sum(c.verdict == word for c in mine)} {word}" for word in VERDICTS)
        own = [c for c in self.claims if c.kind is Kind.OWN]
        words = [f"{sum(c.holds for c in mine)} of {len(mine)} claims hold: {each}"] if mine or not own else []
        for where, again in self._beside.items():
            words += [f"{where} {sum(c.holds for c in again)} of {len(again)}"] if again else []
        words += [f"{sum(c.holds for c in own)} of {len(own)} claims of our own hold"] if own else []
        counts = {word: sum(c.kind is kind for c in self.claims) for kind, word in NO_CLAIM.items()}
        apart = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        words += [f"counted nowhere: {apart}"] if apart else []
        return "; ".join(words)

    @property
    def published(self) -> list[Claim]:
        """The paper's own claims, which are counted, each once."""
        again = {c.id for claims in self._beside.values() for c in claims}
        return [c for c in self.claims if c.kind is not Kind.OWN and c.kind not in NO_CLAIM and c.id not in again]

    @property
    def _beside(self) -> dict[str, list[Claim]]:
        """Claims that repeat others elsewhere, by where."""
        known = headlines(self.paper)
        found: dict[str, list[Claim]] = {}
        for pattern, where in (known.beside if known else {}).items():
            before = {c.id for claims in found.values() for c in claims}
            found[where] = [
                c
                for c in self.claims
                if fnmatchcase(c.id, pattern)
                and c.id not in before
                and c.kind is not Kind.OWN
                and c.kind not in NO_CLAIM
            ]
        return found

    @property
    def sentence(self) -> str:
        """What came out, in one sentence; how many claims hold, of what has no headlines or none of them was run."""
        known = headlines(self.paper)
        return known.sentence(list(self.claims), surely(self.paper)) if known and self.headlines else f"{self.counts}."

    @property
    def headlines(self) -> list[Claim]:
        """What the paper puts first, in the order of headlines.toml."""
        known = headlines(self.paper)
        order = {words: i for i, words in enumerate(known.words.values())} if known else {}
        return sorted((c for c in self.claims if c.headline), key=lambda c: order.get(c.headline, 0))

    def with_causes(self) -> list[tuple[Claim, Cause | None]]:
        """All claims, those that fail with their cause."""
        return [(claim, cause_of(self.paper, claim)) for claim in self.claims]

    def to_dict(self) -> dict[str, Any]:
        """What `weft reproduce --json` prints."""
        return {
            "paper": self.paper,
            "sentence": self.sentence,
            "verdicts": {word: sum(c.verdict == word for c in self.published) for word in VERDICTS},
            "own": {word: sum(c.verdict == word for c in self.claims if c.kind is Kind.OWN) for word in VERDICTS},
            "claims": [c.to_dict() | {"cause": why and why.to_dict()} for c, why in self.with_causes()],
            "notes": list(self.notes),
        }


def published(paper: str, file: str = "published.toml") -> dict[str, dict[str, Any]]:
    """What a paper prints (or its authors' program gives: released.toml), from a file of its package: each table names
    its source."""
    text = (files(f"weft_evidence.{paper}") / file).read_text("utf-8")
    return {name: {k: v for k, v in row.items() if k != "source"} for name, row in tomllib.loads(text).items()}


class Runs:
    """Runs of several stacks, seed by seed; metrics of each, and ratios formed at each seed."""

    def __init__(self, runs: Sequence[RunResult]) -> None:
        from weft.results.metrics import summary

        self.by_stack: dict[str, list[RunResult]] = {}
        for run in runs:
            self.by_stack.setdefault(run.stack, []).append(run)
        self._metrics: Mapping[str, list[dict[str, float | None]]] = {
            stack: [flat_metrics(summary(run)) for run in group] for stack, group in self.by_stack.items()
        }

    def values(self, stack: str, metric: Metric) -> list[float | None]:
        """A metric at each seed."""
        if not isinstance(metric, str):
            return [metric(run) for run in self.by_stack[stack]]
        return [metrics[metric] for metrics in self._metrics[stack]]

    def metric(self, stack: str, metric: Metric, factor: float = 1.0) -> Measured:
        """A metric over seeds."""
        return Measured.over_seeds([None if v is None else v * factor for v in self.values(stack, metric)], least=0.0)

    def ratio(self, stack: str, other: str, metric: Metric, of: Callable[[float], float] | None = None) -> Measured:
        """A metric of one stack over that of another at the same seed (or a function of that ratio)."""
        pairs = zip(self.values(stack, metric), self.values(other, metric), strict=True)
        ratios = [a / b if a is not None and b else None for a, b in pairs]
        if of is None:
            return Measured.over_seeds(ratios, least=0.0)
        return Measured.over_seeds([None if r is None else of(r) for r in ratios])

    def of(self, stacks: Sequence[str]) -> list[RunResult]:
        """The runs of these stacks, in this order."""
        return [run for stack in stacks for run in self.by_stack[stack]]
