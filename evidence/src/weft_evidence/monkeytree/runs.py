"""MonkeyTree's sweep of loads: 16 ToRs of 64 GPUs under 16 spines, one port of 400 Gbit/s per GPU; systems by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.runs.run import Task, run_grid
from weft.scenario.build import Layers
from weft_evidence.claims import Measured, Request
from weft_evidence.monkeytree.jobs import state_s
from weft_evidence.monkeytree.played import Outcome, play, task_part
from weft_evidence.settings import own, scenario_of, stack_of

LOADS = (0.7, 0.8, 0.9, 1.0)
REPETITIONS, QUICK_REPETITIONS, JOBS, QUICK_JOBS = 3, 3, 1000, 150
QUICK_SHAPE = 8, 32, 8  # ToRs, GPUs of each, spines: a quarter of the GPUs, 4:1 as well
PAUSE_S = 10.0
_STAY = "monkeytree:limit=1000000"  # the same queue and best fit, and nobody moves
SYSTEMS = {
    "ecmp": f"{_STAY}[pace=fair,route=ecmp]",
    "crux-released": f"{_STAY}[pace=fair,route=crux-released]",
    "crux": f"{_STAY}[pace=crux,route=crux]",
    "sglb": f"{_STAY}[pace=fair,route=sglb]",
    "perfect": f"{_STAY}[pace=fair,route=edge-colouring]",
    "spray": f"{_STAY}[pace=fair,route=spray]",
    "monkeytree+ecmp": "monkeytree[pace=fair,route=ecmp]",
    "monkeytree+crux-released": "monkeytree[pace=fair,route=crux-released]",
    "monkeytree+sglb": "monkeytree[pace=fair,route=sglb]",
    "monkeytree": "monkeytree[pace=fair,route=edge-colouring]",
}  # fmt: skip


def scenario(tors: int = 16, per_tor: int = 64, spines: int = 16) -> dict[str, Any]:
    """The cluster. Neighbours in a block talk at the speed of a port, as they do through the leaf. The jobs are drawn
    by jobs.py; what stands here of them is not used."""
    return {
        "cluster": {
            "topology": "leaf-spine", "racks": tors, "servers_per_rack": per_tor // 8, "gpus_per_server": 8,
            "nics_per_server": 8, "nic_gbps": 400.0, "intra_server_gbps": 400.0, "spines": spines,
            "oversubscription": per_tor / spines, "gpu_memory_gb": 1000.0,
        },
        "workload": {"source": "poisson", "jobs": 1, "iterations": [1, 1]},
        "run": {"restart_s": PAUSE_S + state_s(), "exact": False},
    }  # fmt: skip


@dataclass
class Sweep:
    """Runs by load and system, each done once, when first asked for."""

    request: Request
    done: dict[tuple[float, str], list[Outcome]] = field(default_factory=dict)

    @property
    def repetitions(self) -> list[int]:
        """The seeds."""
        return [n + 1 for n in self.request.numbers(REPETITIONS, QUICK_REPETITIONS)]

    def need(self, wanted: Sequence[tuple[float, str]]) -> None:
        """Do what is missing of these together."""
        request = self.request
        missing = [key for key in dict.fromkeys(wanted) if key not in self.done]
        jobs = own(request, "sweep.jobs", QUICK_JOBS if request.quick else JOBS)
        given = scenario_of(request, scenario(*QUICK_SHAPE) if request.quick else scenario())
        tasks = [
            Task(given, Layers(stack=stack_of(request, SYSTEMS[name])), n, part=task_part(load, n, jobs))
            for load, name in missing
            for n in self.repetitions
        ]
        found = run_grid(tasks, request.workers, play, request.on_progress)
        each = len(self.repetitions)
        for i, key in enumerate(missing):
            self.done[key] = [Outcome.of(said) for said in found[i * each : (i + 1) * each]]

    def of(self, load: float, name: str) -> list[Outcome]:
        """A system at a load, repetition by repetition."""
        self.need([(load, name)])
        return self.done[load, name]

    def numbers(self, load: float, name: str, number: str) -> list[float]:
        """A number at each repetition."""
        return [outcome.number(number) for outcome in self.of(load, name)]

    def pooled(self, load: float, name: str, number: str) -> Measured:
        """Over the jobs of all repetitions together, with the interval over repetitions."""
        found = self.of(load, name)
        together = Outcome(np.concatenate([one.slowdown for one in found]), sum(one.moves for one in found), 0.0)
        interval = Measured.over_seeds([one.number(number) for one in found]).ci95
        return Measured(together.number(number), interval)
