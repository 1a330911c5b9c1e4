"""Where AdaDUAL gains and where it does not, and which kappa is best: sweeps around the Ada-SRSF experiment.

Each sweep varies one thing and compares stacks seed by seed. Jobs of given message sizes are profile files written to a
folder of the caller's. `python -m weft_evidence.ada_srsf.experiments` runs them and draws the pictures in docs/papers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.model.units import K_WAY_B_S_PER_BYTE, K_WAY_ETA_S_PER_BYTE
from weft.scenario.problems import read_toml
from weft.scenario.shipped import scenario_path
from weft_evidence.claims import Measured, Runs

SIZES = {1: 80.0, 2: 14.0, 4: 26.0, 8: 30.0, 16: 8.0, 32: 2.0}  # GPUs of the paper's jobs
B, ETA = K_WAY_B_S_PER_BYTE, K_WAY_ETA_S_PER_BYTE
LOAD = 1.5  # offered, where a sweep does not vary it
PACES = ("srsf-1", "ada-srsf", "srsf-2")
RATIO = 16.0  # between message sizes, where the first sweep shows a gain
KAPPAS = tuple(f"ada-srsf[place=lwf:{k}]" for k in (1, 2, 4, 8, 16))


@dataclass(frozen=True)
class Point:
    """One setting of a sweep and its scenario."""

    label: str
    x: float
    scenario: dict[str, Any]


@dataclass(frozen=True)
class Sweep:
    """What is varied, the stacks compared (ratios are to the first), and the points, given a folder for profiles."""

    title: str
    x: str
    stacks: tuple[str, ...]
    points: Callable[[Path], Iterator[Point]]


def message_model(folder: Path, megabytes: float, compute_s: float = 0.08) -> str:
    """The path of a model with one message of so many MB and so much computing per iteration."""
    path = folder / f"message-{megabytes:g}.json"
    measurement = {
        "gpu": "V100", "batch": 16, "forward_s": 0.4 * compute_s, "backward_s": 0.6 * compute_s,
        "gradient_bytes": megabytes * 1e6, "memory_bytes": 3.2e9,
    }  # fmt: skip
    content = {
        "format": "weft-profile", "version": 1, "kind": "measured", "model": path.stem, "measurements": [measurement],
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


def paper_scenario(**changes: Mapping[str, Any]) -> dict[str, Any]:
    """The paper's scenario with some tables changed."""
    scenario = deepcopy(read_toml(scenario_path("ada-srsf-16gb")))
    for table, values in changes.items():
        scenario[table] = {**scenario.get(table, {}), **values}
    return scenario


def drawn(models: Sequence[str] = (), load: float = LOAD, **changes: Mapping[str, Any]) -> dict[str, Any]:
    """160 jobs of the paper's sizes, with its models or others, a quarter as long, arriving by load."""
    scenario = paper_scenario(**changes)
    scenario["workload"] = {
        "source": "poisson", "jobs": 160, "load": load, "models": list(models) or scenario["workload"]["models"],
        "gpus": SIZES, "iterations": (250, 1500),
    }  # fmt: skip
    return scenario


def _by_ratio(folder: Path) -> Iterator[Point]:
    big = message_model(folder, 400)
    for ratio in (1.25, 2.0, 2.5, 3.0, 4.0, 8.0, 16.0, 64.0):
        yield Point(f"{ratio:g}", ratio, drawn((big, message_model(folder, 400 / ratio))))


def _papers_models(folder: Path) -> list[str]:
    return []  # those of the scenario


def _two_models(folder: Path) -> list[str]:
    return [message_model(folder, 400), message_model(folder, 400 / RATIO)]


def _by_eta(models: Callable[[Path], list[str]]) -> Callable[[Path], Iterator[Point]]:
    def points(folder: Path) -> Iterator[Point]:
        for part in (0.0, 0.14, ETA / B, 0.55, 1.1):
            yield Point(f"{part:.3g}", part, drawn(models(folder), network={"eta_s_per_byte": part * B}))

    return points


def _by_load(models: Callable[[Path], list[str]]) -> Callable[[Path], Iterator[Point]]:
    def points(folder: Path) -> Iterator[Point]:
        for load in (0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0):
            yield Point(f"{load:g}", load, drawn(models(folder), load))

    return points


