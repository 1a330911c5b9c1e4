"""Check: a claim before it is tested. The few kinds there are, and running what a list of them needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Generic, TypeVar

from weft.errors import InputError
from weft.registry import near
from weft.research.claims import Claim, Measured, Request, Runs, Verdict
from weft.scenario.shipped import scenario_path

# How a measurement is judged. A rule that only knows yes and no says bool: yes is "reproduced".
Rule = Callable[[float, Measured], Verdict | bool]
FEWEST_SEEDS = 3  # one seed proves nothing, and the interval of two is too wide to judge by
Lab = TypeVar("Lab")
Runner = Callable[[Mapping[str, Mapping[str, None]], Sequence[int], Request], dict[str, Runs]]


@dataclass(frozen=True)
class Check:
    """What the paper says, the stacks that are needed to check it, and how.

    `slow` ones are left out when quick. `scenario` names the shipped scenario if it is not the paper's own.
    """

    what: str
    published: float
    unit: str
    stacks: tuple[str, ...]
    measure: Callable[[Runs], Measured]
    rule: Rule
    slow: bool = False
    scenario: str = ""
    released: tuple[float, float] | None = None  # what the authors' own simulator gives: as released, and repaired
    seeded: bool = True  # whether chance has a part in it, so that several seeds are needed


@dataclass(frozen=True)
class LabCheck(Generic[Lab]):
    """The same for a paper with a laboratory of its own, which runs what a measurement needs when it is first asked
    for."""

    what: str
    published: float
    unit: str
    measure: Callable[[Lab], Measured]
    rule: Rule
    slow: bool = False
    released: tuple[float, float] | None = None  # what the authors' own simulator gives: as released, and repaired
    seeded: bool = True  # whether chance has a part in it, so that several seeds are needed


def value(what: str, published: float, unit: str, stack: str, metric: str, factor: float = 1.0) -> Check:
    """A number of a table."""
    return Check(what, published, unit, (stack,), lambda runs: runs.metric(stack, metric, factor), nearly)


def saving(what: str, published: float, stack: str, other: str, metric: str = "jct_mean_s") -> Check:
    """How much smaller a metric is than with another stack at the same seed, in percent."""

    def measure(runs: Runs) -> Measured:
        return runs.ratio(stack, other, metric, lambda r: 100.0 * (1.0 - r))

    return Check(what, published, "%", (stack, other), measure, on_that_side(0.0))


def times(what: str, published: float, stack: str, other: str, metric: str) -> Check:
    """A metric over that of another stack at the same seed."""
    return Check(
        what,
        published,
        "x",
        (stack, other),
        lambda runs: runs.ratio(stack, other, metric),
        on_that_side(1.0),
    )


def order(what: str, stacks: Sequence[str], metric: str = "jct_mean_s") -> Check:
    """How many pairs of methods are in the published order, smallest mean over seeds first. All must be."""
    pairs = [(a, b) for i, a in enumerate(stacks) for b in stacks[i + 1 :]]

    def measure(runs: Runs) -> Measured:
        mean = {stack: runs.metric(stack, metric).value for stack in stacks}
        found = [(mean[a], mean[b]) for a, b in pairs]
        return Measured(float(sum(a is not None and b is not None and a < b for a, b in found)))

    return Check(
        f"{what} (all {len(pairs)} must be)", float(len(pairs)), "pairs", tuple(stacks), measure, equal
    )  # fmt: skip


def nearly(published: float, measured: Measured) -> Verdict:
    """The published number lies in the interval, or within a tenth of the mean."""
    return "reproduced" if _agrees(published, measured) else "no"


def equal(published: float, measured: Measured) -> Verdict:
    """The measured number is the published one."""
    return "reproduced" if measured.value is not None and abs(measured.value - published) <= 1e-9 else "no"


def on_that_side(of: float) -> Rule:
    """An effect: the interval excludes `of`, the value of no effect, on the published side."""

    def rule(published: float, measured: Measured) -> Verdict:
        if some_effect(of, more=published > of)(published, measured) == "no":
            return "not judged" if measured.ci95[0] is not None and _agrees(published, measured) else "no"
        return "reproduced" if _agrees(published, measured) else "direction"

    return rule


def some_effect(of: float, more: bool = True) -> Rule:
    """An effect for which the paper gives no number, or none that we can read: direction is all there is to see."""

    def rule(published: float, measured: Measured) -> Verdict:
        low, high = _ends(measured)
        if low is None or high is None:
            return "no"
        return "direction" if (low > of if more else high < of) else "no"

    return rule


def graded(direction: Callable[[float, Measured], bool]) -> Rule:
    """The published number, or what the claim itself says is enough for its direction."""

    def rule(published: float, measured: Measured) -> Verdict:
        if _agrees(published, measured):
            return "reproduced"
        return "direction" if direction(published, measured) else "no"

    return rule


def _ends(measured: Measured) -> tuple[float | None, float | None]:
    low, high = measured.ci95
    return (measured.value if low is None else low), (measured.value if high is None else high)


def _agrees(published: float, measured: Measured) -> bool:
    low, high = _ends(measured)
    if measured.value is None or low is None or high is None:
        return False
    return low <= published <= high or abs(measured.value - published) <= 0.1 * abs(measured.value) + 1e-12


def test(
    paper: str,
    checks: Mapping[str, Check],
    request: Request,
    full: int,
    quick: int,
    run: Runner | None = None,  # noqa: PT028
) -> tuple[tuple[Claim, ...], dict[str, Runs], list[str]]:
    """Run what the wanted claims need over `full` (or `quick`) seeds and judge them.

    Also returned: the runs of each scenario, and notes about what was left out. `run` runs them in another way.
    """
    names, notes = chosen(request, checks)
    seeds = request.numbers(full, quick)
    needed: dict[str, dict[str, None]] = {}  # scenario: stacks, each once and in order
    for name in names:
        needed.setdefault(checks[name].scenario or paper, {}).update(dict.fromkeys(checks[name].stacks))
    runs = (run or _run)(needed, seeds, request)
    if request.quick and request.seeds is None:
        notes.append(f"quick: {quick} seeds instead of {full}.")
    claims = []
    for name in names:
        check = checks[name]
        scenario = check.scenario or paper
        quickly = " --quick" * request.quick
        command = f"weft reproduce {paper} --claim {name} --seeds {len(seeds)} --seed {seeds[0]}{quickly} --json"
        claims.append(judge(name, check, check.measure(runs[scenario]), str(scenario_path(scenario)), command, seeds))
    return tuple(claims), runs, notes


def _run(needed: Mapping[str, Mapping[str, None]], seeds: Sequence[int], request: Request) -> dict[str, Runs]:
    """The runs of each scenario, with one progress over all of them."""
    from weft import api

    total = len(seeds) * sum(map(len, needed.values()))
    done: dict[str, Runs] = {}
    before = 0
    for scenario, stacks in needed.items():

        def tell(count: int, of: int, before: int = before) -> None:
            if request.on_progress is not None:
                request.on_progress(before + count, total)

        compared = api.compare(
            scenario_path(scenario), list(stacks), seeds, workers=request.workers, on_progress=tell,
            on_compile=request.on_compile,
        ) if stacks else None  # fmt: skip
        done[scenario] = Runs(compared.runs if compared else ())
        before += len(seeds) * len(stacks)
    return done


def chosen(request: Request, checks: Mapping[str, Check] | Mapping[str, LabCheck[Lab]]) -> tuple[list[str], list[str]]:
    """Claims asked for; all, if none are named, but for slow ones when quick."""
    for name in request.claims:
        if name not in checks:
            like = near(name, list(checks)) if len(get_close_matches(name, checks)) else ""
            raise InputError(f"reproduce: there is no claim {name or repr(name)}{like}; --list shows all")
    if request.claims:
        return [name for name in checks if name in request.claims], []
    late = [name for name, check in checks.items() if check.slow and request.quick]
    notes = [f"quick: without {_named(late)}."] if late else []
    return [name for name in checks if name not in late], notes


def _named(names: Sequence[str]) -> str:
    """A few names as they are; of many, what they begin with."""
    return ", ".join(names if len(names) < 4 else dict.fromkeys(f"{name.split('.')[0]}.*" for name in names))


def judge(
    name: str, check: Check | LabCheck[Lab], measured: Measured, scenario: str, command: str, seeds: Sequence[int]
) -> Claim:
    """The claim, with the command that checks it alone."""
    seeds = seeds if check.seeded else ()
    found = check.rule(check.published, measured)
    verdict: Verdict = found if isinstance(found, str) else "reproduced" if found else "no"
    if 0 < len(seeds) < FEWEST_SEEDS:
        verdict = "not judged"
    return Claim(
        name, check.what, check.published, measured.value, measured.ci95, check.unit, verdict, scenario, command,
        tuple(seeds), check.released,
    )  # fmt: skip
