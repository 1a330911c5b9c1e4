"""The simulations of the Titan paper: two traces on 4,096 GPUs, and the placements of its testbed of 8 servers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.model.cluster import Cluster
from weft.network.iteration import play_on
from weft.network.topologies import Machine, single_switch
from weft.policies.place.hived import fragments_first
from weft.policies.place.pattern import bytes_across, divide, kind_of, pattern_of
from weft.policies.place.titan import StageLimits, solve
from weft.policies.place.titan.search import Placed
from weft.scenario.problems import read_toml
from weft.scenario.shipped import scenario_path
from weft.workload import zoo
from weft_evidence.claims import Request
from weft_evidence.machines import at_arrivals, machine_use, mean, overhead_bytes, profit_rate, total
from weft_evidence.settings import own, run_stacks

if TYPE_CHECKING:
    from weft.results.run import RunResult
    from weft.results.series import Steps

DEALT = "elasticflow-dealt"  # ElasticFlow with ranks dealt out as Titan deals them
STAGED = "titan-3ms"  # Titan with a stage so short that its limit binds
STACKS = {
    "titan": "titan", "hived": "hived", "elasticflow": "elasticflow", "tiresias": "fifo[place=skew]",
    DEALT: "elasticflow[place=dealt:elasticflow]",
}  # fmt: skip
# Beginnings of trace 1. "alone" is the paper's own workflow: communication is added to durations, and nobody contends
# for links. In "stage" they do, as in the whole trace.
SHORT = {"alone": 1500, "stage": 1500}
SEEDS, QUICK_SEEDS = 3, 3
HD = "halving-doubling"
ELASTICFLOW, ACME = "elasticflow/raw", "acme/trace_seren.csv"
QUICK_JOBS, SHOWN_JOBS, FEW_JOBS, SYNTHETIC_JOBS = 400, 1500, 200, 20_000
QUICK_EFFORT = 0.2  # most of a short run is measuring windows; docs/papers/titan.md says what fewer of them change
STACKED = frozenset({"first-fit:shared", "random:shared"})  # placers that pile jobs up on GPUs: their runs take minutes
# Free devices of the testbed's servers of 4: background jobs of one device, 0 to 3 on a server. Figure 8 is a picture
# without numbers; these fit what the text says of it: two idle servers, one of them left with 12 workers.
FREE = (1, 2, 3, 1, 2, 1, 4, 4)
EPOCHS, IMAGES, BATCH = 200, 50_000, 512
MODELS, SIZES = ("resnet50", "vgg16"), (4, 6, 8, 10, 12)  # the models and numbers of workers of the testbed's jobs


def scenario(trace: str, quick: bool) -> dict[str, Any]:
    """Trace 1 is ElasticFlow's, trace 2 Acme's, or jobs drawn from its published figures (synthetic). Quick: the first
    jobs only, and fewer measuring windows."""
    made: dict[str, Any] = read_toml(scenario_path("titan"))
    work = made["workload"]
    if trace == "trace-2":
        if not is_synthetic(trace):
            work |= {"trace": ACME, "oversize": "leave-out"}
        else:
            made["workload"] = work = {
                "source": "poisson", "draw_from": "acme-seren", "load": 0.3, "reading": "compute",
                "jobs": SYNTHETIC_JOBS,
            }  # fmt: skip
    elif is_synthetic(trace):
        made["workload"] = work = {
            "source": "poisson", "gpus": _SIZES, "duration_median_s": 9_500.0, "duration_sigma": 1.3, "load": 0.2,
            "reading": "compute", "jobs": SYNTHETIC_JOBS,
        }  # fmt: skip
    if trace == "alone":
        made["network"]["sharing"] = "ideal"
    if trace in SHORT:
        work["jobs"] = SHORT[trace]
    if quick:
        work["jobs"] = QUICK_JOBS
        made["run"]["effort"] = QUICK_EFFORT
    return made


_SIZES = {1: 57682.0, 2: 1483.0, 4: 2371.0, 8: 7009.0, 16: 381.0, 32: 354.0, 64: 71.0}  # of ElasticFlow's trace


def is_synthetic(trace: str) -> bool:
    """Whether the jobs of a trace are drawn from published figures since its file is not there."""
    return not _has(ACME if trace == "trace-2" else ELASTICFLOW)


def stacks_of(trace: str) -> dict[str, str]:
    """Placers by name. Where a stage is looked at, Titan has it too."""
    staged = {STAGED: "fifo[place=titan:0.003]"}
    if trace == "stage":
        return {"titan": STACKS["titan"], **staged}
    return STACKS | staged if trace == "alone" else STACKS


def _has(name: str) -> bool:
    store = os.environ.get("WEFT_TRACES")
    return store is not None and (Path(store) / name).exists()


@dataclass(frozen=True)
class TraceRun:
    """A run of a trace, measured. Numbers by name: `used`, `machine_hours`, `fragmentation` (per cent), `overhead_gb`,
    `profit_rate`, `total_profit` and `jct` are over time; with `@arrivals` they are over the arrivals of jobs."""

    numbers: Mapping[str, float]
    run: RunResult
    overhead: Steps | None = None  # bytes across machines over time

    def number(self, metric: str) -> float:
        """One of the numbers by its name."""
        return self.numbers[metric]


class Traces:
    """Runs of the traces, each done once, when first asked for. Runs of the first seed are kept, for pictures."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.seeds = request.numbers(SEEDS, QUICK_SEEDS)
        self.done: dict[str, dict[str, TraceRun]] = {}
        self.numbers: dict[str, list[dict[str, Mapping[str, float]]]] = {}  # by trace, seed by seed: placer, number
        self.notes: list[str] = []

    def of(self, trace: str) -> list[dict[str, Mapping[str, float]]]:
        """All placers on a trace, seed by seed."""
        if trace not in self.numbers:
            stacks = stacks_of(trace)
            self.numbers[trace] = []
            for seed in self.seeds:
                given, request = scenario(trace, self.request.quick), self.request
                runs = run_stacks(request, given, list(stacks.values()), [seed], request.on_progress)
                by_stack = {run.stack: run for run in runs}
                found = {name: measured(by_stack[stack]) for name, stack in stacks.items()}
                self.done.setdefault(trace, found)
                self.numbers[trace].append({name: run.numbers for name, run in found.items()})
                self.notes += [f"{trace}: {note}" for note in runs[0].notes]
        return self.numbers[trace]


