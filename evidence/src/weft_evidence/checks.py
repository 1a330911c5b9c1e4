"""Check: a claim before it is tested. The few kinds there are, and running what a list of them needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

from weft.errors import InputError
from weft.errors import near as like
from weft.scenario.shipped import scenario_path
from weft_evidence.claims import NO_CLAIM, Claim, Kind, Measured, Metric, Request, Runs, Verdict
from weft_evidence.headlines import headlines

Values = Sequence[float | None]  # the values of one metric, seed by seed
FEWEST_SEEDS = 3  # one seed proves nothing, and the interval of two is too wide to judge by
Lab = TypeVar("Lab")
Runner = Callable[[Mapping[str, Mapping[str, None]], Sequence[int], Request], dict[str, Runs]]


@dataclass(frozen=True)
class Rule:
    """How a measurement is judged beside the published number, and what kind of claim that makes. `of` is the value of
    no effect, if there is one."""

    judge: Callable[[float, Measured], Verdict]
    kind: Kind
    of: float | None = None

    def __call__(self, published: float | None, measured: Measured) -> Verdict:
        """Without a published number the rule is given none, and nothing can be reproduced. Nor can a direction."""
        found = self.judge(math.nan if published is None else published, measured)
        known = published is not None and self.kind is not Kind.DIRECTION
        return "direction" if found == "reproduced" and not known else found


@dataclass(frozen=True)
class Check:
    """What the paper says, the stacks that are needed to check it, and how.

    `slow` ones are left out when quick. `scenario` names the scenario, shipped or a file (*.toml), if it is not the
    paper's own.
    """

    what: str
    published: float | None  # None: the paper gives no number, and the rule asks for none
    unit: str
    stacks: tuple[str, ...]
    measure: Callable[[Runs], Measured]
    rule: Rule
    slow: bool = False
    scenario: str = ""
    released: tuple[float, float] | None = None  # what the authors' own simulator gives: as released, and repaired
    seeded: bool = True  # whether chance has a part in it, so that several seeds are needed
    kind: Kind | None = None  # if the rule does not say it all
    headline: str = ""


@dataclass(frozen=True)
class LabCheck(Generic[Lab]):
    """The same for a paper with a laboratory of its own, which runs what a measurement needs when it is first asked
    for."""

    what: str
    published: float | None  # None: the paper gives no number, and the rule asks for none
    unit: str
    measure: Callable[[Lab], Measured]
    rule: Rule
    slow: bool = False
    released: tuple[float, float] | None = None  # what the authors' own simulator gives: as released, and repaired
    seeded: bool = True  # whether chance has a part in it, so that several seeds are needed
    kind: Kind | None = None  # if the rule does not say it all
    headline: str = ""


AnyCheck = TypeVar("AnyCheck", bound=Check | LabCheck[Any])


def value(what: str, published: float, unit: str, stack: str, metric: Metric, factor: float = 1.0) -> Check:
    """A number of a table."""
    return Check(what, published, unit, (stack,), lambda runs: runs.metric(stack, metric, factor), nearly)


def saving(what: str, published: float | None, stack: str, other: str, metric: Metric = "jct_mean_s") -> Check:
    """How much smaller a metric is than with another stack at the same seed, in percent."""

    def measure(runs: Runs) -> Measured:
        return runs.ratio(stack, other, metric, lambda r: 100.0 * (1.0 - r))

    return Check(what, published, "%", (stack, other), measure, on_that_side(0.0))


def times(what: str, published: float, stack: str, other: str, metric: Metric) -> Check:
    """A metric over that of another stack at the same seed."""

    def ratio(runs: Runs) -> Measured:
        return runs.ratio(stack, other, metric)

    return Check(what, published, "x", (stack, other), ratio, on_that_side(1.0))


def order(what: str, stacks: Sequence[str], metric: Metric = "jct_mean_s") -> Check:
    """How many pairs of methods are in the published order, smallest first."""
    return in_order(what, [(a, b) for i, a in enumerate(stacks) for b in stacks[i + 1 :]], metric)


def in_order(what: str, pairs: Sequence[tuple[str, str]], metric: Metric, slow: bool = False) -> Check:
    """How many of these pairs have the smaller mean first, between those for which the paired interval says so and
    those for which it does not say the opposite. All must be in order."""

    def measure(runs: Runs) -> Measured:
        found = [compared(runs.values(a, metric), runs.values(b, metric)) for a, b in pairs]
        return Measured(
            float(sum(mean < 0.0 for mean, _ in found)),
            (float(sum(side < 0 for _, side in found)), float(sum(side <= 0 for _, side in found))),
        )

    stacks = tuple(dict.fromkeys(stack for pair in pairs for stack in pair))
    return Check(f"{what} (all {len(pairs)} must be)", float(len(pairs)), "pairs", stacks, measure, in_place, slow=slow)


def place_of(mine: Values, others: Sequence[Values], most_first: bool = False) -> Measured:
    """The place of a method among others by a metric, the least first (or the most), seed by seed.

    The interval goes from the place with only those before it that are ahead beyond chance, to the place with all
    before it that are not behind beyond chance.
    """
    found = [compared(mine, other) for other in others]
    if most_first:
        found = [(-mean, -side) for mean, side in found]
    behind, surely = sum(mean > 0.0 for mean, _ in found), sum(side > 0 for _, side in found)
    perhaps = sum(side >= 0 for _, side in found)
    return Measured(1.0 + behind, (1.0 + surely, 1.0 + perhaps))


def compared(values: Values, others: Values) -> tuple[float, int]:
    """The mean difference between two methods over the mean of the two, paired by seed, and its side: -1 or 1 if the
    95 % interval excludes 0, else 0."""
    pairs = zip(values, others, strict=True)
    found = Measured.over_seeds([None if a is None or b is None else _apart(a, b) for a, b in pairs])
    low, high = found.ci95
    side = 0 if low is None or high is None else (low > 0.0) - (high < 0.0)
    return found.value or 0.0, side


def _apart(a: float, b: float) -> float:
    return 2.0 * (a - b) / (a + b) if a + b else 0.0


def _nearly(published: float, measured: Measured) -> Verdict:
    if agrees(published, measured, None):
        return "reproduced"
    return "not judged" if _holds(published, measured) else "no"


def _equal(published: float, measured: Measured) -> Verdict:
    low, high = _ends(measured)
    if low is None or high is None or not low - 1e-9 <= published <= high + 1e-9:
        return "no"
    return "reproduced" if high - low <= 1e-9 else "not judged"


# A number without a value of no effect, so that there is no direction to see.
nearly = Rule(_nearly, Kind.NUMBER)
# The number is the published one and no other; where the interval holds others as well, chance may decide.
equal = Rule(_equal, Kind.NUMBER)
in_place = Rule(_equal, Kind.ORDER)


def on_that_side(of: float) -> Rule:
    """An effect: the interval excludes `of`, the value of no effect, on the published side."""

    def rule(published: float, measured: Measured) -> Verdict:
        if _side(of, published > of, measured) == "no":
            return "not judged" if _holds(published, measured) else "no"
        return "reproduced" if agrees(published, measured, of) else "direction"

    return Rule(rule, Kind.EFFECT, of)


def near(of: float) -> Rule:
    """A published number close to `of`, the value of no effect: what is far from it does not hold, on whatever side."""

    def rule(published: float, measured: Measured) -> Verdict:
        found = _nearly(published, measured)
        return on_that_side(of)(published, measured) if found == "reproduced" else found

    return Rule(rule, Kind.EFFECT, of)


def similar(of: float) -> Rule:
    """ "Similar", without a number: the whole interval lies within a tenth of no difference."""

    def rule(published: float, measured: Measured) -> Verdict:
        low, high = _ends(measured)
        if low is None or high is None or low > 1.1 * of or high < 0.9 * of:
            return "no"
        return "direction" if 0.9 * of <= low and high <= 1.1 * of else "not judged"

    return Rule(rule, Kind.DIRECTION, of)


def some_effect(of: float, more: bool = True) -> Rule:
    """An effect for which the paper gives no number, or none that we can read: direction is all there is to see."""
    return Rule(lambda published, measured: _side(of, more, measured), Kind.DIRECTION, of)


def bounded(of: float) -> Rule:
    """An effect of which only a bound or a range is published ("up to", "at least", "from ... to"): it has no size that
    could be reproduced, so it is a direction at best."""
    return Rule(on_that_side(of).judge, Kind.DIRECTION, of)


def no_more(times: float = 1.0) -> Rule:
    """A bound from above, perhaps with some tolerance: it has no size either."""
    return Rule(
        lambda published, measured: (
            "direction" if measured.value is not None and measured.value <= times * published else "no"
        ),
        Kind.DIRECTION,
    )


def graded(direction: Callable[[float, Measured], bool], of: float | None = None) -> Rule:
    """The published number, or what the claim itself says is enough for its direction."""

    def rule(published: float, measured: Measured) -> Verdict:
        found = _nearly(published, measured) if of is None else on_that_side(of)(published, measured)
        if found == "reproduced":
            return found
        return "direction" if direction(published, measured) else "not judged" if found == "not judged" else "no"

    return Rule(rule, Kind.NUMBER if of is None else Kind.EFFECT, of)


def _side(of: float, more: bool, measured: Measured) -> Verdict:
    low, high = _ends(measured)
    if low is None or high is None:
        return "no"
    return "direction" if (low > of if more else high < of) else "no"


def _ends(measured: Measured) -> tuple[float | None, float | None]:
    low, high = measured.ci95
    return (measured.value if low is None else low), (measured.value if high is None else high)


def _holds(published: float, measured: Measured) -> bool:
    """Whether there is an interval, and the published number lies in it."""
    low, high = measured.ci95
    return low is not None and high is not None and low <= published <= high


def agrees(published: float, measured: Measured, of: float | None) -> bool:
    """Whether the published number lies in the interval, or within a tenth of the mean where the interval is narrower
    than that.

    An interval that is wider than the published effect (the distance from `of` to the published number), or of a number
    without a value of no effect than half of it, would hold nearly anything, so what lies in it proves nothing. Nor
    does a tenth that reaches no effect.
    """
    low, high = _ends(measured)
    if measured.value is None or low is None or high is None:
        return False
    tenth = 0.1 * abs(measured.value) + 1e-12
    telling = of is None or abs(measured.value - of) > tenth
    if telling and abs(measured.value - published) <= tenth and high - low <= 2.0 * tenth:
        return True
    return low <= published <= high and high - low <= (abs(published) / 2.0 if of is None else abs(published - of))


def test(
    paper: str,
    checks: Mapping[str, Check],
    request: Request,
    full: int,
    quick: int,
    run: Runner | None = None,  # noqa: PT028
    scenario: Path | None = None,  # noqa: PT028
) -> tuple[tuple[Claim, ...], dict[str, Runs], list[str]]:
    """Run what the wanted claims need over `full` (or `quick`) seeds and judge them.

    Also returned: the runs of each scenario, and notes about what was left out. `run` runs them in another way;
    `scenario` is the paper's own, if it is not shipped with weft.
    """
    names, notes = chosen(request, checks)
    seeds = request.numbers(full, quick)
    where = {name: checks[name].scenario or str(scenario or paper) for name in names}
    needed: dict[str, dict[str, None]] = {}  # scenario: stacks, each once and in order
    for name in names:
        needed.setdefault(where[name], {}).update(dict.fromkeys(checks[name].stacks))
    runs = (run or _run)(needed, seeds, request)
    if request.quick and request.seeds is None and quick != full:
        notes.append(f"quick: {quick} seeds instead of {full}.")
    claims = []
    for name in names:
        check = checks[name]
        quickly = " --quick" * request.quick
        command = f"weft reproduce {paper} --claim {name} --seeds {len(seeds)} --seed {seeds[0]}{quickly} --json"
        measured = check.measure(runs[where[name]])
        claims.append(judge(name, check, measured, str(_file(where[name])), command, seeds))
    return tuple(claims), runs, notes


def _run(needed: Mapping[str, Mapping[str, None]], seeds: Sequence[int], request: Request) -> dict[str, Runs]:
    """The runs of each scenario, with one progress over all of them."""
    from weft_evidence.settings import run_stacks

    total = len(seeds) * sum(map(len, needed.values()))
    done: dict[str, Runs] = {}
    before = 0
    for scenario, stacks in needed.items():

        def tell(count: int, of: int, before: int = before) -> None:
            if request.on_progress is not None:
                request.on_progress(before + count, total)

        done[scenario] = Runs(run_stacks(request, _file(scenario), list(stacks), seeds, tell) if stacks else ())
        before += len(seeds) * len(stacks)
    return done


def _file(scenario: str) -> Path:
    return Path(scenario) if scenario.endswith(".toml") else scenario_path(scenario)


def chosen(request: Request, checks: Mapping[str, Check] | Mapping[str, LabCheck[Lab]]) -> tuple[list[str], list[str]]:
    """Claims asked for; all, if none are named, but for slow ones when quick."""
    for name in request.claims:
        if name not in checks:
            hint = like(name, get_close_matches(name, checks), "--list shows all")
            raise InputError(f"reproduce: there is no claim {name or repr(name)}{hint}")
    if request.claims:
        return [name for name in checks if name in request.claims], []
    late = [name for name, check in checks.items() if check.slow and request.quick]
    notes = [f"quick: without {_named(late, checks)}."] if late else []
    return [name for name in checks if name not in late], notes


def _named(late: Sequence[str], checks: Iterable[str]) -> str:
    """A few names as they are; of many, what they begin with, if all that begin so are among them. Of a group that is
    partly among them the names, or how many they are."""
    if len(late) < 4:
        return ", ".join(late)
    everyone, mine = _groups(checks), _groups(late)
    return ", ".join(
        f"{group}.*" if len(names) == len(everyone[group])
        else ", ".join(names) if len(names) <= 4
        else f"{len(names)} of {len(everyone[group])} of {group}.*"
        for group, names in mine.items()
    )  # fmt: skip


def _groups(names: Iterable[str]) -> dict[str, list[str]]:
    """Names by what they begin with."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.split(".")[0], []).append(name)
    return found


