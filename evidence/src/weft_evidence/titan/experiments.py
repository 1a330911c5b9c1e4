"""Numbers of docs/papers/titan.md:
python -m weft_evidence.titan.experiments [claims|inside|accuracy|unstated|arriving|readings|profit|worth [JOBS]]

`claims` runs the whole reproduction over three seeds and writes docs/papers/titan/claims.json. `inside` prints what
Exp#7 is with limits on what devices of one server exchange, `accuracy` what Figure 12 is with them and with slower
communication. `unstated` changes what the paper does not state about its traces, one thing at a time (seed 0; about
a quarter of an hour of CPU; JOBS takes the first jobs only). `arriving` has the bytes that each arriving job sends by
itself, where communication takes no time; `profit` what Titan and ElasticFlow earn until moments that both share.
`readings` judges the claims about the traces by their own rules where communication takes no time and consolidation
takes idle machines (three seeds; about ten minutes of CPU). `worth` says what the paper's tree and the trace's own
models would change (the first 1,500 jobs, three seeds).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft import api
from weft.core.layered.even import Dealt
from weft.model.plan import State
from weft.model.view import ClusterView, JobView, Offer
from weft.policies.place.base import Answer, Place
from weft.policies.place.best_fit import Share, idle_first
from weft.policies.place.skew import Skew, skew_of
from weft.results.series import Steps
from weft.runs.kept import kept
from weft.stacks.registry import register
from weft_evidence import reproduce
from weft_evidence.checks import judge
from weft_evidence.claims import Request
from weft_evidence.machines import machine_use, profit_rate, total
from weft_evidence.pages import ROOT, asked_for, write_claims
from weft_evidence.titan import CLAIMS
from weft_evidence.titan.runs import DEALT, HD, STACKS, TraceRun, bytes_between, measured, on_testbed, scenario
from weft_evidence.titan.statements import Part
from weft_evidence.titan.worth import worth

if TYPE_CHECKING:
    from weft.results.run import RunResult

FOLDER = ROOT / "docs" / "papers" / "titan"
INSIDE_GBPS = (None, 400.0, 200.0, 100.0, 80.0, 70.0, 60.0, 50.0, 25.0)
SLOWER = (1.0, 2.0, 5.0, 20.0)  # times as long as communication takes at 100 Gbit/s
NO_TIME_GBPS = 1e6  # links so fast that communication takes no time
SEEDS_ASKED = (0, 1, 2)
SYNTHETIC_LOADS, SYNTHETIC_JOBS = (0.3, 0.1, 0.05), 3000


class IdleMachines(Place):
    """The fewest machines, the roomiest first: a job has machines of its own while there are idle ones."""

    name = "idle-machines"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Idle machines, then those with the most free GPUs."""
        if offer.n_free < gpus:
            return Answer(None, f"wants {gpus} GPUs; fewer are free", state)
        free = offer.free_per_server
        shares: list[Share] = []
        left = gpus
        for machine in np.argsort(-free, kind="stable").tolist():
            shares.append((machine, min(left, int(free[machine]))))
            left -= shares[-1][1]
            if not left:
                break
        return Answer(idle_first(view, offer, shares), f"the roomiest: {len(shares)} machines", state)


class SkewOrIdle(Skew):
    """Tiresias whose consolidated jobs take idle machines while there are any; the others fill fragments."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "skew-or-idle"

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Idle machines for skewed models, fragments for the others."""
        if skew_of(job.job.model) > self.limit:
            return IdleMachines().place(view, job, gpus, offer, state)
        return super().place(view, job, gpus, offer, state)


