"""Dally (Sharma et al. 2025): Tables I to III, Figures 1, 4 and 6 to 13. The readings are in docs/papers/dally.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from weft.network.cost import DALLY_TABLE_I
from weft_evidence.checks import (
    Check,
    bounded,
    headed,
    in_order,
    in_place,
    nearly,
    on_that_side,
    place_of,
    saving,
    some_effect,
    test,
    value,
)
from weft_evidence.claims import Kind, Measured, Picture, Reproduction, Request, Runs
from weft_evidence.dally import models
from weft_evidence.dally.latency import share
from weft_evidence.dally.runs import GANDIVA, RACKS, has_files, quarter_words, run_experiments, timers_over_time
from weft_evidence.dally.shapes import ASTRA_SIM
from weft_evidence.rows import read

if TYPE_CHECKING:
    from weft.results.run import RunResult

TITLE = "Dally: a network-placement sensitive cluster scheduler for deep learning (2025)"

PAPER = "dally"
SEEDS, QUICK_SEEDS = 3, 3
NAMES = {"gandiva": GANDIVA, "tiresias": "tiresias", "dally-manual": "dally-manual", "dally": "dally"}
# Job completion times in seconds, 8 racks: gandiva, tiresias, dally-manual, dally
TABLE_II = {
    "mean": (5828719, 4461998, 3128566, 2828955), "median": (183717, 2547080, 2552189, 2401390),
    "p95": (17485823, 17841606, 7097646, 5983042), "p99": (39214710, 25696135, 8868401, 8395214),
}  # fmt: skip
TABLE_III = {
    "mean": (17371514, 4329941, 4960727, 2831880), "median": (22722917, 4212795, 2787855, 2595529),
    "p95": (71362014, 15059080, 39298828, 16469069), "p99": (208939883, 15390860, 39817762, 16681241),
}  # fmt: skip

# What the authors' released simulator gives: single runs, as released and with its leak of GPUs repaired, leases of an
# hour, 100,000 iterations at once, 24 hours of history and ASTRA_SIM's latencies. What it saves over Tiresias on 2, 4,
# 8 and 16 racks of the batch, in percent. Its Tiresias knows racks, so this stands beside the claims about
# `tiresias-racks`; but theirs also moves jobs whose lease is over, as only `tiresias-racks[order=las:moving]` does
# here, about which there is no claim. See docs/papers/dally.md.
RELEASED = {
    "makespan_s": ((68.0, -14.0), (57.0, -122.0), (33.0, -89.0), (52.0, -5.0)),
    "jct_mean_s": ((43.0, -2.0), (14.0, -23.0), (-50.0, -37.0), (12.0, -15.0)),
    "queueing_p95_s": ((54.0, 21.0), (44.0, -7.0), (-1.0, -36.0), (48.0, -25.0)),
}
_Told = dict[str, tuple[tuple[int, int], ...]]
# Its job completion times on 8 racks, in thousands of seconds, by the columns of Table II. Gandiva has no leak, and
# draws GPUs at random: the first of several draws.
RELEASED_II: _Told = {
    "mean": ((7277, 7277), (4087, 126), (5838, 160), (6144, 173)),
    "median": ((268, 268), (3881, 66), (3342, 70), (5578, 76)),
    "p95": ((21447, 21447), (13777, 444), (14884, 604), (13299, 774)),
    "p99": ((32093, 32093), (21854, 870), (19110, 1530), (13932, 1644)),
}
# The same for Table III (Poisson arrivals, the first week).
RELEASED_III: _Told = {
    "mean": ((18345, 18345), (5819, 50), (16721, 52), (11753, 53)),
    "median": ((20740, 20740), (3925, 16), (17818, 16), (12151, 16)),
    "p95": ((25168, 25168), (21688, 234), (29005, 226), (24708, 217)),
    "p99": ((44033, 44033), (23214, 647), (30093, 498), (25350, 531)),
}
# Percent of mean JCT that its Dally saves over its Gandiva on 2 racks of the batch.
RELEASED_OVER_GANDIVA = (-61.0, 91.0)
LONG = "tiresias"  # minutes a run, even on a quarter: its last jobs change places every hour for 100 million seconds
OTHERS = {"tiresias": "Tiresias", "tiresias-racks": "Tiresias with racks", "gandiva": "Gandiva"}

NOTES = (
    "Communication costs the part of the compute time that Table I gives for a model and a tier; jobs do not contend, "
    "as in the paper. Beyond the paper: docs/papers/dally.md.",
    "Where the paper gives a range or a mean over numbers of racks, its lower end or that mean is set beside every "
    "number, and what is measured is a direction at best. Tiresias looks at machines only; Tiresias with racks takes "
    "one machine, else one rack, else anything, as in the authors' simulator, whose Tiresias also moves jobs.",
    "Table I is no claim: models are calibrated to its machine column, and which system file of the authors goes with "
    "which tier was chosen with the other columns in view.",
    "The paper does not state its leases: here each is an hour from its job's start. Gandiva's slices are four hours.",
    "The figure of the authors' simulator is one run with the latencies of their ASTRA-sim. Its settings (leases of an "
    "hour, 100,000 iterations at once, 24 hours of history) were chosen with the published numbers in view, and others "
    "give other figures: where machine and network have the other system file it saves 25 % of the mean JCT "
    "over Tiresias on 8 racks, not -50.",
)


def at(stack: str, experiment: str) -> str:
    """The name of a run."""
    return f"{NAMES.get(stack, stack)}@{experiment}"


def _table_i() -> dict[str, Check]:
    found = {}
    for model, row in DALLY_TABLE_I.items():
        theirs = ASTRA_SIM[model]
        for where, published, told in (
            ("rack", row.rack, theirs.rack[0]), ("network", row.network, theirs.network[0])
        ):  # fmt: skip

            def measure(runs: Runs, model: str = model, where: str = where) -> Measured:
                return Measured(100.0 * share(model, where))

            found[f"table-i.{model}.{where}"] = Check(
                f"{model}, 8 GPUs: communication over compute time, {where} (its system file was chosen on this table)",
                100.0 * published, "%", (), measure, nearly, seeded=False, released=(100.0 * told,) * 2,
                kind=Kind.FITTED,
            )  # fmt: skip
    return found


TAILS = {"queueing_p95_s": "p95", "queueing_p99_s": "p99"}  # not among the metrics that are compared everywhere
_Published = tuple[float, str, bool]  # a number, where it is from, and whether it is that of a range or a mean


def _save(
    name: str, words: str, published: _Published, metric: str, experiment: str, other: str, slow: bool
) -> Check:  # fmt: skip
    mine, theirs = at("dally", experiment), at(other, experiment)
    number, said, ranged = published
    check = saving(
        f"{name}: Dally saves {words} over {OTHERS[other]}, {experiment.replace('-', ' on ')} racks{said}", number,
        mine, theirs, metric,
    )  # fmt: skip
    if other == "tiresias-racks" and experiment.startswith("batch") and metric in RELEASED:  # the nearest to theirs
        check = replace(check, released=RELEASED[metric][RACKS.index(int(experiment.partition("-")[2]))])
    if other == "gandiva" and experiment == "batch-2" and metric == "jct_mean_s":
        check = replace(check, released=RELEASED_OVER_GANDIVA)
    if metric in TAILS:
        check = replace(check, measure=lambda runs: Measured.over_seeds(_savings_of(runs, mine, theirs, metric)))
    return replace(check, slow=slow, rule=bounded(0.0) if ranged else on_that_side(0.0))


def _savings_of(runs: Runs, stack: str, other: str, metric: str) -> list[float | None]:
    """Percent that one stack saves over another, seed by seed."""
    from weft.results.metrics import summary

    values = {
        name: [summary(run)["queueing_s"][TAILS[metric]] for run in runs.by_stack[name]]
        if metric in TAILS
        else runs.values(name, metric)
        for name in (stack, other)
    }
    pairs = zip(values[stack], values[other], strict=True)
    return [100.0 * (1.0 - mine / theirs) if mine is not None and theirs else None for mine, theirs in pairs]


def _savings() -> dict[str, Check]:
    """Figures 7, 8 and 13, for each number of racks."""
    found = {}
    rows = (
        ("figure-7.makespan", "Figure 7", "makespan", "makespan_s", "batch", {"tiresias": (68, None)}),
        ("figure-8a.queueing-p95", "Figure 8a", "P95 queueing delay", "queueing_p95_s", "batch",
         {"tiresias": (58, 71)}),
        ("figure-8a.queueing-p99", "Figure 8a", "P99 queueing delay", "queueing_p99_s", "batch",
         {"tiresias": (67, 78)}),
        ("section-vi.queueing-mean", "Section VI-2", "mean queueing delay", "queueing_mean_s", "batch",
         {"tiresias": (18, 31)}),
        ("figure-8b.communication", "Figure 8b", "mean communication", "comm_mean_s", "batch", {"tiresias": (53, 83)}),
        ("figure-13a.jct", "Figure 13a", "mean JCT", "jct_mean_s", "batch",
         {"tiresias": (19, 36), "gandiva": (23, 51)}),
        ("figure-13b.jct", "Figure 13b", "mean JCT", "jct_mean_s", "poisson",
         {"tiresias": (16, 34), "gandiva": (23, 51)}),
    )  # fmt: skip
    averages = TABLE_II["mean"]
    over = {stack: 100.0 * (1.0 - averages[-1] / number) for stack, number in zip(NAMES, averages, strict=True)}
    exceptions: dict[tuple[str, str, int], _Published] = {
        ("figure-13a.jct", "gandiva", 2): (-39.0, "", False),
        ("figure-13a.jct", "gandiva", 8): (over["gandiva"], " (Table II)", False),
        ("figure-13b.jct", "gandiva", 8): (83.0, " (Section VI-5; Figure 13b: 23 to 51 over all)", False),
    }
    for tiresias in ("tiresias", "tiresias-racks"):
        exceptions["figure-13a.jct", tiresias, 8] = (over["tiresias"], " (Table II)", False)
        exceptions["figure-13b.jct", tiresias, 8] = (35.0, " (Section VI-5)", False)
    left_out = {
        ("figure-13b.jct", "tiresias", 4),
        ("figure-13b.jct", "tiresias-racks", 4),
    }  # "degradation", without a number
    for key, name, words, metric, arrival, others in rows:
        for racks in RACKS:
            for other, (low, high) in {"tiresias-racks": others["tiresias"], **others}.items():
                said = (
                    f" (published: {low} to {high} over all)" if high else f" (published: {low} in the mean over all)"
                )
                published = exceptions.get((key, other, racks), (float(low), said, True))
                if (key, other, racks) not in left_out:
                    found[f"{key}.over-{other}.{racks}-racks"] = _save(
                        name, words, published, metric, f"{arrival}-{racks}", other,
                        racks != 8 or arrival == "poisson" or other == LONG,
                    )  # fmt: skip
    return found


def _best(name: str, words: str, published: float, metric: str, other: str) -> Check:
    """The largest saving over numbers of racks at each seed ("up to", "by as much as")."""
    pairs = [(at("dally", f"batch-{racks}"), at(other, f"batch-{racks}")) for racks in RACKS]

    def measure(runs: Runs) -> Measured:
        by_seed = zip(*(_savings_of(runs, *pair, metric) for pair in pairs), strict=True)
        return Measured.over_seeds([max((s for s in seed if s is not None), default=None) for seed in by_seed])

    return Check(
        f"{name}: Dally's largest saving of {words} over {OTHERS[other]}, 2 to 16 racks (published: up to)", published,
        "%", tuple(stack for pair in pairs for stack in pair), measure, bounded(0.0), slow=True,
    )  # fmt: skip


def _majority(name: str, arrival: str, other: str, kind: Kind | None = None) -> Check:
    """The share of jobs that are done sooner than with another stack; the paper shows histograms and says "majority of
    the jobs". Of Figure 9 it says that of job sizes, so that there this is our own question."""
    mine, theirs = at("dally", f"{arrival}-8"), at(other, f"{arrival}-8")

    def measure(runs: Runs) -> Measured:
        pairs = zip(runs.by_stack[mine], runs.by_stack[theirs], strict=True)
        return Measured.over_seeds([_sooner(a, b) for a, b in pairs])

    return Check(
        f"{name}: jobs with a shorter JCT than under {OTHERS[other]}, {arrival} on 8 racks (more than half; a curve)",
        None, "% of jobs", (mine, theirs), measure, some_effect(50.0),
        slow=arrival == "poisson" or other == LONG, kind=kind,
    )  # fmt: skip


