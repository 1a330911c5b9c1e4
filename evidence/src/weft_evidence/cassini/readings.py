"""What deviations from CASSINI's set-up are worth, and other readings of snapshot 4; prints tables, writes nothing:
python -m weft_evidence.cassini.readings [models|snapshot_4] [SEEDS]

`models`: Figures 11 and 13 with the batches of Table 2 on images of 224 x 224, with hybrid GPT-3 in place of
`gpt2-medium`, and with no GPT-3 at all. Both of the paper's need more memory than a GPU has; a control has that alone.

`snapshot_4`: two equal jobs, printed with a shift of 60 ms, a score of 0.8 and times of 164 and 180 ms (Themis: 210 and
208). Two equal jobs that compute for c and send for s, s >= c, lose (s - c) whatever the shift between c and s, and
more outside. So 60 ms can be best only where computing takes no longer, or where an iteration sends several times.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from typing import Any

from weft_evidence.cassini.scenarios import EXPERIMENTS
from weft_evidence.cassini.snapshots import CAPACITY_GBPS, SNAPSHOTS, Snapshot, Traced, played, shifted

_PAPERS = {
    "vgg11": "vgg11[batch=1400]", "vgg16": "vgg16[batch=1400]", "vgg19": "vgg19[batch=1400]",
    "resnet50": "resnet50[batch=1600]", "wide-resnet101": "wide-resnet101[batch=800]",
}  # fmt: skip
_HYBRID = {"gpt2-medium": "gpt3-cassini[parallel=hybrid]"}
CHANGES: dict[str, tuple[bool, dict[str, str]]] = {  # memory without limit, models in place of others ("": none)
    "as the claims have it": (False, {}),
    "memory without a limit": (True, {}),
    "the paper's batches, large images": (True, _PAPERS),
    "hybrid GPT-3 for gpt2-medium": (True, _HYBRID),
    "no GPT-3": (False, {"gpt2-medium": ""}),
}


def changed(figure: str, change: str) -> dict[str, Any]:
    """The scenario of a figure with a change."""
    made = deepcopy(EXPERIMENTS[figure])
    unlimited, instead = CHANGES[change]
    if unlimited:
        made["cluster"]["gpu_memory_gb"] = 1000
    work = made["workload"]
    for key in ("models", "arriving"):
        if key in work:
            named = [instead.get(model.partition("[")[0], model) for model in work[key]]
            work[key] = [model for model in named if model]
    return made


def models(seeds: int = 5) -> Iterator[str]:
    """Lines of a Markdown table: iteration times under Themis over those with CASSINI, mean and 95 % interval."""
    from weft import api
    from weft_evidence.claims import Runs

    yield "| changed | " + " | ".join(f"{figure}, {how}" for figure in _FIGURES for how in ("mean", "p99")) + " |"
    yield "|---" * 5 + "|"
    for change in CHANGES:
        cells = []
        for figure in _FIGURES:
            stacks = ["themis", "themis+cassini"]
            runs = Runs(api.compare(changed(figure, change), stacks, seeds, workers=2).runs)
            for metric in ("iteration_mean_s", "iteration_p99_s"):
                ratio = runs.ratio("themis", "themis+cassini", metric)
                low, high = (f"{end:.2f}" if end is not None else "-" for end in ratio.ci95)
                cells.append(f"{ratio.value:.2f} [{low}, {high}]")
        yield f"| {change} | {' | '.join(cells)} |"


_FIGURES = ("figure-11", "figure-13")


def _pair(compute_ms: float, comm_ms: float, gbps: float = 45.0, shift_ms: float = 60.0) -> Snapshot:
    """Two equal jobs, the second one shifted."""
    job = Traced("a", compute_ms, comm_ms, gbps)
    return Snapshot((job, replace(job, name="b", shift_ms=shift_ms)), SNAPSHOTS[4].score, False)


# Readings of snapshot 4, and how many times an iteration sends: the circle of one of them says the rest.
READINGS: dict[str, tuple[Snapshot, int]] = {
    "as the claims have it": (_pair(126, 133), 1),
    "order: the first job is shifted": (_pair(126, 133, shift_ms=-60.0 % 259), 1),
    "direction: brought forward by 60 ms": (_pair(126, 133, shift_ms=259 - 60.0), 1),
    "60 degrees of the circle": (_pair(126, 133, shift_ms=60 / 360 * 259), 1),
    "phase: the other sends first": (_pair(126, 133, shift_ms=60.0 + 126), 1),
    "two workers each": (_pair(126, 133 / 1.5), 1),
    "12 workers each": (_pair(126, 133 / 1.5 * 11 / 6), 1),
    "period: sends 133 of 120 ms at best, so twice in 259": (_pair(63, 66.5), 2),
    "twice in 240 ms, 75 ms each (shift and score fitted)": (_pair(45, 75), 2),
    "computes 60 ms, sends 140 at 37.5 Gbit/s (shift, score, Themis' time fitted)": (_pair(60, 140, 37.5), 1),
}


def snapshot_4(_: int = 0) -> Iterator[str]:
    """Lines of a Markdown table: scores and communication times of each reading; printed are 0.8, 164 and 180, 210."""
    from weft.policies.interleave.cassini.rotate import score_at

    yield "| reading | best score, at ms | score at the printed shift | unshifted | ms so shifted | ms in step |"
    yield "|---|---|---:|---:|---:|---:|"
    for reading, (snapshot, times) in READINGS.items():
        found = shifted(snapshot)
        at = [job.shift_ms / 1e3 for job in snapshot.jobs]
        score = score_at(found.circles, CAPACITY_GBPS, at, found.periods)
        ours, together = (played(snapshot, how, as_published=how)["jobs"]["a"]["comm_ms"] for how in (True, False))
        best = f"{found.rotation.score:.3f} at {1e3 * found.rotation.shifts_s[1]:.0f}"
        cells = (f"{score:.3f}", f"{found.unshifted:.3f}", f"{times * ours:.0f}", f"{times * together:.0f}")
        yield f"| {reading} | {best} | {' | '.join(cells)} |"


STUDIES: dict[str, Callable[[int], Iterator[str]]] = {"models": models, "snapshot_4": snapshot_4}


def main() -> None:
    """Print the table that is asked for."""
    from weft.runs.kept import kept

    name, seeds = (sys.argv[1:2] or ["snapshot_4"])[0], sys.argv[2:3]
    if name not in STUDIES:
        raise SystemExit(f"there is no study {name}; choose one of {', '.join(STUDIES)}")
    with kept():
        for line in STUDIES[name](int(seeds[0]) if seeds else 5):
            print(line, flush=True)


if __name__ == "__main__":
    main()
