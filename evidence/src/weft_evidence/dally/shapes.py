"""ByShape: what the placements of the Dally paper's six models cost, by their shape and not only by their tier.

This follows the authors' simulator (section IV-C2). A model's computing is multiplied by the factor that makes it
communicate on one machine as Table I says, its bytes stay as they are, and collectives run layer by layer over the
hierarchy of the paper. The machine that models are calibrated on is that of the authors' NVSwitch file.

`AstraTable` has what the authors' own ASTRA-sim gives for their layer files instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weft.errors import ScenarioError
from weft.model.profile import Profile
from weft.network.analytical import Analytical
from weft.network.cost import DALLY_TABLE_I, CostModel, Shape, units
from weft.network.hierarchy import Hierarchy, dimension
from weft.workload import zoo
from weft.workload.profiles.layers import read_layers
from weft_evidence.calibration import compute_factor, slowed

# The Dally authors' simulator: ASTRA-sim reads bandwidths in GB/s, so the numbers of the paper's text count as such; 5
# and 50 microseconds inside and between racks, none on a machine; rings outside machines, as in their network files.
DALLY = Hierarchy(dimension("fully-connected", 7200, 0.0), dimension("ring", 3200, 5.0), dimension("ring", 6400, 50.0))
# The machine of their NVSwitch file: two groups of four GPUs, 600 GB/s, half a microsecond between the groups. It has
# nothing outside.
DALLY_MACHINE = Hierarchy(
    dimension("fully-connected", 4800, 0.0), dimension("ring", 4800, 0.5), dimension("ring", 4800, 0.5)
)

MACHINE: Shape = ((4, 4),)  # 8 GPUs on one machine: two groups of four, each fully connected
_FILES = {
    "vgg11": "vgg11_B256_astra-sim.csv", "alexnet": "alexnet_B512_astra-sim.csv",
    "mobilenet-v3": "mobilenet_v3_B512_astra-sim.csv", "resnet18": "resnet18_B512_astra-sim.csv",
    "resnet50": "resnet50_B512_astra-sim.csv", "bert-large": "BERT-large_B256_astra-sim2.csv",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rings:
    """Exposed communication over compute time: on one machine, over 2 and 8 units of a rack, over 2 and 8 racks."""

    machine: float
    rack: tuple[float, float]
    network: tuple[float, float]

    def share(self, machines: int, racks: int) -> float:
        """Over so many units: a ring of n has 2 (n - 1) steps, so a share grows by as much with each unit."""
        if racks > 1:
            return _along(self.network, racks)
        return _along(self.rack, machines) if machines > 1 else self.machine


def _along(pair: tuple[float, float], n: int) -> float:
    two, eight = pair
    return max(0.0, two + (eight - two) * (n - 2) / 6)


# The authors' fork of ASTRA-sim 1.0 with the layer files, factors, network and collectives of their simulator. Two
# units are 4 + 4 GPUs, eight are of one GPU each. Over 16 units it gives 420.8 for ResNet18 (here 420.6), 22.67 for
# AlexNet (22.46) and 13.14 for ResNet50 (12.71).
ASTRA_SIM = {
    "vgg11": Rings(0.0003153, (0.05969, 0.01932), (0.2891, 3.648)),
    "alexnet": Rings(0.001331, (0.1312, 0.1441), (1.235, 10.33)),
    "mobilenet-v3": Rings(0.3565, (9.351, 68.25), (196.2, 1376.0)),
    "resnet18": Rings(0.04321, (1.129, 9.432), (27.76, 196.1)),
    "resnet50": Rings(0.1234, (0.1242, 0.1292), (0.4945, 5.728)),
    "bert-large": Rings(0.08554, (0.1401, 2.361), (7.441, 53.73)),
}


class AstraTable(CostModel):
    """A share of the compute time, by model and shape, as the authors' ASTRA-sim gives it."""

    name = "dally-astra-sim"
    reads = frozenset({"table"})

    def check(self, model: str) -> None:
        """It has a row for the model."""
        _row(model)

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """That share of the profile's compute time."""
        if profile.workers == 1:
            return 0.0
        _, machines, racks = units(shape)
        return ASTRA_SIM[_row(model)].share(machines, racks) * profile.compute_s


class ByShape(CostModel):
    """A share of the compute time, by model, number of GPUs and shape. On one machine it is that of Table I."""

    name = "dally-by-shape"
    reads = frozenset({"table"})

    @classmethod
    def files(cls) -> Iterable[Path]:
        """The authors' layer files."""
        return layer_files().values()

    def check(self, model: str) -> None:
        """It has a row for the model."""
        _row(model)

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """That share of the profile's compute time."""
        return 0.0 if profile.workers == 1 else share_of(_row(model), shape) * profile.compute_s


def _row(model: str) -> str:
    name = zoo.without(model)
    if name not in DALLY_TABLE_I:
        raise ScenarioError(f"network.table has no row for {name}; it has {', '.join(DALLY_TABLE_I)}")
    return name


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