def _quantiles(other: str) -> Check:
    """The share of the quantiles of JCT at which Dally's is the shorter: where its curve of Figure 9 lies left."""
    mine, theirs = at("dally", "batch-8"), at(other, "batch-8")

    def measure(runs: Runs) -> Measured:
        pairs = zip(runs.by_stack[mine], runs.by_stack[theirs], strict=True)
        return Measured.over_seeds([_left_of(a, b) for a, b in pairs])

    return Check(
        f"Figure 9: quantiles of JCT at which Dally's is shorter than that of {OTHERS[other]}, batch on 8 racks (more "
        "than half; a curve)", None, "% of quantiles", (mine, theirs), measure, some_effect(50.0), slow=other == LONG,
    )  # fmt: skip


def _left_of(run: RunResult, other: RunResult) -> float | None:
    """Percent of the quantiles (1 to 99 %) of JCT that are shorter in the first."""
    from weft.results.metrics import finished_jobs

    both = [finished_jobs(each)["jct_s"].to_numpy() for each in (run, other)]
    if not all(len(values) for values in both):
        return None
    mine, theirs = (np.quantile(values, np.arange(1, 100) / 100.0) for values in both)
    return 100.0 * float((mine < theirs).mean())


def _sooner(run: RunResult, other: RunResult) -> float | None:
    """Percent of the jobs that both finished whose JCT is shorter in the first."""
    from weft.results.metrics import finished_jobs

    both = finished_jobs(run).join(finished_jobs(other), on="job_id", suffix="_other")
    return 100.0 * float((both["jct_s"] < both["jct_s_other"]).sum()) / both.height if both.height else None


