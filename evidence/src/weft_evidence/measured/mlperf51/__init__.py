"""Step times of MLPerf Training 5.1: what the roofline and the layouts of weft make of them.

A row is a submission (submitter, system, benchmark): the median step of its successful runs. Its configuration
becomes a named layout, its machines a cluster: servers of as many GPUs as there are, those of an NVLink domain as one
server, joined by a network without oversubscription. Then one step is played, alone. constants.toml says what was
fitted to which rows.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.workload.graphs.layout import overlaps, replace_setting
from weft.workload.zoo.rates import Reached, reached
from weft_evidence.measured import Row, Say
from weft_evidence.measured.mlperf51.cases import Case, cases
from weft_evidence.measured.mlperf51.predict import at_measured, layout_of, step_s

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


def what_if(folder: Path, by: str, say: Say) -> dict[str, dict[str, float]]:
    """Of each pipeline: its step over one on an endless network (`network`); the same with the constants of networks
    at either end of their ranges and efficiencies that still give the measured step; and with each overlap turned off,
    or on where it is off, over the step as it is."""
    if by != "network":
        raise InputError(f"--what-if {by}: of these steps there is network")
    ends = {row["name"]: (row["low"], row["high"]) for row in given()["constant"]}
    own = {(row["gpu"], row["precision"]): row["row"] for row in given()["efficiency"]}
    cases_, found = {case.id: case for case in known(folder)}, {}
    for case in cases_.values():
        if case.pipeline == 1:
            continue
        say(f"steps of {case.id}")
        now, lay = step_s(case), layout_of(case)
        told = {"network": now / step_s(case, network=False)}
        for name, side, other in (("least", 1, 0), ("most", 0, 1)):
            how = replace(reached(), network=ends["network"][side], exposed=ends["exposed"][other])
            base = cases_.get(own.get((case.gpu, case.dtype), ""), case)
            how = at_measured(how, {(case.gpu, case.dtype): base}, _limits())
            told[f"network, {name}"] = step_s(case, how) / step_s(case, how, network=False)
        for name, on in overlaps(lay).items():
            other_s = step_s(case, layout=replace_setting(lay, name, not on))
            told[f"{'without' if on else 'with'} {name}"] = other_s / now
        found[case.id] = told
    return found


def _limits() -> tuple[float, float]:
    rules = given()["rules"]
    return rules["low"], rules["high"]


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
