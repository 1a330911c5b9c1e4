"""Cost models: how long communication holds up an iteration, by the shape of a placement.

They know no contention and stand in for links: the simulator then replaces the transfers of an iteration by
one fixed delay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from weft.model.profile import Profile
from weft.physics.shape import Shape, tier

__all__ = ["DALLY_TABLE_I", "THEMIS", "Cached", "CostModel", "Tier", "TierTable"]


@dataclass(frozen=True, slots=True)
class Tier:
    """Exposed communication as a fraction of compute time, by how far apart the workers are."""

    machine: float
    rack: float
    network: float


# Dally, Table I: exposed communication over compute time, 8 GPUs.
DALLY_TABLE_I = {
    "vgg11": Tier(0.01, 0.06, 0.07),
    "alexnet": Tier(0.02, 0.13, 1.00),
    "mobilenet-v3": Tier(0.42, 9.40, 195.92),
    "resnet18": Tier(0.07, 1.16, 27.49),
    "resnet50": Tier(0.12, 0.12, 0.38),
    "bert-large": Tier(0.08, 0.23, 7.15),
}
# The Themis simulator's static slowdowns, whatever the model: speed x 0.8 across machines, x 0.7 across racks. (Its
# third constant, across slots of a machine, has no counterpart here.)
THEMIS = {"default": Tier(0.0, 1 / 0.8 - 1, 1 / 0.7 - 1)}


class CostModel(ABC):
    """Exposed communication of one iteration."""

    name: str = ""

    @abstractmethod
    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """Seconds by which communication prolongs an iteration beyond its compute time."""


class TierTable(CostModel):
    """A share of the compute time, by model and tier; `default` is for models without a row."""

    name = "tiers"

    def __init__(self, tiers: Mapping[str, Tier]) -> None:
        self.tiers = tiers

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """The row's share of the compute time; one worker has nobody to talk to."""
        row = self.tiers.get(model) or self.tiers.get(model.partition("[")[0]) or self.tiers.get("default")
        if row is None or profile.workers == 1:
            return 0.0
        return (row.machine, row.rack, row.network)[tier(shape)] * profile.compute_s


class Cached(CostModel):
    """Another model, asked once for each profile and shape."""

    def __init__(self, model: CostModel) -> None:
        self.model = model
        self.name = model.name
        self.asked = 0
        self._known: dict[tuple[int, str, Shape], tuple[Profile, float]] = {}  # kept, so that its id stays its own

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """As the other model says."""
        key = (id(profile), model, shape)
        if key not in self._known:
            self.asked += 1
            self._known[key] = (profile, self.model.exposed_s(profile, model, shape))
        return self._known[key][1]
