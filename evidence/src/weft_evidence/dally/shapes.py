"""ByShape: what the placements of the Dally paper's six models cost, by their shape and not only by their tier.

This follows the authors' simulator (section IV-C2). A model's computing is multiplied by the factor that makes it
communicate on one machine as Table I says, its bytes stay as they are, and collectives run layer by layer over the
hierarchy of the paper. The machine that models are calibrated on is that of the authors' NVSwitch file.

`AstraTable` has what the authors' own ASTRA-sim gives for their layer files instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from weft.errors import ScenarioError
from weft.model.profile import Profile
from weft.network.cost import DALLY_TABLE_I, CostModel, Shape, units
from weft.network.hierarchy import Dimension, Hierarchy
from weft.workload import zoo
from weft.workload.profiles.layers import CYCLE_S, read_layers
from weft_evidence.calibration import compute_factor, slowed, waited_s

# The authors' simulator: what their ASTRA-sim reads for each tier (bandwidths are 2^30 bytes per second and link, and
# a ring of theirs has several links). Rings everywhere, also on what is fully connected and over the switch, through
# which a message pays two links of 50 microseconds. Inside a rack a whole all-reduce runs on each tier in turn.
_GIB = float(2**30)
_GROUP = Dimension("fully-connected", 600 * _GIB, algorithm="ring")
_HALVES = Dimension("ring", 2 * 600 * _GIB, 0.5e-6)  # two groups of four GPUs on a machine
_RACK = Dimension("ring", 4 * 200 * _GIB, 5e-6)
_NETWORK = Dimension("switch", 400 * _GIB, 100e-6, algorithm="ring")
DALLY_MACHINE = Hierarchy(_GROUP, _HALVES, _NETWORK, shrinking=False, overlapping=True)
DALLY_RACK = Hierarchy(_GROUP, _RACK, _NETWORK, shrinking=False, overlapping=True)
DALLY_NETWORK = Hierarchy(_GROUP, _RACK, _NETWORK, shrinking=True, overlapping=True)

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


# The authors' fork of ASTRA-sim 1.0 (aakash-sharma/astra-sim 4b747e42, its network astra-sim/analytical d27635bc, as it
# pins it) with their layer files and factors: 3dim_sys_ring-nvswitch.txt on a machine and in a rack, 3dim_sys_ring.txt
# between racks, networks as above. Two units are 4 + 4 GPUs, eight are of one GPU each. Over 16 racks it gives 422.1
# for ResNet18 (here 423.4), 23.64 for AlexNet (24.43) and 13.18 for ResNet50 (12.92).
# `python -m weft_evidence.dally.experiments table-i` makes it again where WEFT_ASTRA_SIM names the program.
ASTRA_SIM = {
    "vgg11": Rings(0.0132892, (0.0596868, 0.0193282), (0.0628134, 4.169535)),
    "alexnet": Rings(0.018397, (0.131176, 0.3852322), (1.23522, 11.17415)),
    "mobilenet-v3": Rings(0.428825, (9.35107, 68.44356), (196.028, 1376.590)),
    "resnet18": Rings(0.0685782, (1.12912, 9.750473), (27.6322, 197.2359)),
    "resnet50": Rings(0.123401, (0.124193, 0.1292751), (0.38662, 5.758977)),
    "bert-large": Rings(0.0864914, (0.140075, 2.697461), (7.25991, 54.90185)),
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
    return waited_s(profile, DALLY_NETWORK if len(shape) > 1 else DALLY_RACK, shape, delays(model)) / profile.compute_s


@cache
def factor(model: str) -> float:
    """What a model's computing is multiplied by so that 8 GPUs of one machine communicate as in Table I."""
    return compute_factor(
        layered_profile(model, 8), DALLY_MACHINE, MACHINE, DALLY_TABLE_I[model].machine, delays(model)
    )


@cache
def delays(model: str) -> dict[str, float]:
    """Seconds after the weights of a layer are summed that its file calls update delay (column 12). The authors count
    them as communication and do not scale them with computing; ResNet50's file has 27 ms in 8 layers."""
    path = layer_files().get(model)
    layers = () if path is None else read_layers(path).layers
    return {f"weights{i}": CYCLE_S * layer.update for i, layer in enumerate(layers) if layer.update > 0}


@cache
def calibrated_profile(model: str, workers: int) -> Profile:
    """One iteration with its computing multiplied by that factor."""
    return slowed(layered_profile(model, workers), factor(model))


@cache
def layered_profile(model: str, workers: int) -> Profile:
    """One iteration, layer by layer: the authors' layer file under WEFT_TRACES, less its delays, else the zoo's."""
    path = layer_files().get(model)
    if path is None:
        return zoo.profile(model, workers, overlap=True)
    file = read_layers(path)
    layers = [replace(layer, update=0.0) for layer in file.layers]
    layers[0] = replace(layers[0], input_gradient=0.0)  # which ASTRA-sim does not compute either
    return replace(file, layers=tuple(layers)).profile(workers)


def layer_files() -> dict[str, Path]:
    """The authors' layer files that are there, by model."""
    store = os.environ.get("WEFT_TRACES")
    paths = {model: Path(store) / "dally" / "workload" / name for model, name in _FILES.items()} if store else {}
    return {model: path for model, path in paths.items() if path.exists()}
