"""The sections of a scenario file: what may be written in each, with units in the names. Unknown keys are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from weft.scenario.problems import problem, quoted

__all__ = [
    "ClusterSection",
    "LinkRow",
    "NetworkSection",
    "RouteRow",
    "RunSection",
    "Section",
    "Sharing",
    "StackSection",
    "TierRow",
]

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]

TopologyName = Literal["single-switch", "leaf-spine", "three-tier", "fat-tree", "cassini", "links", "file"]
CollectiveName = Literal[
    "ring", "halving-doubling", "recursive-doubling", "tree", "parameter-server", "all-to-all", "point-to-point"
]


class Section(BaseModel):
    """A table of a scenario or job file: nothing but the keys below, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class LinkRow(Section):
    """One cable of `topology = "links"`: both directions between nodes a and b, `gbps` each."""

    a: str
    b: str
    gbps: Positive
    tier: str = ""


class RouteRow(Section):
    """A route that shortest paths would not give: the nodes between two servers, in order."""

    src: str
    dst: str
    via: list[str]


class ClusterSection(Section):
    """[cluster]: the machines and the network between them. Which fields a topology knows, its builder says."""

    topology: TopologyName
    racks: Count | None = None
    servers_per_rack: Count | None = None
    servers: Annotated[int | list[str] | None, Field(union_mode="left_to_right")] = None
    gpus_per_server: Count | None = None
    gpu: str | None = None
    gpu_memory_gb: Positive | None = None
    nic_gbps: Positive | None = None
    oversubscription: Positive | None = None
    spines: Count | None = None
    racks_per_edge: Count | None = None
    uplink_gbps: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = None
    k: Count | None = None
    intra_server_gbps: Positive | None = None
    latency_us: NotNegative = 0.0
    intra_latency_us: NotNegative = 0.0
    links: list[LinkRow] | None = None
    routes: list[RouteRow] | None = None
    file: str | None = None

    @field_validator("servers", mode="before")
    @classmethod
    def _number_or_names(cls, value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return value
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise problem(f"is {quoted(value)}; give a whole number of at least 1, or a list of names")
        return value

    @model_validator(mode="after")
    def _file(self) -> Self:
        if self.topology == "file" and self.file is None:
            raise problem("is missing; name a topology.conf of Slurm, or a .csv with the columns node, rack", "file")
        if self.topology != "file" and self.file is not None:
            raise problem(f'has no meaning with topology "{self.topology}"; remove it or use topology = "file"', "file")
        return self


class StackSection(Section):
    """[stack]: a named stack, or its layers one by one; a layer beside a name replaces that layer."""

    name: str | None = None
    order: str | None = None
    place: str | None = None
    interleave: str | None = None
    pace: str | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.name is None and self.order is None:
            raise problem("is missing; give a name, or an order (see: weft stacks)", "name")
        return self


class TierRow(Section):
    """Exposed communication of a model as a fraction of its compute time, by how far its workers are apart."""

    machine: NotNegative = 0.0
    rack: NotNegative
    network: NotNegative


class Sharing(Section):
    """How transfers share links; the constants belong to k-way sharing.

    With k transfers on the busiest server a byte takes k b + (k - 1) eta seconds. The defaults are those of
    10 Gbit/s Ethernet in the Ada-SRSF authors' code.
    """

    sharing: Literal["ideal", "max-min", "k-way", "scheduled"] = "max-min"
    a_s: NotNegative = 0.0
    b_s_per_byte: Positive = 8.56e-10
    eta_s_per_byte: NotNegative = 2.35e-10

    @model_validator(mode="after")
    def _constants(self) -> Self:
        if self.sharing == "scheduled":
            raise problem('is "scheduled", which is not there yet; use max-min, k-way or ideal', "sharing")
        for name in ("a_s", "b_s_per_byte", "eta_s_per_byte"):
            if name in self.model_fields_set and self.sharing != "k-way":
                raise problem(f'has no meaning with sharing "{self.sharing}"; remove it or use k-way', name)
        return self


class NetworkSection(Sharing):
    """[network]: how transfers share links, and what they cost."""

    cost: Literal["links", "tiers", "analytical", "astra-sim"] = "links"
    collective: CollectiveName = "ring"
    tiers: dict[str, TierRow] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.cost in ("analytical", "astra-sim"):
            raise problem(f'is "{self.cost}", which is not there yet; use links or tiers', "cost")
        if self.cost == "tiers" and not self.tiers:
            raise problem('is missing; cost "tiers" needs a row per model, or one named default', "tiers")
        if self.cost != "tiers" and self.tiers:
            raise problem(f'has no meaning with cost "{self.cost}"; remove it or use cost = "tiers"', "tiers")
        return self


class RunSection(Section):
    """[run]: the seed, how exact to be, and what goes wrong on purpose."""

    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    exact: bool = True
    restart_s: NotNegative = 0.0
    jitter: NotNegative = 0.0
    stragglers: Share = 0.0
    straggler_factor: Annotated[float, Field(ge=1)] = 2.0
    start_latency_s: NotNegative = 0.0
    failure_rate: Share = 0.0
    checkpoint_every: Count = 1
    until_s: Positive | None = None
    record: bool = False
    record_bin_s: Positive | None = None
