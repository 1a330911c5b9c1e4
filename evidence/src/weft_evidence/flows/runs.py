"""Runs of the flow scheduling paper's scenarios that several claims share, and two settings compared seed by seed.

Our own pace was chosen on seeds 1 to 5. Settings that are `held_out` run at seeds from 6 on, whatever was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.runs.prepare import compile_kernels
from weft.scenario.shipped import scenario_path
from weft_evidence.checks import LabCheck
from weft_evidence.claims import Measured, Request
from weft_evidence.settings import scenario_of, stack_of

if TYPE_CHECKING:
    from weft.results.run import RunResult
    from weft.scenario import Scenario

SEEDS, QUICK_SEEDS = 5, 2
FIRST_HELD_OUT, HELD_OUT = 6, 10  # the first seed that our own pace was not chosen on, and how many of them are run
# What a quick run takes of each scenario: fewer and shorter jobs, and a tenth of the tree.
_SLICES: dict[str, dict[str, dict[str, Any]]] = {
    "flows": {"workload": {"jobs": 8, "iterations": [15, 30]}},
    "flows-cloud": {"workload": {"jobs": 16, "iterations": [8, 15]}},
    "flows-tree": {
        "cluster": {"racks": 10, "racks_per_edge": 5},
        "workload": {"jobs": 110, "iterations": [4, 8]},
    },
}


@dataclass(frozen=True)
class Setting:
    """A stack on a shipped scenario, perhaps with other NICs, without traffic of others, or on a slice."""

    scenario: str
    stack: str
    nic_gbps: float | None = None
    alone: bool = False
    held_out: bool = False
    sliced: bool = False

    @property
    def pace(self) -> str:
        """The pace of the stack."""
        return self.stack.partition("pace=")[2].removesuffix("]")

    @property
    def place(self) -> tuple[str, float | None, bool, bool]:
        """What settings have in common whose cross traffic is the same at the same seed."""
        return self.scenario, self.nic_gbps, self.alone, self.sliced

    @property
    def words(self) -> str:
        """What it is, for a line of text."""
        nic = f", {self.nic_gbps:g} Gbit/s" if self.nic_gbps is not None else ""
        more = [", no cross traffic" * self.alone, ", a tenth" * self.sliced, ", held-out seeds" * self.held_out]
        return f"{self.scenario}{nic}{''.join(more)}, {self.stack}"

    def changes(self, quick: bool) -> dict[str, dict[str, Any]]:
        """What is other than in the shipped scenario, by table: a slice of it, or other NICs."""
        changes = dict(_SLICES[self.scenario]) if quick or self.sliced else {}
        if self.nic_gbps is not None:
            changes["cluster"] = {**changes.get("cluster", {}), "nic_gbps": self.nic_gbps}
        return changes


def bed(pace: str, nic_gbps: float | None = None, alone: bool = False, held_out: bool = False) -> Setting:
    """The testbed of six servers."""
    return Setting("flows", f"fifo[place=first-fit,pace={pace}]", nic_gbps, alone, held_out)


def cloud(pace: str, alone: bool = False, held_out: bool = False) -> Setting:
    """Twelve instances in a public cloud."""
    return Setting("flows-cloud", f"fifo[place=random,pace={pace}]", None, alone, held_out)


def tree(pace: str, sliced: bool = False) -> Setting:
    """The three-tier tree of a thousand servers, or a tenth of it with shorter jobs."""
    return Setting("flows-tree", f"fifo[place=random,pace={pace}]", sliced=sliced)


class FlowRuns:
    """Runs of settings at all seeds, done together before the first claim is measured."""

    def __init__(self, request: Request, settings: Sequence[Setting]) -> None:
        from weft.runs.run import Task, run_grid, run_task
        from weft.scenario import Scenario
        from weft.scenario.build import Layers

        self.request, self.quick = request, request.quick
        self.seeds = request.numbers(SEEDS, QUICK_SEEDS)
        first, few = max(request.seed, FIRST_HELD_OUT), request.seeds or QUICK_SEEDS
        self.held_out = [first + i for i in range(few if request.quick else max(request.seeds or 0, HELD_OUT))]
        self.runs: dict[Setting, list[RunResult]] = {setting: [] for setting in dict.fromkeys(settings)}
        self._given: dict[Setting, Scenario] = {}
        self._alone: dict[tuple[Any, int], dict[float, float]] = {}
        tasks, owners = [], []
        for setting in self.runs:
            given = Scenario.load(scenario_path(setting.scenario))
            changes = setting.changes(self.quick)
            if changes or setting.alone:
                data = given.model_dump(exclude_unset=True)
                if setting.alone:
                    data.pop("network", None)
                given = Scenario.load({**data, **{table: {**data[table], **new} for table, new in changes.items()}})
            self._given[setting] = given = scenario_of(request, given)
            for seed in self.seeds_of(setting):
                tasks.append(Task(given, Layers(stack_of(request, setting.stack)), seed, False))
                owners.append(setting)
        tell = request.on_progress or (lambda done, total: None)
        if tasks:
            compile_kernels(request.on_compile)
            for setting, run in zip(owners, run_grid(tasks, request.workers, run_task, tell), strict=True):
                self.runs[setting].append(run)

    def seeds_of(self, setting: Setting) -> list[int]:
        """The seeds at which a setting is run."""
        if setting.scenario == "flows-tree" and not (setting.sliced or self.quick):
            return self.seeds[:1]  # the whole tree takes minutes of CPU time
        return self.held_out if setting.held_out else self.seeds

    def over_seeds(self, a: Setting, b: Setting, of: Callable[[RunResult, RunResult], float | None]) -> Measured:
        """A function of two settings' runs at each seed; where it is None (no job of a model) is left out."""
        found = [of(x, y) for x, y in zip(self.runs[a], self.runs[b], strict=True)]
        return Measured.over_seeds([value for value in found if value is not None])

    def others_alone(self, setting: Setting, seed: int, by_s: float) -> float:
        """Bytes that the cross traffic of a setting delivers by the end of one of its runs, where no job sends."""
        from weft.scenario.build import build_cluster, physics
        from weft_evidence.flows.lab import delivered_alone

        key = setting.place, seed
        if key not in self._alone:
            like = [other for other in self.runs if other.place == setting.place and seed in self.seeds_of(other)]
            ends = sorted({_end_s(self.runs[other][self.seeds_of(other).index(seed)]) for other in like})
            given = self._given[setting]
            network, _ = physics(given, seed)
            found = delivered_alone(build_cluster(given, seed), network, seed, ends)
            self._alone[key] = dict(zip(ends, found, strict=True))
        return self._alone[key][by_s]

    def mean_s(self, setting: Setting) -> float:
        """Mean JCT over jobs and seeds."""
        return float(np.mean([MEAN(run) for run in self.runs[setting]]))


