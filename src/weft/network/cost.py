"""Cost models: how long communication holds up an iteration, by the shape of a placement.

Cost models ignore contention and replace links: the simulator then has one fixed delay for all transfers of an
iteration, whatever other jobs send. Those of other packages are found by entry point (`weft.costs`) and built as ours
are, by `from_network`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from weft.errors import InputError, ScenarioError
from weft.model.cluster import Cluster
from weft.model.plan import Placement
from weft.model.profile import Profile

Shape = tuple[tuple[int, ...], ...]  # GPUs on each server, largest first, rack by rack


def shape_of(cluster: Cluster, gpus: Placement) -> Shape:
    """The shape of a placement."""
    servers = Counter(cluster.server_of_gpu[np.asarray(gpus, dtype=np.int64)].tolist())
    racks: dict[int, list[int]] = {}
    for server, count in servers.items():
        racks.setdefault(int(cluster.rack_of_server[server]), []).append(count)
    return tuple(sorted((tuple(sorted(counts, reverse=True)) for counts in racks.values()), reverse=True))


def tier(shape: Shape) -> int:
    """0 on one machine, 1 in one rack, 2 over several racks."""
    return 2 if len(shape) > 1 else 1 if len(shape[0]) > 1 else 0


def units(shape: Shape) -> tuple[int, int, int]:
    """GPUs on each machine, machines in each rack, racks: the regular hierarchy that stands for a shape.

    A shape that is not regular has no hierarchy to reduce over: all its workers then stand side by side on the tier
    where it is irregular (as in the Dally authors' simulator).
    """
    machines = [len(rack) for rack in shape]
    counts = [count for rack in shape for count in rack]
    workers = sum(counts)
    if len(set(counts)) == 1 and len(set(machines)) == 1:
        return counts[0], machines[0], len(shape)
    if len(shape) == 1:
        return 1, workers, 1
    per_rack = [sum(rack) for rack in shape]
    if len(set(per_rack)) == 1:
        return 1, per_rack[0], len(shape)
    return 1, 1, workers


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
# third constant, across the sockets of a machine, has no counterpart here.)
THEMIS = {"default": Tier(0.0, 1 / 0.8 - 1, 1 / 0.7 - 1)}
PUBLISHED: Mapping[str, Mapping[str, Tier]] = {"dally": DALLY_TABLE_I, "themis": THEMIS}


class CostModel(ABC):
    """Exposed communication of one iteration."""

    name: str = ""
    reads: frozenset[str] = frozenset()  # the keys of [network] that describe it

    @classmethod
    def from_network(cls, said: Mapping[str, Any], folder: Path) -> Self:
        """The model that [network] describes by the keys in `reads`, whose files are relative to `folder`."""
        return cls()

    @classmethod
    def files(cls) -> Iterable[Path]:
        """What it reads besides; a run that is kept counts as another one when these change."""
        return ()

    def check(self, model: str) -> None:  # noqa: B027 - most take any model
        """Raise ScenarioError for a model of which it knows nothing."""

    @abstractmethod
    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """Seconds by which communication prolongs an iteration beyond its compute time."""


class TierTable(CostModel):
    """A share of the compute time, by model and tier; `default` is for models without a row."""

    name = "tiers"
    reads = frozenset({"tiers", "table"})

    def __init__(self, tiers: Mapping[str, Tier]) -> None:
        self.tiers = tiers

    @classmethod
    def from_network(cls, said: Mapping[str, Any], folder: Path) -> Self:
        """Its own rows, or a published table."""
        if said["table"] is not None and said["tiers"]:
            raise InputError("network.table excludes tiers; remove one of them")
        if said["table"] is not None:
            return cls(PUBLISHED[said["table"]])
        if not said["tiers"]:
            raise InputError(
                'network.tiers is missing; cost "tiers" needs a row per model, or one named default, or a table'
            )
        return cls({model: Tier(**row) for model, row in said["tiers"].items()})

    def check(self, model: str) -> None:
        """It has a row for the model, or one named default."""
        if self._row(model) is None:
            raise ScenarioError(f"network.tiers has no row for {model}; add it, or one named default")

    def _row(self, model: str) -> Tier | None:
        return self.tiers.get(model) or self.tiers.get(model.partition("[")[0]) or self.tiers.get("default")

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        """The row's share of the compute time; a single worker sends nothing."""
        row = self._row(model)
        if row is None or profile.workers == 1:
            return 0.0
        return (row.machine, row.rack, row.network)[tier(shape)] * profile.compute_s


class Cached(CostModel):
    """Another model, asked once for each profile and shape."""

    def __init__(self, model: CostModel) -> None:
        self.model, self.name = model, model.name
        self._known: dict[tuple[int, str, Shape], tuple[Profile, float]] = {}  # the profile is kept, and so its id

    def check(self, model: str) -> None:
        self.model.check(model)

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        key = (id(profile), model, shape)
        if key not in self._known:
            self._known[key] = (profile, self.model.exposed_s(profile, model, shape))
        return self._known[key][1]