class SkewOrDealt(SkewOrIdle):
    """The same, with ranks dealt out where a job is consolidated."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "skew-or-dealt"
        self._dealt = Dealt(IdleMachines(), HD)

    def place(self, view: ClusterView, job: JobView, gpus: int, offer: Offer, state: State) -> Answer:
        """Idle machines for skewed models, fragments for the others."""
        if skew_of(job.job.model) > self.limit:
            return self._dealt.place(view, job, gpus, offer, state)
        return super().place(view, job, gpus, offer, state)


IDLE = {
    "titan": STACKS["titan"], "hived": STACKS["hived"], "tiresias": "fifo[place=skew-or-idle]",
    "elasticflow": "fifo[place=idle-machines]",
}  # fmt: skip
PLAIN = {name: STACKS[name] for name in IDLE}
ARRIVING = IDLE | {
    "tiresias, consolidated jobs dealt": "fifo[place=skew-or-dealt]",
    "elasticflow, dealt": "fifo[place=dealt:idle-machines]",
}


def inside() -> str:
    """A Markdown table: communication times of VGG-16 on 8 workers, one row for each limit."""
    lines = [
        "| Gbit/s inside a server | Titan over ElasticFlow in rank order | over ElasticFlow dealt | HiveD over Titan |",
        "|---|---:|---:|---:|",
    ]
    for gbps in INSIDE_GBPS:
        titan, plain, dealt, hived = (
            on_testbed(placer, "vgg16", 8, gbps).comm_s for placer in ("titan", "elasticflow", DEALT, "hived")
        )
        lines.append(f"| {_limit(gbps)} | {titan / plain:.2f} | {titan / dealt:.2f} | {hived / titan:.2f} |")
    return "\n".join(lines)


def accuracy() -> str:
    """A Markdown table: times of ResNet-50 on 8 workers, for limits inside a server and slower communication."""
    lines = [
        "| Gbit/s inside a server | communication, times as long | of Titan's time, % | Titan over ElasticFlow "
        "in rank order | over ElasticFlow dealt | over Tiresias | HiveD over Titan |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for gbps in INSIDE_GBPS:
        beds = [on_testbed(p, "resnet50", 8, gbps) for p in ("titan", "elasticflow", DEALT, "tiresias", "hived")]
        compute_s = beds[0].iteration_s - beds[0].comm_s
        for slower in SLOWER:
            titan, plain, dealt, tiresias, hived = (compute_s + slower * bed.comm_s for bed in beds)
            lines.append(
                f"| {_limit(gbps)} | {slower:g} | {100.0 * (1.0 - compute_s / titan):.0f} | {titan / plain:.2f} | "
                f"{titan / dealt:.2f} | {titan / tiresias:.2f} | {hived / titan:.2f} |"
            )
    return "\n".join(lines)


def _limit(gbps: float | None) -> str:
    return "no limit" if gbps is None else f"{gbps:g}"


def _register() -> None:
    register("place", "idle-machines", IdleMachines)
    register("place", "skew-or-idle", SkewOrIdle)
    register("place", "skew-or-dealt", SkewOrDealt)


def unstated(jobs: int | None) -> Iterator[str]:
    """Lines of two Markdown tables, as they come: machines, fragmentation, bytes and profit on trace 1, fragmentation
    on trace 2 at several loads; averages per arrival, and in brackets over time."""
    _register()

    @cache
    def run(trace: str, stack: str, gbps: float, load: float | None = None) -> TraceRun:
        made = scenario(trace, quick=False)
        made["cluster"]["nic_gbps"] = gbps
        if load is not None:
            made["workload"] |= {"load": load, "jobs": SYNTHETIC_JOBS}
        if jobs is not None:
            made["workload"]["jobs"] = jobs
        return measured(api.compare(made, [stack], [0], workers=1).runs[0])

    def row(words: str, found: Sequence[TraceRun]) -> str:
        forms = (
            ("used", "{:.0f} ({:.0f})"),
            ("fragmentation", "{:.1f} ({:.1f}) %"),
            ("overhead_gb", "{:.1f} ({:.1f}) GB"),
        )
        cells = [
            "; ".join(form.format(each.number(f"{key}@arrivals"), each.number(key)) for key, form in forms)
            + f"; {each.number('total_profit'):.0f}"
            for each in found
        ]
        return f"| {words} | " + " | ".join(cells) + " |"

    yield "| used machines; fragmentation; bytes across; total profit | " + " | ".join(PLAIN) + " |"
    yield "|---" * (len(PLAIN) + 1) + "|"
    for words, gbps, stacks in (
        ("trace 1 as it is", 100.0, PLAIN),
        ("communication takes no time", NO_TIME_GBPS, PLAIN),
        ("consolidation takes idle machines", 100.0, IDLE),
        ("both", NO_TIME_GBPS, IDLE),
    ):
        yield row(words, [run("trace-1", stack, gbps) for stack in stacks.values()])
    for load in SYNTHETIC_LOADS:
        for words, stacks in (("no time", PLAIN), ("both", IDLE)):
            found = [run("trace-2", stack, NO_TIME_GBPS, load) for stack in stacks.values()]
            yield row(f"trace 2, load {load:g}, {words}", found)


def readings(jobs: int | None) -> Iterator[str]:
    """Lines of a Markdown table: the claims about the traces, judged as they are by `weft reproduce`, where
    communication takes no time and consolidation takes idle machines."""
    _register()
    stacks = IDLE | {DEALT: "fifo[place=dealt:idle-machines]"}

    @cache
    def of(trace: str) -> list[dict[str, Mapping[str, float]]]:
        made = scenario(trace, quick=False)
        made["cluster"]["nic_gbps"] = NO_TIME_GBPS
        if jobs is not None:
            made["workload"]["jobs"] = jobs
        return [
            {name: measured(_run(made, stack, seed)).numbers for name, stack in stacks.items()} for seed in SEEDS_ASKED
        ]

    lab: Any = SimpleNamespace(traces=SimpleNamespace(of=of))
    yield "| claim | published | both readings | verdict |"
    yield "|---|---:|---:|---|"
    for name, check in CLAIMS.items():
        if check.part is Part.TRACE:
            found = check.measure(lab)
            claim = judge(name, check, found, "titan", "", list(SEEDS_ASKED))
            low, high = (f"{each:.4g}" for each in found.ci95 if each is not None)
            yield f"| {name} | {check.published:.4g} | {found.value:.4g} [{low}, {high}] | {claim.verdict} |"


def _run(made: dict[str, Any], stack: str, seed: int) -> RunResult:
    return api.compare(made, [stack], [seed], workers=1).runs[0]


def profit(jobs: int | None) -> Iterator[str]:
    """Lines of a Markdown table: total profit over time, to the end of each run and to moments that runs share."""
    yield "| seed, until | titan | elasticflow | titan over elasticflow |"
    yield "|---|---:|---:|---:|"
    for seed in SEEDS_ASKED:
        made = scenario("trace-1", quick=False)
        if jobs is not None:
            made["workload"]["jobs"] = jobs
        runs = [api.compare(made, [STACKS[name]], [seed], workers=1).runs[0] for name in ("titan", "elasticflow")]
        steps = [profit_rate(run, machine_use(run)) for run in runs]
        ends = [float(each.time_s[-1]) for each in steps]
        arrived_s = float(runs[0].jobs["submit_s"].to_numpy().max())
        for words, moments in (
            ("its own end", ends), ("the first end", [min(ends)] * 2), ("the last arrival", [arrived_s] * 2)
        ):  # fmt: skip
            first, second = (earned(each, until_s) for each, until_s in zip(steps, moments, strict=True))
            hours = " and ".join(f"{moment / 3600.0:,.0f}" for moment in dict.fromkeys(moments))
            yield f"| {seed}, {words} ({hours} h) | {first:,.0f} | {second:,.0f} | {first / second:.3f} |"


def earned(steps: Steps, until_s: float) -> float:
    """Units until a moment, of a rate per machine and hour."""
    until_s = min(until_s, float(steps.time_s[-1]))
    times = np.append(steps.time_s[steps.time_s < until_s], until_s)
    return total(Steps(times, steps.value[: len(times)])) / 3600.0


def arriving(jobs: int | None) -> Iterator[str]:
    """Lines of a Markdown table: GB that an iteration of an arriving job sends between machines, on average over jobs
    larger than a machine and over all jobs, where communication takes no time and consolidation takes idle machines."""
    _register()
    yield (
        "| | used machines | sum over running jobs | its own, jobs larger than a machine | its own, all jobs | "
        "a running job's own, larger than a machine, over time |"
    )
    yield "|---|---:|---:|---:|---:|---:|"
    made = scenario("trace-1", quick=False)
    made["cluster"]["nic_gbps"] = NO_TIME_GBPS
    if jobs is not None:
        made["workload"]["jobs"] = jobs
    for words, stack in ARRIVING.items():
        cells = []
        for seed in SEEDS_ASKED:
            run = api.compare(made, [stack], [seed], workers=1).runs[0]
            model = dict(run.jobs.select("job_id", "model").iter_rows())
            first = run.spans.sort("start_s").unique("job_id", keep="first")
            own = np.array(
                [
                    (len(gpus), bytes_between(model[job], gpus, run.server_of_gpu) / 1e9, end_s - start_s)
                    for job, gpus, start_s, end_s in first.select("job_id", "gpus", "start_s", "end_s").iter_rows()
                ]
            )
            larger = own[own[:, 0] > run.server_of_gpu.count(0)]
            found = measured(run).numbers
            cells.append((
                found["used@arrivals"], found["overhead_gb@arrivals"], larger[:, 1].mean(), own[:, 1].mean(),
                np.average(larger[:, 1], weights=larger[:, 2]),
            ))  # fmt: skip
        columns = zip(("{:.0f}", "{:.1f}", "{:.2f}", "{:.3f}", "{:.2f}"), zip(*cells, strict=True), strict=True)
        texts = [" / ".join(form.format(value) for value in values) for form, values in columns]
        yield f"| {words} | {' | '.join(texts)} |"


STUDIES: dict[str, Callable[[int | None], Iterator[str]]] = {
    "unstated": unstated, "arriving": arriving, "profit": profit, "readings": readings, "worth": worth,
}  # fmt: skip


def main() -> None:
    """Do what is asked for, or print the table of Exp#7."""
    asked = sys.argv[1:]
    if asked == ["claims"]:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with kept():  # a reproduction that is interrupted goes on from the runs that it had finished
            write_claims(reproduce("titan", Request(seeds=3, workers=1)).claims, FOLDER)
    elif asked and asked[0] in STUDIES:
        with kept():
            for line in STUDIES[asked[0]](int(asked[1]) if asked[1:] else None):
                print(line, flush=True)
    else:
        asked_for(["claims", *STUDIES, "accuracy"] if asked else [])
        print(accuracy() if asked == ["accuracy"] else inside())


if __name__ == "__main__":
    main()
