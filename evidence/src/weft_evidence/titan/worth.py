"""What two deviations from Titan's set-up are worth: python -m weft_evidence.titan.experiments worth [JOBS]

The paper's cluster is a fat tree of 64 pods (4 edge switches with 2 machines each, 4 aggregation switches, 64 cores in
all); ours is a leaf-spine of 64 racks of 8. Its control is a leaf-spine of 256 racks of 2, which has the tree's racks
and neither its pods nor its paths. The jobs of the trace that [11] published have one of six models each; ours draws
four. Its control draws five of the six, and an LSTM for DeepSpeech2, which the zoo lacks, for the jobs that ours has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from weft import api
from weft_evidence.claims import Measured
from weft_evidence.titan.runs import SHORT, STACKS, TraceRun, measured, scenario

SEEDS = (0, 1, 2)
_MACHINES = {"gpus_per_server": 8, "nic_gbps": 100}
TREE = {"topology": "fat-tree", "pods": 64, "racks": 256, "servers_per_rack": 2, "cores": 64, **_MACHINES}
PAIRS = {"topology": "leaf-spine", "racks": 256, "servers_per_rack": 2, **_MACHINES}
MODELS = ["bert-base", "lstm-ptb", "gpt2", "inception-v3", "resnet50", "vgg16"]
TRACE = {"trace": "elasticflow/sim", "models": ["lstm-ptb"]}  # models are drawn for jobs whose own is unknown
ROWS: dict[str, dict[str, Any]] = {
    "as the claims have it": {},
    "the paper's tree": {"cluster": TREE},
    "its control: 256 racks of 2": {"cluster": PAIRS},
    "the trace's models": {"workload": TRACE},
    "its control: six models, drawn": {"workload": {"models": MODELS}},
}
METRICS = {"machines": "used", "bytes across": "overhead_gb", "fragmentation": "fragmentation"}


def changed(row: str, jobs: int) -> dict[str, Any]:
    """Trace 1, its first jobs, with what a row changes."""
    made = scenario("trace-1", quick=False)
    made["workload"] |= {"jobs": jobs} | ROWS[row].get("workload", {})
    made["cluster"] = ROWS[row].get("cluster", made["cluster"])
    return made


def worth(jobs: int | None, rows: Sequence[str] = tuple(ROWS), seeds: Sequence[int] = SEEDS) -> Iterator[str]:
    """Lines of a Markdown table: what Titan saves over the others, mean and 95 % interval over seeds."""
    others = [name for name in STACKS if name != "titan"]
    yield "| changed | over | " + " | ".join(f"{what} saved, %" for what in METRICS) + " | times the profit |"
    yield "|---" * (3 + len(METRICS)) + "|"
    for row in rows:
        found = _runs(changed(row, jobs or SHORT["alone"]), seeds)
        for other in others:
            cells = [_over([_saved(each, other, f"{key}@arrivals") for each in found]) for key in METRICS.values()]
            cells.append(_over([_times(each, other) for each in found]))
            yield f"| {row} | {other} | {' | '.join(cells)} |"


def _runs(made: dict[str, Any], seeds: Sequence[int]) -> list[dict[str, TraceRun]]:
    runs = api.compare(made, list(STACKS.values()), list(seeds), workers=2).runs
    by = {(run.stack, run.seed): measured(run) for run in runs}
    return [{name: by[stack, seed] for name, stack in STACKS.items()} for seed in seeds]


def _saved(found: dict[str, TraceRun], other: str, metric: str) -> float:
    return 100.0 * (1.0 - found["titan"].number(metric) / max(found[other].number(metric), 1e-12))


def _times(found: dict[str, TraceRun], other: str) -> float:
    metric = "total_profit@arrivals"
    return found["titan"].number(metric) / found[other].number(metric)


def _over(values: Sequence[float]) -> str:
    seen = Measured.over_seeds(list(values))
    if len(values) < 2:
        return f"{seen.value:.3g}"
    low, high = (f"{end:.3g}" for end in seen.ci95 if end is not None)
    return f"{seen.value:.3g} [{low}, {high}]"
