"""Step times of MLPerf Training 5.1: what the roofline and the layouts of weft make of them.

A row is a submission (submitter, system, benchmark): the median step of its successful runs. Its configuration
becomes a named layout, its machines a cluster: servers of as many GPUs as there are, those of an NVLink domain as one
server, joined by a network without oversubscription. Then one step is played, alone. constants.toml says what was
fitted to which rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.workload.zoo.rates import Reached, reached
from weft_evidence.measured import Row, Say
from weft_evidence.measured.mlperf51.cases import Case, cases
from weft_evidence.measured.mlperf51.predict import step_s

TITLE = "Steps of MLPerf Training 5.1"
SOURCE = "mlcommons/training_results_v5.1, commit 441d65f4"
KINDS = {
    "llama31_405b": "LLM training",
    "llama31_8b": "LLM training",
    "llama2_70b_lora": "LLM training",
    "flux1": "diffusion",
}


@cache
def given() -> dict[str, Any]:
    """constants.toml."""
    return tomllib.loads((files(__name__) / "constants.toml").read_text("utf-8"))


def _constants() -> dict[str, Any]:
    how = reached()
    told: dict[str, Any] = {row["name"]: getattr(how, row["name"]) for row in given()["constant"]}
    return told | {f"{gpu} {dtype}": value for (gpu, dtype), value in how.efficiency.items()}


CONSTANTS = _constants()


def fitted() -> frozenset[str]:
    """Rows that constants were fitted to."""
    told = given()
    return frozenset([*(row["row"] for row in told["efficiency"]), *told["rules"]["rows"]])


def known(folder: Path) -> list[Case]:
    """The rows of a folder that are transformers."""
    found = [case for case in cases(folder, given()["rules"]) if case.benchmark in KINDS]
    if not found:
        raise InputError(
            f"{folder}: there is no step of a transformer; give runs.csv or summary.csv of MLPerf Training"
        )
    return found


def rows(folder: Path, say: Say, how: Reached | None = None) -> Iterator[Row]:
    """Steps, and how throughput per GPU scales: over that at the smallest size of the same submitter, model and GPU,
    in the same precision."""
    used, series = fitted(), dict[tuple[str, ...], list[tuple[Case, float]]]()
    for case in known(folder):
        say(f"a step of {case.id}")
        seconds = step_s(case, how)
        yield Row(case.id, KINDS[case.benchmark], "s", case.step_s, seconds, case.id in used)
        series.setdefault((case.submitter, case.benchmark, case.gpu, case.dtype), []).append((case, seconds))
    for ordered in (sorted(each, key=lambda pair: pair[0].gpus) for each in series.values()):
        (base, base_s), *others = ordered
        for case, seconds in others:
            if case.gpus > base.gpus:
                measured = case.per_gpu / base.per_gpu
                predicted = measured * (case.step_s / seconds) / (base.step_s / base_s)
                at = f"{case.id}/{case.gpus}-over-{base.gpus}"
                yield Row(at, "scaling", "x", measured, predicted)