def judge(
    name: str, check: Check | LabCheck[Lab], measured: Measured, scenario: str, command: str, seeds: Sequence[int],
    cross_traffic: tuple[Measured, Measured] | None = None,
) -> Claim:  # fmt: skip
    """The claim, with the command that checks it alone."""
    seeds = seeds if check.seeded else ()
    kind = check.kind or check.rule.kind
    return Claim(
        name, check.what, check.published, measured.value, measured.ci95, check.unit,
        verdict_of(check, measured, len(seeds)), scenario, command, tuple(seeds), check.released, cross_traffic, kind,
        check.headline,
    )  # fmt: skip


def verdict_of(check: Check | LabCheck[Lab], measured: Measured, seeds: int) -> Verdict:
    """What the rule says, as far as the kind of claim and the number of seeds let it (0: no chance has a part)."""
    kind = check.kind or check.rule.kind
    if kind in NO_CLAIM:
        return NO_CLAIM[kind]
    if 0 < seeds < FEWEST_SEEDS:
        return "not judged"
    found = check.rule(check.published, measured)
    bounded = kind in (Kind.DIRECTION, Kind.OWN)
    return "direction" if found == "reproduced" and bounded else found


def headed(paper: str, checks: Mapping[str, AnyCheck]) -> dict[str, AnyCheck]:
    """Checks, with its words on each that the paper puts first."""
    known = headlines(paper)
    words = known.words if known else {}
    return {name: replace(check, headline=words.get(name, "")) for name, check in checks.items()}
