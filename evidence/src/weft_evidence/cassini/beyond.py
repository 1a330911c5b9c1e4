"""Beyond the CASSINI paper: looping groups, many jobs on a link, when padding pays; and why a claim fails.

Each study returns rows; `python -m weft_evidence.cassini.experiments` runs them and draws docs/papers/cassini.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np

from weft_evidence.cassini.snapshots import SNAPSHOTS, Snapshot, Traced, played, with_rates

if TYPE_CHECKING:
    from weft.results.run import RunResult

ITERATIONS = 400


def many_jobs(most: int = 8) -> list[dict[str, Any]]:
    """Section 6 leaves it open: score and iteration time against the number of equal jobs on a link.

    Iterations of 300 ms, of which a part `duty` is sent at 45 of 50 Gbit/s; 1 % jitter. Times are over dedicated ones.
    """
    rows = []
    for duty in (0.1, 0.2, 0.3):
        for n in range(1, most + 1):
            jobs = tuple(Traced(f"j{i}", 300 * (1 - duty), 300 * duty, 45) for i in range(n))
            snapshot = Snapshot(jobs, 0.0, False)
            apart, together = (played(snapshot, how, 0.01, 1, ITERATIONS) for how in (True, False))
            alone = played(Snapshot(jobs[:1], 0.0, False), False, 0.01, 1, ITERATIONS)["jobs"]["j0"]["iteration_ms"]
            rows.append(
                {
                    "duty": duty, "jobs": n, "score": apart["score"], "score_unshifted": apart["compat"].unshifted,
                    "shifted": _mean(apart) / alone, "unshifted": _mean(together) / alone,
                }
            )  # fmt: skip
    return rows


def padding() -> list[dict[str, Any]]:
    """Two jobs whose periods differ by x: idle time that holds them together, against leaving them to chance.

    The longer has 300 ms; both send for `comm_ms` at 45 of 50 Gbit/s. `gain` is unshifted over padded time, averaged
    over the two jobs; more than 1: padding pays.
    """
    rows = []
    for comm_ms in (30.0, 75.0, 120.0):
        for x in (0.0, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1):
            short = 300.0 * (1 - x)
            jobs = (Traced("a", 300 - comm_ms, comm_ms, 45), Traced("b", short - comm_ms, comm_ms, 45))
            snapshot = Snapshot(jobs, 0.0, False)
            padded, chance = (played(snapshot, how, 0.002, 1, 2 * ITERATIONS)["jobs"] for how in (True, False))
            gain = np.mean([chance[j.name]["iteration_ms"] / padded[j.name]["iteration_ms"] for j in jobs])
            rows.append({"comm_ms": comm_ms, "x": x, "idle": x / (1 - x), "gain": float(gain)})
    return rows


def rates() -> list[dict[str, Any]]:
    """Snapshots 3 to 5 of Table 2 with one rate for all jobs: at which rates do times and score come out?"""
    rows = []
    for number in (3, 4, 5):
        for gbps in (30, 33, 36, 40, 45, 50):
            snapshot = with_rates(SNAPSHOTS[number], [gbps] * len(SNAPSHOTS[number].jobs))
            plain, apart = (played(snapshot, how) for how in (False, True))
            times = {name: [run["jobs"][name]["comm_ms"] for run in (plain, apart)] for name in plain["jobs"]}
            rows.append({"snapshot": number, "gbps": gbps, "score": apart["score"], "themis_cassini_ms": times})
    return rows


def published_shifts() -> list[dict[str, Any]]:
    """Table 2: what the published shifts are worth on our circles, beside the best ones and beside chance."""
    from weft.policies.interleave.cassini.rotate import score_at
    from weft_evidence.cassini.snapshots import CAPACITY_GBPS, shifted

    rows = []
    for number, snapshot in SNAPSHOTS.items():
        found = shifted(snapshot)
        if found.periods.fit:
            theirs = [job.shift_ms / 1e3 for job in snapshot.jobs]
            times = played(snapshot, True, as_published=True)["jobs"]
            rows.append(
                {
                    "snapshot": number, "published": snapshot.score, "best": found.rotation.score,
                    "as_published": score_at(found.circles, CAPACITY_GBPS, theirs, found.periods),
                    "unshifted": found.unshifted, "comm_ms": {name: job["comm_ms"] for name, job in times.items()},
                }
            )  # fmt: skip
    return rows


def loops() -> list[dict[str, Any]]:
    """Rings of n jobs that meet in pairs on n links: what consensus forgoes, and what leaving them alone loses."""
    from weft.model.flows import Traffic
    from weft.policies.interleave.cassini.align import align
    from weft.policies.interleave.cassini.layout import lay_out, score_links

    rows = []
    for n in (3, 4, 5):
        for duty in (0.3, 0.4, 0.5):
            arcs = ((0.0, 0.3 * duty, 45.0),)
            jobs = {f"j{i}": Traffic(0.3, 1, 0.0, 0.0, {i: arcs, (i + 1) % n: arcs}) for i in range(n)}
            layout = lay_out(jobs, np.full(n, 50.0), 0.0)
            score_links([layout])
            (found,) = align(layout, layout.groups[0], 0.0, consensus=True)
            best = sum(m.score for m in layout.groups[0].meetings)
            rows.append(
                {
                    "jobs": n, "duty": duty, "best_alone": best / n, "consensus": (best - found.forgone) / n,
                    "unshifted": 1.0 - found.loss_free / n,
                }
            )  # fmt: skip
    return rows


def loop_free(placements: int = 200) -> list[dict[str, Any]]:
    """Part of the testbed's placements whose affinity graph has no loop, jobs of equal size filling all 24 servers.

    Placements are drawn at random, or packed by rack with a few pairs of workers exchanged.
    """
    from weft.network.topologies import cassini
    from weft.policies.interleave.cassini.layout import lay_out

    cluster, rng = cassini(), np.random.default_rng(1)
    rows = []
    for workers in (2, 3, 4, 6):
        jobs, world = _equal_jobs(cluster, 24 // workers, workers)
        row: dict[str, Any] = {"workers": workers}
        for name, swaps in (("random", None), ("packed", 0), ("swaps_2", 2), ("swaps_4", 4)):
            free = 0
            for _ in range(placements):
                gpus = np.arange(24)
                if swaps is None:
                    gpus = rng.permutation(24)
                for _ in range(swaps or 0):
                    a, b = rng.choice(24, 2, replace=False)
                    gpus[[a, b]] = gpus[[b, a]]
                where = gpus.reshape(-1, workers).tolist()
                traffic = {job.id: world.traffic(job, tuple(sorted(g))) for job, g in zip(jobs, where, strict=True)}
                free += lay_out(traffic, cluster.topology.capacity, 0.05).loops == 0
            row[name] = free / placements
        rows.append(row)
    return rows


def _equal_jobs(cluster: Any, jobs: int, workers: int) -> tuple[list[Any], Any]:
    from weft.model.job import Job
    from weft.sim import NetworkSpec, RunSpec
    from weft.sim.world import SimWorld
    from weft.workload import zoo
    from weft_evidence.cassini.scenarios import VGG19

    profile = zoo.profile(VGG19, workers, gpu="A100")
    equal = [Job(f"j{i}", 0.0, workers, 100, {workers: profile}, VGG19) for i in range(jobs)]
    return equal, SimWorld(cluster, equal, NetworkSpec(), RunSpec())


RULES = {
    "printed rule, one candidate": "random+cassini:loops=discard,candidates=1",
    "printed rule, ten candidates": "random+cassini:loops=discard",
    "consensus, one candidate": "random+cassini:candidates=1",
    "ten candidates, no shifts": "random+cassini:unshifted",
    "fewest racks of ten, no shifts": "random+cassini:metric=racks,unshifted",
    "consensus, ten candidates": "random+cassini",
}


def loop_rule(seeds: int = 5, workers: int | None = None) -> list[dict[str, Any]]:
    """Twelve equal jobs of two workers at random on the testbed: what the rule about loops costs, with its controls."""
    from weft import api
    from weft_evidence.cassini.scenarios import JITTER
    from weft_evidence.claims import Runs

    rows = []
    for model in ("vgg19[batch=104]", "wide-resnet101[batch=40]", "resnet50[batch=24]"):
        job = {"model": model, "gpus": 2, "iterations": 400}
        scenario = {
            "cluster": {"topology": "cassini"}, "run": {"jitter": JITTER},
            "workload": {"source": "jobs", "job": [{"id": f"j{i}", **job} for i in range(12)]},
        }  # fmt: skip
        runs = Runs(api.compare(scenario, ["random", *RULES.values()], seeds, workers=workers).runs)
        for words, stack in RULES.items():
            row: dict[str, Any] = {"model": model, "rule": words}
            for key in ("mean", "p99"):
                ratio = runs.ratio("random", stack, f"iteration_{key}_s")
                row |= {key: ratio.value, f"{key}_low": ratio.ci95[0], f"{key}_high": ratio.ci95[1]}
            rows.append(row)
    return rows


def settings(seeds: int = 5) -> list[dict[str, Any]]:
    """Figure 13 with restarts of 0 to 30 s, leases of 1 to 20 minutes, noise scales of 1 to 100 batches."""
    from weft_evidence.cassini.scenarios import RESTART_S, STUDIED

    cases = [(planner, restart) for planner in ("themis", "pollux") for restart in (0.0, RESTART_S, 30.0)]
    cases += [(f"themis:0.8,{60 * minutes}", RESTART_S) for minutes in (1, 3, 20)]
    cases += [(f"pollux:{how}", RESTART_S) for how in ("1,60", "100,60")]
    rows = []
    for planner, restart_s in cases:
        scenario = deepcopy(STUDIED["figure-13"])
        scenario["run"]["restart_s"] = restart_s
        row, _ = _ratios(scenario, planner, seeds)
        rows.append({"planner": planner, "restart_s": restart_s, **row})
    return rows


def _ratios(
    scenario: dict[str, Any], planner: str, seeds: int, whole: str = "cassini"
) -> tuple[dict[str, Any], list[RunResult]]:
    """What CASSINI and each of its parts alone gain; and the planner's own runs.

    Iteration times (mean and p99) and mean JCT without over with it, with intervals; and restarts in a run.
    """
    from weft import api
    from weft_evidence.cassini import CONTROLS
    from weft_evidence.claims import Runs

    parts = {"cassini": whole, **{name: _with(whole, control) for name, control in CONTROLS.items()}}
    stacks = [planner, *(f"{planner}+{part}" for part in parts.values())]
    runs = Runs(api.compare(scenario, stacks, seeds, workers=1).runs)
    row: dict[str, Any] = {"restarts": runs.metric(planner, "preemptions").value}
    for name, part in parts.items():
        stack = f"{planner}+{part}"
        for key, metric in (("mean", "iteration_mean_s"), ("p99", "iteration_p99_s"), ("jct", "jct_mean_s")):
            ratio = runs.ratio(planner, stack, metric)
            row[f"{name}_{key}"] = [ratio.value, *ratio.ci95]
        row[f"{name}_restarts"] = runs.metric(stack, "preemptions").value
    return row, runs.by_stack[planner]


def _with(whole: str, control: str) -> str:
    """A control of CASSINI with other options: those of both."""
    options = [*whole.split(":", 1)[1:], *control.split(":", 1)[1:]]
    return "cassini:" + ",".join(options)


def one_change(seeds: int = 5) -> list[dict[str, Any]]:
    """Figures 11 and 13 under Themis with one thing as it is not: running jobs stay; leases of a minute."""
    from weft_evidence.cassini.scenarios import STUDIED

    rows = []
    for figure in ("figure-11", "figure-13"):
        for planner, whole in (("themis", "cassini:stay"), ("themis:0.8,60", "cassini")):
            row, _ = _ratios(deepcopy(STUDIED[figure]), planner, seeds, whole)
            rows.append({"figure": figure, "planner": planner, "part": whole, **row})
    return rows


_ODD, _EVEN = {"3": 1, "5": 1, "6": 1}, {"2": 1, "4": 1, "8": 1}
# figure, what is changed in its workload, planner
_CHANGES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("sweep", {"gpus": {"5": 1}}, "themis"),
    ("figure-14", {"gpus": _ODD}, "themis"),
    ("figure-12", {"gpus": _ODD}, "themis"),
    ("figure-13", {"elastic": None, "gpus": _EVEN}, "themis"),
    ("figure-13", {"shortest_s": None}, "themis"),
    ("figure-14", {}, "random"),
)


def why_not(seeds: int = 5) -> list[dict[str, Any]]:
    """Figures without a gain, one thing changed: sizes that fill no rack, random places, DLRM for seconds or not.

    And the other way round: Figure 13 with sizes that fill racks. `meets` and `alone_mean` are those of the
    planner without CASSINI (see `contention_of`).
    """
    from weft_evidence.cassini.contention import contention_of
    from weft_evidence.cassini.scenarios import STUDIED

    models = [model for model in STUDIED["figure-13"]["workload"]["models"] if not model.startswith("dlrm")]
    rows = []
    for figure, change, planner in (*_CHANGES, ("figure-13", {"models": models}, "themis")):
        scenario = deepcopy(STUDIED[figure])
        workload = {**scenario["workload"], **change}
        scenario["workload"] = {key: value for key, value in workload.items() if value is not None}
        row, plain = _ratios(deepcopy(scenario), planner, seeds)
        met = [contention_of(run, scenario) for run in plain]
        room = {key: float(np.mean([one[key] for one in met])) for key in ("meets", "alone_mean", "alone_p99")}
        rows.append({"figure": figure, "change": change, "planner": planner, **room, **row})
    return rows


def room_to_gain(seeds: int = 5) -> list[dict[str, Any]]:
    """Figures 11 to 16 under the planners alone: how often jobs meet on a link that can fill, and what that costs.

    Figure 16, whose tail does not gain, also with CASSINI.
    """
    from weft_evidence.cassini.contention import contention
    from weft_evidence.cassini.scenarios import STUDIED

    rows = []
    for figure, scenario in STUDIED.items():
        stacks = ("themis", "themis+cassini") if figure == "figure-16" else ("themis", "pollux")
        rows += [{"figure": figure, **row} for row in contention(scenario, stacks, seeds)]
    return rows


def stays(seeds: int = 5) -> list[dict[str, Any]]:
    """Figures 11 and 13: how often jobs come or go, how long a job stays on its GPUs, how many leases of GPUs end.

    In Figure 13 also with shorter and longer leases. Leases are counted where Themis runs alone: a job that CASSINI
    moves takes the ends of its leases along.
    """
    from weft import api
    from weft_evidence.cassini.scenarios import STUDIED

    lengths = {"themis": 600.0} | {f"themis:0.8,{seconds}": float(seconds) for seconds in (60, 180, 1200)}
    usual = ("themis", "themis+cassini", "pollux", "pollux+cassini")
    rows = []
    for figure, stacks in (("figure-11", usual), ("figure-13", (*usual, *list(lengths)[1:]))):
        for stack in stacks:
            runs = api.compare(deepcopy(STUDIED[figure]), [stack], seeds, workers=1).runs
            ends = [np.unique(np.concatenate([run.jobs["submit_s"], run.jobs["finish_s"]])) for run in runs]
            lasted = np.concatenate([(run.spans["end_s"] - run.spans["start_s"]).to_numpy() for run in runs])
            row = {
                "figure": figure, "stack": stack,
                "between_jobs_s": float(np.median(np.concatenate([np.diff(times) for times in ends]))),
                "stay_median_s": float(np.median(lasted)), "stay_mean_s": float(lasted.mean()),
            }  # fmt: skip
            if stack in lengths:
                row["leases_ended"] = sum(leases_ended(run, lengths[stack]) for run in runs)
            rows.append(row)
    return rows


def leases_ended(run: RunResult, lease_s: float) -> int:
    """Leases of single GPUs that ran out while their job had the GPU; a job that is moved keeps what it stays on."""
    held: dict[tuple[str, int], float] = {}  # since when
    since: dict[str, tuple[float, list[int]]] = {}
    ended = 0
    for job, start, end, gpus, _ in run.spans.sort("start_s").iter_rows():
        last_end, last_gpus = since.get(job, (-1.0, []))
        for gpu in gpus:
            if not (gpu in last_gpus and abs(last_end - start) < 1e-6):
                held[job, gpu] = start
            ended += int((end - held[job, gpu]) / lease_s) - int((start - held[job, gpu]) / lease_s)
        since[job] = end, gpus
    return ended


def _mean(played_: dict[str, Any]) -> float:
    return float(np.mean([job["iteration_ms"] for job in played_["jobs"].values()]))


STUDIES = {
    "many_jobs": many_jobs,
    "padding": padding,
    "rates": rates,
    "published_shifts": published_shifts,
    "loops": loops,
    "loop_free": loop_free,
    "loop_rule": loop_rule,
    "settings": settings,
    "room_to_gain": room_to_gain,
    "stays": stays,
    "one_change": one_change,
    "why_not": why_not,
}
