"""What each rule of the stack `weft` is worth: one rule taken away at a time (docs/stack-weft-rules.md).

python -m weft_evidence.weft.ablation [demo|busy|ada-srsf|dally]...

Prints mean completion times over those of the stack as it is, and in brackets the stops of a run. The rules were chosen
on these seeds. With WEFT_TRACES the jobs of dally are drawn from the authors' batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import weft
from weft.policies.order.weft import Outlook, Weft
from weft.scenario.problems import read_toml
from weft.scenario.shipped import scenario_path
from weft_evidence.dally.runs import scenario as dally
from weft_evidence.pages import ROOT, asked_for

_DEMO = ROOT / "examples" / "demo.toml"


def _busy(_: int) -> dict[str, Any]:
    given = read_toml(_DEMO)
    given["workload"]["load"] = 1.3
    return given


# Where: the scenario at a seed, and the seeds.
PLACES: dict[str, tuple[Callable[[int], Any], range]] = {
    "demo": (lambda seed: _DEMO, range(1, 6)),
    "busy": (_busy, range(1, 6)),
    "ada-srsf": (lambda seed: scenario_path("ada-srsf"), range(1, 4)),
    "dally": (lambda seed: dally("batch-8", seed, quick=True), range(1, 3)),
}
# What is taken away: whose method, which, and what it answers instead.
RULES: dict[str, tuple[type, str, Callable[..., Any]]] = {
    "every job with a smaller key stops others": (Outlook, "pays", lambda self, job, run_s: True),
    "nobody gives way": (Outlook, "pays", lambda self, job, run_s: False),
    "what a job sends does not count": (Weft, "_iteration_s", lambda self, job: job.job.profile.compute_s),
    "nobody moves": (Weft, "_scattered", lambda self, view, job: False),
    "nobody goes to the front": (Weft, "_due_s", lambda self, job: math.inf),
}


def measured(place: str) -> tuple[float, float]:
    """Mean completion time over the seeds of a place, and stops of a run."""
    scenario, seeds = PLACES[place]
    runs = [weft.simulate(scenario(seed), stack="weft", seed=seed).jobs for seed in seeds]
    means = [float(jobs["jct_s"].mean()) for jobs in runs]  # type: ignore[arg-type]
    return sum(means) / len(means), sum(int(jobs["preemptions"].sum()) for jobs in runs) / len(runs)


def main() -> None:
    """Print one table."""
    places = asked_for(PLACES)
    print("| | " + " | ".join(f"{place}, {PLACES[place][1][0]} to {PLACES[place][1][-1]}" for place in places) + " |")
    print("|---|" + "---:|" * len(places))
    whole = {place: measured(place) for place in places}
    print(
        "| as it is: seconds, stops | " + " | ".join(f"{s:,.1f} ({n:.0f})" for s, n in whole.values()) + " |",
        flush=True,
    )
    for words, (owner, name, instead) in RULES.items():
        with patch.object(owner, name, instead):
            found = {place: measured(place) for place in places}
        cells = [f"{found[place][0] / whole[place][0]:.3f} ({found[place][1]:.0f})" for place in places]
        print(f"| {words} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