# Figure 7, in words: the first of each pair has the shorter makespan.
SHORTER = (
    ("dally", "dally-manual"), ("dally-manual", "tiresias"), ("dally-manual", "gandiva"),
    ("dally", "dally-consolidated"), ("dally-consolidated", "tiresias"), ("tiresias", "dally-nowait"),
)  # fmt: skip


def _variants() -> Check:
    pairs = [(at(a, "batch-8"), at(b, "batch-8")) for a, b in SHORTER]
    words = "Figure 7: pairs of makespans in the order that the text gives, batch on 8 racks"
    return replace(in_order(words, pairs, "makespan_s", slow=True), released=(4.0, 3.0))


def _tables() -> dict[str, Check]:
    found = {}
    tables = (
        ("table-ii", "batch", TABLE_II, RELEASED_II),
        ("table-iii", "poisson", TABLE_III, RELEASED_III),
    )
    for table, arrival, rows, theirs in tables:
        for statistic, numbers in rows.items():
            for k, (stack, number) in enumerate(zip(NAMES, numbers, strict=True)):
                as_released, repaired = theirs[statistic][k]
                check = value(
                    f"{stack}, {arrival} on 8 racks: JCT, {statistic}", float(number), "s", at(stack, f"{arrival}-8"),
                    f"jct_{statistic}_s",
                )  # fmt: skip
                released = (1000.0 * as_released, 1000.0 * repaired)
                found[f"{table}.{stack}.jct-{statistic}"] = replace(check, slow=True, released=released)
    return found


