"""Table I of the Dally paper beside weft's analytical model and the authors' own ASTRA-sim, cell by cell."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

from weft.network.astra import AstraSim
from weft.network.cost import DALLY_TABLE_I, Shape
from weft_evidence.calibration import slowed, waited_s
from weft_evidence.dally.latency import TIERS
from weft_evidence.dally.shapes import (
    ASTRA_SIM,
    DALLY_MACHINE,
    DALLY_NETWORK,
    DALLY_RACK,
    delays,
    layer_files,
    layered_profile,
)

# What the authors' code multiplies each model's computing by (IntraJobScheduler.astra_sim).
THEIR_FACTORS = {
    "vgg11": 0.01549, "alexnet": 0.0199, "mobilenet-v3": 0.00639, "resnet18": 0.001223, "resnet50": 0.03395,
    "bert-large": 0.0001121,
}  # fmt: skip
PLACES = {
    "machine": (DALLY_MACHINE, ((4, 4),)),
    "rack": (DALLY_RACK, ((4, 4),)),
    "network": (DALLY_NETWORK, ((4,), (4,))),
}
NEAR = 0.35


def ours(model: str, where: str, shrinking: bool | None = None) -> float:
    """Percent of computing that weft's model exposes, with the authors' factors, delays and settings. `shrinking` is
    what their two system files differ in (3dim_sys_ring.txt has it); None: by the file of that tier."""
    hierarchy, shape = PLACES[where]
    hierarchy = hierarchy if shrinking is None else replace(hierarchy, shrinking=shrinking)
    profile = slowed(layered_profile(model, 8), THEIR_FACTORS[model])
    return 100.0 * waited_s(profile, hierarchy, shape, delays(model)) / profile.compute_s


def theirs(model: str, where: str, shape: Shape | None = None) -> float:
    """The same by the program that WEFT_ASTRA_SIM names, from the authors' layer file, or as it was recorded."""
    program, file = os.environ.get("WEFT_ASTRA_SIM"), layer_files().get(model)
    if program is None or file is None:
        row = ASTRA_SIM[model]
        return 100.0 * {"machine": row.machine, "rack": row.rack[0], "network": row.network[0]}[where]
    hierarchy, usual = PLACES[where]
    asked = AstraSim(program, hierarchy)
    with tempfile.TemporaryDirectory(prefix="weft-astra-") as name:
        folder = Path(name)
        command = asked.write(folder, layered_profile(model, 8), model, shape or usual)
        (folder / "workload.txt").write_bytes(file.read_bytes())
        compute_s, exposed_s = asked.answer([*command, f"--compute-scale={THEIR_FACTORS[model]}"], folder)
    return 100.0 * exposed_s / compute_s


def table_i() -> str:
    """All 18 cells in percent of computing, and how many are near the published ones."""
    source = "WEFT_ASTRA_SIM" if "WEFT_ASTRA_SIM" in os.environ else "recorded"
    lines = [
        f"| model | tier | published | weft | ASTRA-sim ({source}) | weft over published |",
        "|---|---|" + "---:|" * 4,
    ]
    near = [0, 0]
    for model, row in DALLY_TABLE_I.items():
        for where in TIERS:
            told, mine, other = 100.0 * getattr(row, where), ours(model, where), theirs(model, where)
            near = [n + (abs(each / told - 1.0) <= NEAR) for n, each in zip(near, (mine, other), strict=True)]
            lines.append(f"| {model} | {where} | {told:,.4g} | {mine:,.4g} | {other:,.4g} | {mine / told:.2f} |")
    lines.append(f"\nWithin {NEAR:.0%} of the published cell: weft {near[0]} of 18, ASTRA-sim {near[1]} of 18.")
    nvswitch, ring = (near_with_one_file(shrinking) for shrinking in (False, True))
    lines.append(f"With one system file for all tiers: {nvswitch} (ring-nvswitch) and {ring} (ring).")
    return "\n".join(lines)


def near_with_one_file(shrinking: bool) -> int:
    """How many of weft's 18 cells are near the published ones with one system file for all tiers."""
    return sum(
        abs(ours(model, where, shrinking) / (100.0 * getattr(row, where)) - 1.0) <= NEAR
        for model, row in DALLY_TABLE_I.items()
        for where in TIERS
    )


def eight_units() -> str:
    """What the program gives over eight machines and eight racks of one GPU each; only where it is installed."""
    shapes: dict[str, Shape] = {"rack": ((1,) * 8,), "network": ((1,),) * 8}
    rows = [[f"{theirs(model, where, shape):,.6g}" for where, shape in shapes.items()] for model in DALLY_TABLE_I]
    cells = (f"| {model} | {' | '.join(row)} |" for model, row in zip(DALLY_TABLE_I, rows, strict=True))
    return "\n".join(["| | 8 machines | 8 racks |", "|---|---:|---:|", *cells])