def _jct(statistic: Callable[[Any], Any]) -> Callable[[RunResult], float]:
    return lambda run: float(statistic(run.jobs["jct_s"]))


MEAN, P99, MOST, LEAST = (
    _jct(f) for f in (lambda s: s.mean(), lambda s: s.quantile(0.99, "linear"), lambda s: s.max(), lambda s: s.min())
)  # fmt: skip


def saved(lab: FlowRuns, a: Setting, b: Setting, metric: Callable[[RunResult], float] = MEAN) -> Measured:
    """How much smaller a metric is than in another setting at the same seed, in percent."""
    return lab.over_seeds(a, b, lambda x, y: 100.0 * (1.0 - metric(x) / metric(y)))


def others_more(lab: FlowRuns, a: Setting, b: Setting) -> Measured:
    """By how many percent the cross traffic's mean goodput, from the start of a run to the end of its last job, is
    above that of another setting at the same seed."""

    def of(x: RunResult, y: RunResult) -> float | None:
        mine, theirs = x.foreign_bytes_per_s, y.foreign_bytes_per_s
        return None if mine is None or not theirs else 100.0 * (mine / theirs - 1.0)

    return lab.over_seeds(a, b, of)


def others_more_together(lab: FlowRuns, a: Setting, b: Setting) -> Measured:
    """By how many percent the cross traffic has delivered more bytes than in another setting at the same seed, counted
    up to the moment at which the jobs of both have ended. The setting whose jobs end first leaves the network to the
    cross traffic, which goes on alone; it is the same in both."""
    found = []
    for seed, x, y in zip(lab.seeds_of(a), lab.runs[a], lab.runs[b], strict=True):
        if x.foreign_bytes_per_s is not None and y.foreign_bytes_per_s:
            ends = _end_s(x), _end_s(y)
            alone = [lab.others_alone(a, seed, end) for end in ends]
            mine, theirs = x.foreign_bytes_per_s * ends[0] - alone[0], y.foreign_bytes_per_s * ends[1] - alone[1]
            found.append(100.0 * ((mine + max(alone)) / (theirs + max(alone)) - 1.0))
    return Measured.over_seeds(found)