def placers(jobs: int) -> list[str]:
    """Every placer of the registry that can run so many jobs of trace 1, Titan's two other forms, and ElasticFlow with
    its ranks dealt out.

    Where jobs share GPUs, every iteration of those that meet on one is simulated: a shared GPU is a queue, which has no
    pace to estimate. With few jobs that can be afforded, but for `STACKED`, which pile jobs up on the same GPUs.
    """
    from weft.stacks import resolve
    from weft.stacks.registry import names

    def admissible(name: str) -> bool:
        return not resolve("fifo", place=name).planner.shares_gpus or (jobs <= FEW_JOBS and name not in STACKED)

    return [*filter(admissible, names("place")), "titan:plus", "titan:printed", "dealt:elasticflow"]


def all_placers(request: Request, jobs: int) -> dict[str, TraceRun]:
    """All placers under first come, first served on the first jobs of trace 1."""
    from weft import api

    made = scenario("trace-1", quick=False)
    made["workload"]["jobs"] = jobs
    stacks = {name: f"fifo[place={name}]" for name in placers(jobs)}
    compared = api.compare(
        made, list(stacks.values()), [request.seed], workers=request.workers, on_progress=request.on_progress,
        on_compile=request.on_compile,
    )  # fmt: skip
    return {name: measured(run) for name, run in zip(stacks, compared.runs, strict=True)}


def measured(run: RunResult) -> TraceRun:
    """The metrics of Exp#1 to #4."""
    use = machine_use(run)
    model = dict(run.jobs.select("job_id", "model").iter_rows())
    overhead = overhead_bytes(run, lambda job, gpus: bytes_between(model[job], gpus, run.server_of_gpu))
    profit = profit_rate(run, use)
    jct = run.jobs["jct_s"].drop_nulls().mean()
    steps = {
        "used": (use.used, 1.0), "fragmentation": (use.fragmentation, 100.0), "overhead_gb": (overhead, 1e-9),
        "profit_rate": (profit, 1.0),
    }  # fmt: skip
    numbers = {name: factor * mean(values, use.used) for name, (values, factor) in steps.items()}
    numbers |= {
        f"{name}@arrivals": factor * float(at_arrivals(run, values).mean()) for name, (values, factor) in steps.items()
    }
    numbers |= {
        "machine_hours": use.machine_hours, "total_profit": total(profit) / 3600.0, "jct": float(jct or 0.0),  # type: ignore[arg-type]
        "total_profit@arrivals": float(at_arrivals(run, profit).sum()),
    }  # fmt: skip
    return TraceRun(numbers, run, overhead)


def bytes_between(model: str, gpus: Sequence[int], server_of_gpu: tuple[int, ...]) -> float:
    """Bytes that an iteration sends between machines, each exchange counted once."""
    servers = [server_of_gpu[g] for g in gpus]
    if len(set(servers)) <= 1:
        return 0.0
    kind, message = _kind(model, len(gpus))
    return message * bytes_across(pattern_of(kind), servers)


@cache
def _kind(model: str, workers: int) -> tuple[Any, float]:
    profile = zoo.profile(model, workers)
    return kind_of(profile, HD), profile.message_bytes


# The testbed


