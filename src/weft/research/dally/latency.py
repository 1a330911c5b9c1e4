"""Table I and Figures 1 and 6 of the Dally paper: what a placement costs, by the analytical hierarchy."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from weft.model.profile import Profile
from weft.physics.analytical import DALLY, Analytical, compute_factor, slowed
from weft.physics.cost import DALLY_TABLE_I, THEMIS, Shape, TierTable, tier
from weft.workload import zoo
from weft.workload.profiles.layers import read_layers

__all__ = ["SHAPES", "SIX_JOBS", "TIERS", "calibrated_profile", "factor", "latencies", "profile_of", "share"]

TIERS = ("machine", "rack", "network")
# 8 GPUs: on one machine, four on each of two machines of a rack, four in each of two racks.
SHAPES: dict[str, Shape] = {"machine": ((8,),), "rack": ((4, 4),), "network": ((4,), (4,))}
_FILES = {
    "vgg11": "vgg11_B256_astra-sim.csv", "alexnet": "alexnet_B512_astra-sim.csv",
    "mobilenet-v3": "mobilenet_v3_B512_astra-sim.csv", "resnet18": "resnet18_B512_astra-sim.csv",
    "resnet50": "resnet50_B512_astra-sim.csv", "bert-large": "BERT-large_B256_astra-sim2.csv",
}  # fmt: skip
# Figure 6 follows six jobs through placements; these are ours: model, then shapes it has one after another.
SIX_JOBS: tuple[tuple[str, tuple[Shape, ...]], ...] = (
    ("resnet50", (((8,),), ((4, 4),), ((8,),))),
    ("bert-large", (((4,), (4,)), ((8,),))),
    ("mobilenet-v3", (((2, 2, 2, 2),), ((8,),))),
    ("alexnet", (((1,),) * 8, ((4, 4),))),
    ("vgg11", (((8,),), ((2, 2), (2, 2)))),
    ("resnet18", (((8, 8),), ((8,), (8,)), ((8, 8),))),
)


@cache
def profile_of(model: str, workers: int) -> Profile:
    """One iteration, layer by layer: the authors' layer file under WEFT_TRACES, else the zoo's."""
    store = os.environ.get("WEFT_TRACES")
    path = Path(store or "") / "dally" / "workload" / _FILES[model]
    if store and path.exists():
        return read_layers(path).profile(workers)
    return zoo.profile(model, workers, overlap=True)


@cache
def factor(model: str) -> float:
    """What a model's computing is multiplied by so that one machine communicates as in Table I (section IV-C2)."""
    return compute_factor(profile_of(model, 8), DALLY, SHAPES["machine"], DALLY_TABLE_I[model].machine)


@cache
def calibrated_profile(model: str, workers: int) -> Profile:
    """One iteration with its computing multiplied by that factor."""
    return slowed(profile_of(model, workers), factor(model))


def share(model: str, where: str) -> float:
    """Table I: exposed communication over compute time, 8 GPUs on one machine, in one rack or over racks."""
    profile = calibrated_profile(model, 8)
    return Analytical(DALLY).exposed_s(profile, model, SHAPES[where]) / profile.compute_s


def latencies() -> list[tuple[str, int, float, float]]:
    """Figure 6: model, tier, exposed communication by Themis' penalties and by the hierarchy, for each placement."""
    static = TierTable(THEMIS)
    exact = Analytical(DALLY)
    rows = []
    for model, shapes in SIX_JOBS:
        for shape in shapes:
            profile = calibrated_profile(model, sum(map(sum, shape)))
            rows.append(
                (model, tier(shape), static.exposed_s(profile, model, shape), exact.exposed_s(profile, model, shape))
            )
    return rows