def _place(what: str, metric: str, most_first: bool) -> Check:
    """Dally's place among the four. The area under the curve of Figure 12 is the mean JCT times the number of jobs."""
    stacks = tuple(at(stack, "batch-8") for stack in NAMES)
    mine = at("dally", "batch-8")

    def measure(runs: Runs) -> Measured:
        others = [runs.values(stack, metric) for stack in stacks if stack != mine]
        return place_of(runs.values(mine, metric), others, most_first)

    return Check(f"{what}, batch on 8 racks", 1.0, "place", stacks, measure, in_place, slow=True)


def _timers() -> Check:
    """Figure 4, for 16-GPU jobs: the 95th percentile of GPU demand."""

    def measure(runs: Runs) -> Measured:
        found = []
        for seed in range(SEEDS):
            means = [_mean_timer(timers_over_time(racks, 16, seed)) for racks in RACKS]
            found.append(float(sum(small > large for small, large in pairwise(means))))
        return Measured.over_seeds(found)

    return Check(
        f"Figure 4: numbers of racks whose tuned rack timers are longer than those of the next larger, seeds 0 to "
        f"{SEEDS - 1} (all 3 must be)",
        3.0, "pairs", (), measure, in_place, slow=True,
    )  # fmt: skip


def _mean_timer(rows: Sequence[tuple[float, float, float]]) -> float:
    """Over time, of the rack timer."""
    lasting = [later[0] - row[0] for row, later in pairwise(rows)]
    total = sum(lasting)
    return sum(row[2] * s for row, s in zip(rows, lasting, strict=False)) / total if total > 0 else 0.0


