"""Check: a claim before it is tested. The few kinds there are, and running what a list of them needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.errors import InputError
from weft.papers.claims import Claim, Measured, Request, Runs
from weft.registry import near
from weft.scenario.shipped import scenario_path

__all__ = ["Check", "on_that_side", "saving", "test", "times", "value", "value_inside"]

Holds = Callable[[float, Measured], bool]


@dataclass(frozen=True)
class Check:
    """What the paper says, the stacks that are needed to check it, and how; `slow` ones are left out when quick."""

    what: str
    published: float
    unit: str
    stacks: tuple[str, ...]
    measure: Callable[[Runs], Measured]
    holds: Holds
    slow: bool = False


def value(what: str, published: float, unit: str, stack: str, metric: str, factor: float = 1.0) -> Check:
    """A number of a table: holds if it lies in the interval."""
    return Check(what, published, unit, (stack,), lambda runs: runs.metric(stack, metric, factor), value_inside)


def saving(what: str, published: float, stack: str, other: str, metric: str = "jct_mean_s") -> Check:
    """How much smaller a metric is than with another stack at the same seed, in percent."""

    def measure(runs: Runs) -> Measured:
        return runs.ratio(stack, other, metric, lambda r: 100.0 * (1.0 - r))

    return Check(f"{what} (holds if it is a saving)", published, "%", (stack, other), measure, on_that_side(0.0))


def times(what: str, published: float, stack: str, other: str, metric: str) -> Check:
    """A metric over that of another stack at the same seed."""
    return Check(
        f"{what} (holds if it is more than 1)",
        published,
        "x",
        (stack, other),
        lambda runs: runs.ratio(stack, other, metric),
        on_that_side(1.0),
    )


def value_inside(published: float, measured: Measured) -> bool:
    """The published number lies in the interval."""
    low, high = measured.ci95
    return low is not None and high is not None and low <= published <= high


def on_that_side(of: float) -> Holds:
    """The measured number differs from `of` in the published direction, and so does its interval."""

    def holds(published: float, measured: Measured) -> bool:
        low, high = measured.ci95
        if measured.value is None:
            return False
        low = measured.value if low is None else low
        high = measured.value if high is None else high
        return low > of if published > of else high < of

    return holds


def test(
    paper: str, checks: Mapping[str, Check], request: Request, full: int, quick: int
) -> tuple[tuple[Claim, ...], Runs, list[str]]:
    """Run what the wanted claims need over `full` (or `quick`) seeds and judge them; also notes about what was left."""
    from weft import api

    names, notes = _chosen(request, checks)
    stacks = list(dict.fromkeys(stack for name in names for stack in checks[name].stacks))
    seeds = request.numbers(full, quick)
    scenario = scenario_path(paper)
    runs = Runs(())
    if stacks:
        done = api.compare(
            scenario, stacks, seeds, workers=request.workers, on_progress=request.on_progress,
            on_compile=request.on_compile,
        )  # fmt: skip
        runs = Runs(done.runs)
    if request.quick and request.seeds is None:
        notes.append(f"quick: {quick} seeds instead of {full}.")
    claims = tuple(_judge(paper, name, checks[name], runs, seeds, str(scenario)) for name in names)
    return claims, runs, notes


def _chosen(request: Request, checks: Mapping[str, Check]) -> tuple[list[str], list[str]]:
    """Claims asked for; all, if none are named, but for slow ones when quick."""
    for name in request.claims:
        if name not in checks:
            raise InputError(f"reproduce: there is no claim {name}{near(name, list(checks))}")
    if request.claims:
        return [name for name in checks if name in request.claims], []
    late = [name for name, check in checks.items() if check.slow and request.quick]
    return [name for name in checks if name not in late], [f"quick: without {name}." for name in late]


def _judge(paper: str, name: str, check: Check, runs: Runs, seeds: Sequence[int], scenario: str) -> Claim:
    """The claim, with the command that checks it alone."""
    measured = check.measure(runs)
    command = f"weft reproduce {paper} --claim {name} --seeds {len(seeds)} --seed {seeds[0]} --json"
    return Claim(
        name, check.what, check.published, measured.value, measured.ci95, check.unit,
        check.holds(check.published, measured), scenario, command, tuple(seeds),
    )  # fmt: skip
