"""Claims that need no cluster: four jobs on four nodes (introduction), and the sizes of Table III.

Four jobs that share a link take longer than one whatever the model, so that is no claim."""

from __future__ import annotations

from functools import partial

from weft_evidence.checks import Check, nearly, on_that_side
from weft_evidence.claims import Kind, Measured, Runs

# Table III: megabytes of a model; it is counted from the architecture here
SIZES = {"vgg16": 526.4, "resnet50": 99.2, "inception-v3": 103.0, "lstm-ptb": 251.8}
ALONE_S, FOUR_S = 295.0, 675.0  # introduction: one job of four GPUs, and four of them on the same nodes
B, ETA = 8.56e-10, 2.35e-10  # of the authors' code


def together(model: str, jobs: int) -> float:
    """Seconds of 100 iterations of equal jobs, all of which start at once and use the same four nodes."""
    from weft import api
    from weft.workload import zoo

    profile = zoo.profile(f"{model}@ada-srsf", 4)
    nodes = {f"node{n}": 1 for n in range(4)}
    phases = [{"compute_s": profile.compute_s}, {"bytes": profile.message_bytes, "flows": nodes}]
    run = api.replay(
        {
            "links": {name: {"gbps": 10} for name in nodes},
            "network": {"sharing": "k-way", "b_s_per_byte": B, "eta_s_per_byte": ETA},
            "jobs": [{"id": f"job{n}", "iterations": 100, "phases": phases} for n in range(jobs)],
        }
    )
    seconds: float = run["makespan_s"]
    return seconds


def _ratio(model: str, runs: Runs) -> Measured:
    return Measured(together(model, 4) / together(model, 1))


def _size(model: str, runs: Runs) -> Measured:
    from weft.workload import zoo

    return Measured(zoo.profile(model, 4).message_bytes / 1e6)


def checks() -> dict[str, Check]:
    """By name."""
    return {
        **{
            f"introduction.four-jobs.{model}": Check(
                f"{model}: four jobs of four GPUs on the same nodes over one alone (the paper does not name the model)",
                FOUR_S / ALONE_S, "x", (), partial(_ratio, model), on_that_side(1.0), seeded=False,
                kind=Kind.CONSTRUCTION,
            )
            for model in SIZES
        },
        **{
            f"table-iii.{model}.size": Check(
                f"{model}: size of the model, counted from its architecture", megabytes, "MB", (),
                partial(_size, model), nearly, seeded=False,
            )
            for model, megabytes in SIZES.items()
        },
    }  # fmt: skip
