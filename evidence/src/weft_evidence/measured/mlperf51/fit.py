"""Fitting what constants.toml allows to the rows that it names: `python -m weft_evidence.measured.mlperf51.fit DIR`."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.workload.zoo.rates import Reached, reached
from weft_evidence.measured.mlperf51 import given, known
from weft_evidence.measured.mlperf51.cases import Case
from weft_evidence.measured.mlperf51.predict import layout_of, step_s

SOFT = 0.25  # of a range: how far a constant may go from its source before that weighs as much as 5 % of a step
NEAR = 0.05
Key = tuple[str, str]


class Quick:
    """`step_s`, where a pipeline is played once and then follows the formula of its bubble.

    With m micro-batches, p stages and v virtual ones a step takes (m + (p - 1) / v) / p times as long as a micro-batch
    takes through all stages; what the formula misses is a factor for each row, as at the first call.
    """

    def __init__(self) -> None:
        self.factors: dict[str, float] = {}

    def __call__(self, case: Case, how: Reached) -> float:
        lay = layout_of(case)
        if lay.pipeline == 1:
            return step_s(case, how)
        one = replace(lay, pipeline=1, virtual=1, micro_batches=1, data=1, zero=0)
        each = case.batch // (case.data * case.micro_batches)
        gpus = one.workers
        few = replace(case, gpus=gpus, batch=each, nodes=1, domain=gpus, pipeline=1, virtual=1, micro_batches=1)
        bubble = (lay.micro_batches + (lay.pipeline - 1) / lay.virtual) / lay.pipeline
        formula = bubble * step_s(few, how, one)
        if case.id not in self.factors:
            self.factors[case.id] = step_s(case, how) / formula
        return self.factors[case.id] * formula


def with_efficiencies(
    how: Reached, own: Mapping[Key, Case], limits: tuple[float, float], quick_s: Quick
) -> Reached:  # fmt: skip
    """The efficiencies with which each type's own row comes out as measured: time is nearly a line over 1 /
    efficiency."""
    table = dict(how.efficiency)
    for key, case in own.items():
        low, high = (1 / limits[1], 1 / limits[0])
        x = 1 / table.get(key, 0.5)
        for _ in range(6):
            table[key] = 1 / x
            now = quick_s(case, replace(how, efficiency=dict(table)))
            if abs(now / case.step_s - 1) < 1e-3:
                break
            table[key] = 1 / (x * 1.1)
            slope = (quick_s(case, replace(how, efficiency=dict(table))) - now) / (0.1 * x)
            x = min(max(x + (case.step_s - now) / slope, low), high)
        table[key] = 1 / x
    return replace(how, efficiency=table)


def fit(folder: Path) -> tuple[Reached, dict[str, float]]:
    """Constants and efficiencies, and by row how far its step is off with them."""
    from scipy.optimize import least_squares

    told = given()
    by_id = {case.id: case for case in known(folder)}
    own = {(row["gpu"], row["precision"]): by_id[row["row"]] for row in told["efficiency"]}
    others = [by_id[name] for name in told["rules"]["rows"]]
    limits = (told["rules"]["low"], told["rules"]["high"])
    spans: Sequence[Mapping[str, Any]] = told["constant"]
    state, quick_s = {"how": reached()}, Quick()

    def made(x: Sequence[float]) -> Reached:
        plain = {row["name"]: row["low"] + v * (row["high"] - row["low"]) for row, v in zip(spans, x, strict=True)}
        state["how"] = with_efficiencies(replace(state["how"], **plain), own, limits, quick_s)
        return state["how"]

    start = [(row["prior"] - row["low"]) / (row["high"] - row["low"]) for row in spans]

    def off(x: Sequence[float]) -> list[float]:
        how = made(x)
        misses = [math.log(quick_s(case, how) / case.step_s) for case in (*others, *own.values())]
        return [*misses, *(NEAR * (v - s) / SOFT for v, s in zip(x, start, strict=True))]

    found = least_squares(off, start, bounds=(0, 1), diff_step=0.05, xtol=1e-2, max_nfev=6)
    how = made(list(found.x))
    return how, {case.id: quick_s(case, how) / case.step_s - 1 for case in (*others, *own.values())}


if __name__ == "__main__":
    how, misses = fit(Path(sys.argv[1]))
    print("\n".join(f"{row['name']} = {getattr(how, row['name']):.3g}" for row in given()["constant"]))
    print("\n".join(f"{gpu} {dtype} = {value:.3f}" for (gpu, dtype), value in how.efficiency.items()))
    print("\n".join(f"{100 * miss:+.1f} %  {name}" for name, miss in misses.items()))