def _end_s(run: RunResult) -> float:
    """When the last job ended, and with it the run."""
    return float(run.jobs["finish_s"].max())  # type: ignore[arg-type]


def others(lab: FlowRuns, a: Setting, b: Setting) -> tuple[Measured, Measured]:
    """Both measures of what the cross traffic gets."""
    return others_more(lab, a, b), others_more_together(lab, a, b)


def who_pays(meanwhile: Measured, together: Measured) -> str:
    """What the cross traffic gets by both measures, in words."""
    return f"{interval(meanwhile, '+')} while jobs run, {interval(together, '+')} by the end of both"


def model_speed(run: RunResult, model: str) -> float | None:
    """Iterations per second of a model's jobs: each job's own mean, averaged over the jobs that finished."""
    import polars as pl

    mine = run.jobs.filter(pl.col("model").str.starts_with(model) & pl.col("finish_s").is_not_null())
    if mine.is_empty():
        return None
    return float((mine["iterations"] / mine["run_s"]).mean())  # type: ignore[arg-type]


def faster(lab: FlowRuns, a: Setting, b: Setting, model: str) -> Measured:
    """By how much a model trains faster than in another setting at the same seed, in percent."""

    def of(x: RunResult, y: RunResult) -> float | None:
        mine, other = model_speed(x, model), model_speed(y, model)
        return None if mine is None or other is None else 100.0 * (mine / other - 1.0)

    return lab.over_seeds(a, b, of)


@dataclass(frozen=True)
class ControlRun:
    """A claim's experiment with one thing changed: in words, the settings that it needs runs of, and what it shows."""

    words: str
    needs: tuple[Setting, ...]
    shows: Callable[[FlowRuns], str]


@dataclass(frozen=True)
class FlowCheck(LabCheck[FlowRuns]):
    """A claim, and the settings it needs runs of. `controls` show where a result comes from, and are run unless it has
    to be quick."""

    needs: tuple[Setting, ...] = ()
    controls: tuple[ControlRun, ...] = ()


def compared(
    words: str, a: Setting, b: Setting, of: Callable[[FlowRuns, Setting, Setting], Measured] = saved
) -> ControlRun:
    """The same comparison between two other settings: of jobs (by default their mean JCT), and of the cross traffic."""

    def shows(lab: FlowRuns) -> str:
        found = interval(of(lab, a, b))
        if a.alone or a.scenario == "flows-tree":
            return found
        return f"{found}; what cross traffic gets changes by {who_pays(*others(lab, a, b))}"

    return ControlRun(words, (a, b), shows)


def played(words: str, measure: Callable[[], float]) -> ControlRun:
    """The same measurement in the laboratory, which knows no seeds."""
    return ControlRun(words, (), lambda lab: f"{measure():.1f} %")


def interval(of: Measured, sign: str = "") -> str:
    """A percentage and its interval, in words."""
    low, high = of.ci95
    within = "" if low is None or high is None else f" [{low:{sign}.1f}, {high:{sign}.1f}]"
    return "undefined" if of.value is None else f"{of.value:{sign}.1f}{within} %"


def means(lab: FlowRuns) -> list[str]:
    """Means that lie behind the claims: of the jobs, and of who else sends."""
    lines = []
    for setting, runs in lab.runs.items():
        got = [run.foreign_bytes_per_s for run in runs if run.foreign_bytes_per_s is not None]
        others = f", cross traffic {8e-9 * float(np.mean(got)):.1f} Gbit/s" if got else ""
        lines.append(f"{setting.words}: mean JCT {lab.mean_s(setting):.1f} s{others}.")
    return lines