@dataclass(frozen=True)
class Testbed:
    """A job on the testbed: its machines, how many are in use with it, and how long an iteration takes."""

    machines: dict[int, int]  # machine: workers on it
    in_use: int
    iteration_s: float
    comm_s: float
    workers: int
    batch: int = BATCH

    @property
    def throughput(self) -> float:
        """Images per second."""
        return self.batch / self.iteration_s

    @property
    def comm_s_per_epoch(self) -> float:
        """Exposed communication in an epoch of 50,000 images."""
        return self.comm_s * IMAGES / self.batch

    @property
    def machine_hours(self) -> float:
        """Machines in use x the time of 200 epochs."""
        return self.in_use * EPOCHS * (IMAGES / self.batch) * self.iteration_s / 3600.0


def bed_of(request: Request) -> dict[str, Any]:
    """What the testbed is like, with the request's values: free devices, and the global batch."""
    return {"free": tuple(own(request, "testbed.free", FREE)), "batch": own(request, "testbed.batch", BATCH)}


def place_on_testbed(placer: str, model: str, workers: int, free: tuple[int, ...] = FREE) -> Placed:
    """Machines and ranks that a placer chooses on the testbed, with the background jobs there."""
    left = np.array(free)
    idle = left == 4
    if placer == "titan":
        kind = kind_of(zoo.profile(model, workers), HD)
        found = solve(kind, left, idle, StageLimits(np.inf, lambda a, b: np.inf))
        if found is None:
            raise AssertionError("the testbed has room for 18 workers")
        return found
    if placer == "hived":
        return _in_turn(fragments_first(left, np.full(8, 4), np.zeros(8, dtype=np.int64), workers))
    from weft.policies.place.skew import skew_of

    if placer == "tiresias" and skew_of(model) <= 0.3:
        order = np.argsort(left, kind="stable")
        return _in_turn(_filled(order, free, workers))
    shares = _filled(np.argsort(-left, kind="stable"), free, workers)  # idle servers, the fewest
    if placer == DEALT:
        counts = tuple(count for _, count in shares)
        ranks = divide(kind_of(zoo.profile(model, workers), HD), counts).ranks
        return tuple((machine, mine) for (machine, _), mine in zip(shares, ranks, strict=True))
    return _in_turn(shares)


def _filled(order: Any, free: tuple[int, ...], workers: int) -> list[tuple[int, int]]:
    shares = []
    for machine in order.tolist():
        count = min(free[machine], workers)
        workers -= count
        shares += [(machine, count)] if count else []
    return shares


def _in_turn(shares: list[tuple[int, int]]) -> Placed:
    first, found = 0, []
    for machine, count in shares:
        found.append((machine, tuple(range(first, first + count))))
        first += count
    return tuple(found)


@cache
def on_testbed(
    placer: str, model: str, workers: int, inside_gbps: float | None = None, free: tuple[int, ...] = FREE,
    batch: int = BATCH,
) -> Testbed:  # fmt: skip
    """A job of the testbed: a global batch of 512 images, halving-doubling, 100 Gbit/s, alone on its links. Devices of
    one server exchange `inside_gbps` each; None: as much as they like."""
    cluster = _cluster(inside_gbps)
    found = place_on_testbed(placer, model, workers, free)
    gpus = [0] * workers
    for machine, ranks in found:
        devices = cluster.servers[machine].gpus[4 - free[machine] :]
        for rank, gpu in zip(ranks, devices, strict=False):
            gpus[rank] = gpu
    profile = zoo.profile(model, workers, batch=max(1, round(batch / workers)))
    seconds = play_on(cluster, profile, tuple(gpus), HD).seconds
    machines = {machine: len(ranks) for machine, ranks in found}
    in_use = sum(left < 4 or m in machines for m, left in enumerate(free))
    return Testbed(machines, in_use, seconds, seconds - profile.compute_s, workers, batch)


def testbed_words() -> list[str]:
    """Every placement on the testbed, and what it comes to."""
    lines = []
    for placer in STACKS:
        where = "; ".join(f"{n}: {on_testbed(placer, 'vgg16', n).machines}" for n in SIZES)
        lines.append(f"Figure 8, VGG-16, workers on each server (from 0), {placer}: {where}.")
    for model in MODELS:
        for placer in STACKS:
            jobs = [on_testbed(placer, model, n) for n in SIZES]
            numbers = "; ".join(
                f"{j.workers}: {j.machine_hours:.2f} h, {j.throughput:.0f}/s, {j.comm_s_per_epoch:.2f} s" for j in jobs
            )
            lines.append(f"Exp#5-#7, {model}, {placer}: machine hours, images, communication per epoch: {numbers}.")
    return lines


@cache
def _cluster(inside_gbps: float | None) -> Cluster:
    return single_switch(8, Machine(gpus_per_server=4, nic_gbps=100.0, intra_server_gbps=inside_gbps))
