"""Numbers and pictures of docs/papers/ada-srsf.md: python -m weft_evidence.ada_srsf.experiments [SWEEP...] runs the
sweeps and draws them.

Without names all sweeps are run (about half an hour on two cores), and `weft reproduce` as well (by the name figures).
The numbers go to docs/papers/ada-srsf/sweeps.json and claims.json; sweeps that are not named keep theirs. `draws`
alone prints where published numbers lie among single draws of the jobs (60 draws, about 12 minutes of one core).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from weft.policies.place import lwf
from weft_evidence.pages import ROOT, asked_for, rounded, save_figure, write_claims

if TYPE_CHECKING:
    from weft.model.plan import Placement
    from weft.model.view import ClusterView, JobView

FOLDER = ROOT / "docs" / "papers" / "ada-srsf"
NUMBERS = FOLDER / "sweeps.json"
SEEDS = 10
DRAWS = 60  # as many as the authors' program was run with
THEIR_COMM_S_PER_BYTE = 7.8125e-9  # what their account of the work left charges: 1 Gbit/s
# Scenario, stack, whether LWF and LS count the work left as the authors do, how many times the bandwidth there is (what
# asking makes of it in the authors' program, by placement), and the row of the paper.
ROWS = (
    ("ada-srsf", "srsf-1", False, 1.0, "SRSF(1)"), ("ada-srsf", "srsf-1", True, 1.0, "SRSF(1)"),
    ("ada-srsf", "ada-srsf[place=first-fit:shared]", False, 1.0, "FF"),
    ("ada-srsf", "ada-srsf[place=first-fit:shared]", False, 2.28, "FF"),
    ("ada-srsf", "ada-srsf[place=ls]", False, 1.0, "LS"), ("ada-srsf", "ada-srsf[place=ls]", True, 1.0, "LS"),
    ("ada-srsf", "ada-srsf[place=ls]", True, 2.53, "LS"),
    ("ada-srsf-16gb", "ada-srsf[place=ls]", False, 1.0, "LS"), ("ada-srsf-16gb", "srsf-3", False, 1.0, "SRSF(3)"),
)  # fmt: skip


def main() -> None:
    """Run what is asked for and draw everything there are numbers of."""
    from weft_evidence.ada_srsf.sweeps import SWEEPS, run_sweep

    if sys.argv[1:2] == ["draws"]:
        for line in draws(*map(int, sys.argv[2:])):
            print(line, flush=True)
        return

    FOLDER.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, Any] = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
    asked = asked_for([*SWEEPS, "figures"])
    for name in [n for n in asked if n in SWEEPS]:
        with TemporaryDirectory() as folder:
            numbers[name] = rounded(run_sweep(SWEEPS[name], Path(folder), SEEDS))
        NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
        print(f"ran {name}", file=sys.stderr)
    if "figures" in asked:
        _figures()
    for name, rows in numbers.items():
        _draw(name, rows)
        print(f"\n{SWEEPS[name].title}\n{table(rows)}")


def their_workload(b_s_per_byte: float) -> Callable[[ClusterView, JobView, Placement], float]:
    """The work left of a job as the authors' code counts it: 1 Gbit/s prices, whatever a byte takes, and not times the
    number of GPUs."""
    from weft.model.view import Spread

    def work(view: ClusterView, job: JobView, gpus: Placement) -> float:
        estimate = view.estimate(job.job, len(gpus), Spread.of(view.cluster, gpus))
        comm_s = estimate.comm_s * THEIR_COMM_S_PER_BYTE / b_s_per_byte
        return view.iterations_left(job.id) * (estimate.compute_s + comm_s)

    return work


def draws(n: int = DRAWS) -> Iterator[str]:
    """Lines of a Markdown table: mean and deviation over draws of the jobs, the least and the largest, by how many
    deviations the published number is above the mean, and the percent of the draws that are below it."""
    from weft import api
    from weft.results.compare import flat_metrics
    from weft.results.metrics import summary
    from weft.scenario.problems import read_toml
    from weft.scenario.shipped import scenario_path
    from weft_evidence.ada_srsf import COLUMNS, TABLE_IV, TABLE_V

    yield "| scenario, stack | work left | bandwidth | column | published | mean (deviation) | range | apart | below |"
    yield "|---|---|---:|---|---:|---:|---:|---:|---:|"
    for scenario, stack, theirs, bandwidth, row in ROWS:
        given = read_toml(scenario_path(scenario))
        given["network"] |= {key: given["network"][key] / bandwidth for key in ("b_s_per_byte", "eta_s_per_byte")}
        counted = their_workload(given["network"]["b_s_per_byte"]) if theirs else lwf.workload_gpu_s
        with patch.object(lwf, "workload_gpu_s", counted):
            runs = api.compare(given, [stack], range(n), workers=1).runs
        metrics = [flat_metrics(summary(run)) for run in runs]
        for (_, metric, words, _, factor), told in zip(COLUMNS, {**TABLE_IV, **TABLE_V}[row][1:], strict=True):
            found = np.array([each[metric] for each in metrics], dtype=np.float64) * factor
            mean, apart = found.mean(), found.std(ddof=1)
            where = f"| {scenario}, {stack} | {'theirs' if theirs else 'the paper'} | {bandwidth:g} | {words} "
            spread = f"| {mean:,.1f} ({apart:,.1f}) | {found.min():,.1f} to {found.max():,.1f} "
            place = f"| {(told - mean) / apart:+.2f} | {100.0 * (found < told).mean():.0f} % |"
            yield f"{where}| {told:,.1f} {spread}{place}"


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: mean JCT of the first stack, ratios of the others with their intervals."""
    stacks = list(dict.fromkeys(row["stack"] for row in rows))
    lines = ["| | " + " | ".join([f"{stacks[0]}, mean JCT", *stacks[1:]]) + " |", "|---" * (len(stacks) + 1) + "|"]
    for point in dict.fromkeys(row["point"] for row in rows):
        mine = {row["stack"]: row for row in rows if row["point"] == point}
        cells = [f"{mine[stacks[0]]['jct_s'][0]:,.0f} s"]
        cells += ["{:.3f} [{:.3f}, {:.3f}]".format(*mine[stack]["ratio"]) for stack in stacks[1:]]
        lines.append(f"| {point} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _draw(name: str, rows: list[dict[str, Any]]) -> None:
    from weft.results.pictures.style import DASHES, MUTED, PALETTE, house_style, new_figure, tidy_axes
    from weft_evidence.ada_srsf.sweeps import SWEEPS

    with house_style():
        figure, (axes,) = new_figure(6.4, 3.4)
        stacks = list(dict.fromkeys(row["stack"] for row in rows))
        points = list(dict.fromkeys(row["point"] for row in rows))
        for i, stack in enumerate(stacks):
            mine = [row["ratio"] for row in rows if row["stack"] == stack]
            place = [points.index(row["point"]) + 0.06 * (i - len(stacks) / 2) for row in rows if row["stack"] == stack]
            colour = PALETTE[i % len(PALETTE)]
            axes.plot(place, [r[0] for r in mine], color=colour, linestyle=DASHES[i % len(DASHES)], label=stack, marker="o", markersize=3.5)  # fmt: skip # noqa: E501
            for at, (_, low, high) in zip(place, mine, strict=True):
                if low is not None:
                    axes.plot([at, at], [low, high], color=colour, linewidth=1.2)
        axes.axhline(1.0, color=MUTED, linewidth=0.8)
        axes.set_xticks(range(len(points)), points)
        axes.legend(fontsize=8)
        tidy_axes(axes, SWEEPS[name].title, SWEEPS[name].x, f"mean JCT over {stacks[0]}")
        save_figure(figure, FOLDER / f"{name}.svg")


def _figures() -> None:
    from weft_evidence.ada_srsf import MEMORY, reproduce
    from weft_evidence.claims import Request

    result = reproduce(Request())
    write_claims(result.claims, FOLDER)
    for picture in result.pictures:
        number = picture.caption.split(":")[0].split()[-1]
        limit = next((f"-{name}" for name, _, words in MEMORY if words in picture.caption), "")
        save_figure(picture.draw(), FOLDER / f"figure-{number}{limit}.svg")


if __name__ == "__main__":
    main()
