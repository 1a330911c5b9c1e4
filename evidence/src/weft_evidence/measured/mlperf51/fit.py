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
from weft_evidence.measured.mlperf51.predict import Quick, at_measured

SOFT = 0.25  # of a range: how far a constant may go from its source before that weighs as much as 5 % of a step
NEAR = 0.05


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
        state["how"] = at_measured(replace(state["how"], **plain), own, limits, quick_s)
        return state["how"]

    start = [(row["prior"] - row["low"]) / (row["high"] - row["low"]) for row in spans]

    def off(x: Sequence[float]) -> list[float]:
        how = made(x)
        misses = [math.log(quick_s(case, how) / case.step_s) for case in (*others, *own.values())]
        return [*misses, *(NEAR * (v - s) / SOFT for v, s in zip(x, start, strict=True))]

    found = least_squares(off, start, bounds=(0, 1), diff_step=0.05, xtol=1e-2, max_nfev=6)
    made(list(found.x))
    quick_s.factors.clear()  # the formula misses something else with other constants
    how = made(list(found.x))
    return how, {case.id: quick_s(case, how) / case.step_s - 1 for case in (*others, *own.values())}


if __name__ == "__main__":
    how, misses = fit(Path(sys.argv[1]))
    print("\n".join(f"{row['name']} = {getattr(how, row['name']):.3g}" for row in given()["constant"]))
    print("\n".join(f"{gpu} {dtype} = {value:.3f}" for (gpu, dtype), value in how.efficiency.items()))
    print("\n".join(f"{100 * miss:+.1f} %  {name}" for name, miss in misses.items()))