def _by_limit(folder: Path) -> Iterator[Point]:
    """Messages of 400, 120, 36 and 11 MB: each meets ones more than three times as large."""
    models = [message_model(folder, size) for size in (400, 120, 36, 11)]
    for part in (0.0, ETA / B, 1.0):
        yield Point(f"{part:.3g}", part, drawn(models, network={"eta_s_per_byte": part * B}))


def _by_shape(folder: Path) -> Iterator[Point]:
    for servers, gpus in ((32, 2), (16, 4), (8, 8), (4, 16)):
        yield Point(f"{servers} x {gpus}", gpus, drawn(cluster={"servers": servers, "gpus_per_server": gpus}))


def _by_network(folder: Path) -> Iterator[Point]:
    for times in (1.0, 4.0, 16.0, 64.0):
        network = {"b_s_per_byte": B / times, "eta_s_per_byte": ETA / times}
        yield Point(f"{10 * times:g}", times, drawn(network=network))


def _by_memory(folder: Path) -> Iterator[Point]:
    for memory_gb in (8.0, 16.0, 24.0, 32.0, 64.0):
        yield Point(f"{memory_gb:g}", memory_gb, drawn(cluster={"gpu_memory_gb": memory_gb}))


def _by_overlap(folder: Path) -> Iterator[Point]:
    for overlap in (False, True):
        label = "layer-wise" if overlap else "at the end"
        yield Point(label, float(overlap), paper_scenario(workload={"overlap": overlap}))


def _by_sharing(folder: Path) -> Iterator[Point]:
    yield Point("k-way", 0.0, paper_scenario())
    scenario = paper_scenario()
    scenario["network"] = {"sharing": "max-min"}
    yield Point("max-min", 1.0, scenario)


SWEEPS: dict[str, Sweep] = {
    "ratio": Sweep("Ratio of message sizes", "larger message / smaller message", PACES, _by_ratio),
    "eta": Sweep("Penalty of contention, the paper's models", "eta / b", PACES, _by_eta(_papers_models)),
    "eta-16": Sweep("Penalty of contention, messages 16 : 1", "eta / b", PACES, _by_eta(_two_models)),
    "load": Sweep("Load, the paper's models", "offered load", PACES, _by_load(_papers_models)),
    "load-16": Sweep("Load, messages 16 : 1", "offered load", PACES, _by_load(_two_models)),
    "limit": Sweep("Transfers on a server", "eta / b", ("srsf-1", "ada-srsf", "ada-srsf:3", "ada-srsf:4"), _by_limit),
    "shape": Sweep("Shape of the cluster", "GPUs of a server", KAPPAS, _by_shape),
    "network": Sweep("Speed of the network", "Gbit/s", KAPPAS, _by_network),
    "memory": Sweep("Memory of a GPU", "GB", PACES, _by_memory),
    "overlap": Sweep("When gradients are sent", "", ("srsf-1", "ada-srsf", "srsf-2", "srsf-3"), _by_overlap),
    "sharing": Sweep("How links are shared", "", ("srsf-1", "ada-srsf", "srsf-2", "srsf-3"), _by_sharing),
}  # fmt: skip


def run_sweep(
    sweep: Sweep, folder: Path, seeds: int, workers: int | None = None, most: int | None = None
) -> list[dict[str, Any]]:
    """Rows: the point, the stack, its mean JCT and the ratio to the first stack, both with intervals."""
    from weft import api

    rows: list[dict[str, Any]] = []
    for point in list(sweep.points(folder))[:most]:
        runs = Runs(api.compare(point.scenario, sweep.stacks, seeds, workers=workers).runs)
        for stack in sweep.stacks:
            jct = runs.metric(stack, "jct_mean_s")
            ratio = runs.ratio(stack, sweep.stacks[0], "jct_mean_s")
            rows.append({"point": point.label, "x": point.x, "stack": stack, "jct_s": _row(jct), "ratio": _row(ratio)})
    return rows


def _row(measured: Measured) -> list[float | None]:
    return [measured.value, *measured.ci95]
