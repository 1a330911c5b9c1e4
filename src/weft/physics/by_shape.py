"""ByShape: what the placements of the Dally paper's six models cost, by their shape and not only by their tier.

This follows the authors' simulator (section IV-C2). A model's computing is multiplied by the factor that makes it
communicate on one machine as Table I says, its bytes stay as they are, and collectives run layer by layer over the
hierarchy of the paper. The machine that models are calibrated on is that of the authors' NVSwitch file.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from weft.model.profile import Profile
from weft.physics.analytical import DALLY, DALLY_MACHINE, Analytical, compute_factor, slowed
from weft.physics.cost import DALLY_TABLE_I, CostModel, Shape
from weft.workload import zoo
from weft.workload.profiles.layers import read_layers

MACHINE: Shape = ((4, 4),)  # 8 GPUs on one machine: two groups of four, each fully connected
_FILES = {
    "vgg11": "vgg11_B256_astra-sim.csv", "alexnet": "alexnet_B512_astra-sim.csv",
    "mobilenet-v3": "mobilenet_v3_B512_astra-sim.csv", "resnet18": "resnet18_B512_astra-sim.csv",
    "resnet50": "resnet50_B512_astra-sim.csv", "bert-large": "BERT-large_B256_astra-sim2.csv",
}  # fmt: skip


class ByShape(CostModel):
    """A share of the compute time, by model, number of GPUs and shape. On one machine it is that of Table I."""

    name = "by-shape"

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """That share of the profile's compute time."""
        return 0.0 if profile.workers == 1 else share_of(zoo.without(model), shape) * profile.compute_s


@cache
def share_of(model: str, shape: Shape) -> float:
    """Exposed communication over compute time on a placement of this shape."""
    if len(shape) == 1 and len(shape[0]) == 1:
        return DALLY_TABLE_I[model].machine
    profile = calibrated_profile(model, sum(map(sum, shape)))
    return Analytical(DALLY).exposed_s(profile, model, shape) / profile.compute_s


@cache
def factor(model: str) -> float:
    """What a model's computing is multiplied by so that 8 GPUs of one machine communicate as in Table I."""
    return compute_factor(_profile(model, 8), DALLY_MACHINE, MACHINE, DALLY_TABLE_I[model].machine)


@cache
def calibrated_profile(model: str, workers: int) -> Profile:
    """One iteration with its computing multiplied by that factor."""
    return slowed(_profile(model, workers), factor(model))


@cache
def _profile(model: str, workers: int) -> Profile:
    """One iteration, layer by layer: the authors' layer file under WEFT_TRACES, else the zoo's."""
    path = layer_files().get(model)
    return zoo.profile(model, workers, overlap=True) if path is None else read_layers(path).profile(workers)


def layer_files() -> dict[str, Path]:
    """The authors' layer files that are there, by model."""
    store = os.environ.get("WEFT_TRACES")
    paths = {model: Path(store) / "dally" / "workload" / name for model, name in _FILES.items()} if store else {}
    return {model: path for model, path in paths.items() if path.exists()}