CLAIMS: dict[str, Check] = {
    **_table_i(),
    "figure-4.timers": _timers(),
    "figure-7.makespan.best-over-tiresias": _best("Figure 7", "makespan", 69.0, "makespan_s", "tiresias"),
    "figure-7.makespan.best-over-tiresias-racks": _best("Figure 7", "makespan", 69.0, "makespan_s", "tiresias-racks"),
    "figure-7.makespan.best-over-gandiva": _best("Figure 7", "makespan", 92.0, "makespan_s", "gandiva"),
    **_savings(),
    "figure-7.order": _variants(),
    "figure-8a.queueing-p95.best-over-gandiva": _best(
        "Figure 8a", "P95 queueing delay", 81.0, "queueing_p95_s", "gandiva"
    ),
    **{f"figure-9.quantiles.over-{other}": _quantiles(other) for other in OTHERS},
    **{f"figure-9.jct.over-{other}": _majority("Figure 9", "batch", other, Kind.OWN) for other in OTHERS},
    **{f"figure-10.jct.over-{other}": _majority("Figure 10", "poisson", other) for other in OTHERS},
    "figure-11.utilisation": _place("Figure 11: place of Dally by GPU utilisation", "gpu_utilisation", True),
    "figure-12.remaining": _place(
        "Figure 12: place of Dally by the area under the curve of remaining jobs, least first", "jct_mean_s", False
    ),
    **_tables(),
}
CLAIMS |= models.checks() | read(__package__, lambda name: at(*name.split("@")))
CLAIMS = headed(PAPER, CLAIMS)


def claims(quick: bool) -> dict[str, Check]:
    """All claims. When quick, those about the batch say in their names and words what is run instead, without what the
    authors' simulator gave for the whole batch, and those about 2 racks are left out: a quarter of 2 racks is none."""
    if not quick:
        return CLAIMS
    here = {name: check for name, check in CLAIMS.items() if not any(s.endswith("@batch-2") for s in check.stacks)}
    batch = {name for name, check in here.items() if any("@batch-" in s for s in check.stacks)}
    return {
        quarter_words(name) if name in batch else name: replace(
            check, what=quarter_words(check.what), released=None if check.stacks else check.released
        )
        for name, check in here.items()
    }


def reproduce(request: Request) -> Reproduction:
    """Tables I to III and the figures."""
    found, runs, notes = test(PAPER, claims(request.quick), request, SEEDS, QUICK_SEEDS, run_experiments)
    where = (
        "Jobs: the authors' own files (seed 0), drawn from them (batch) or their other files (Poisson) at other seeds."
        if has_files()
        else "Jobs are drawn from the published figures of the authors' files, which WEFT_TRACES does not hold. "
        "Table I is that of weft's own models, not of the authors' layer files, which its causes are about."
    )
    if request.quick:
        notes.append(
            "quick: a quarter of the batch (125 jobs) on a quarter of the racks; Poisson arrivals as they are."
        )
    return Reproduction(PAPER, found, (*NOTES, where, *notes), _pictures(runs.get(PAPER), request.quick))


def _pictures(runs: Runs | None, quick: bool) -> tuple[Picture, ...]:
    from weft_evidence.dally import figures as dally_figures

    drawn = dally_figures.pictures(runs, NAMES)
    return tuple(replace(one, caption=quarter_words(one.caption)) for one in drawn) if quick else drawn
