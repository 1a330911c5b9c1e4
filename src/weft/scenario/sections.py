"""The sections of a scenario file: what may be written in each, with units in the names. Unknown keys are errors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from weft.errors import StackError
from weft.model.units import K_WAY_B_S_PER_BYTE, K_WAY_ETA_S_PER_BYTE
from weft.scenario.costs import COSTS, KEYS, reads
from weft.scenario.problems import problem, quoted

# Beyond these bounds a double can no longer distinguish two moments, or two bytes.
MOST_S = 1e9  # 31 years
MOST_BYTES = 1e18
LEAST_GBPS, MOST_GBPS = 1e-6, 1e9


def _carries_something(gbps: float) -> float:
    if gbps < LEAST_GBPS:
        raise problem(f"is {gbps:g}; give at least {LEAST_GBPS:g}")
    return gbps


Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Positive = Annotated[float, Field(gt=0, le=1e9)]
NotNegative = Annotated[float, Field(ge=0, le=1e9)]
Seconds = Annotated[float, Field(ge=0, le=MOST_S)]
SomeSeconds = Annotated[float, Field(gt=0, le=MOST_S)]
Bytes = Annotated[float, Field(ge=0, le=MOST_BYTES)]
Gbps = Annotated[float, Field(gt=0, le=MOST_GBPS), AfterValidator(_carries_something)]
Name = Annotated[str, Field(min_length=1)]
Share = Annotated[float, Field(ge=0, le=1)]

TopologyName = Literal[
    "single-switch", "leaf-spine", "three-tier", "fat-tree", "rails", "torus", "dragonfly", "cassini", "links", "file"
]
CollectiveName = Literal[
    "ring", "halving-doubling", "recursive-doubling", "tree", "parameter-server", "all-to-all", "point-to-point",
    "double-tree", "hierarchical", "nvls", "sharp", "nccl",
]  # fmt: skip


class Section(BaseModel):
    """A table of a scenario or job file: nothing but the keys below, of exactly these types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)


class LinkRow(Section):
    """One cable of `topology = "links"`."""

    a: str = Field(description="One end: a server or a switch.")
    b: str = Field(description="The other end.")
    gbps: Gbps = Field(description="Gbit/s in each direction.")
    tier: str = Field("", description='What it is called in reports; by default "nic" at a server, else "fabric".')


class RouteRow(Section):
    """A route that shortest paths would not give, for `topology = "links"`."""

    src: str = Field(description="Server it starts from.")
    dst: str = Field(description="Server it leads to.")
    via: list[str] = Field(description="The nodes between them, in order.")


class MachineFields(Section):
    """What servers are like."""

    preset: Literal["dgx-h100", "dgx-b200", "gb200-nvl72"] | None = Field(
        None, description="A machine by name; fields beside it replace its own."
    )
    gpus_per_server: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="GPUs in each server; by default 1."
    )
    gpu: str | None = Field(None, description="GPU type, for compute times; by default V100.")
    gpu_memory_gb: Positive | None = Field(None, description="Memory of a GPU; by default 16.")
    nic_gbps: Gbps | None = Field(
        None, description="Speed of each NIC, and of each link of a torus or dragonfly; by default 10."
    )
    nics_per_server: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="NICs of each server, by default 1; of n GPUs, number g uses NIC g x NICs / n, rounded down."
    )
    intra_server_gbps: Gbps | None = Field(None, description="Speed between GPUs of a server; by default no limit.")
    nvlink_domain: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Servers that NVLink joins, one after another; by default 1."
    )
    nvlink_gbps: Gbps | None = Field(None, description="Speed of a GPU to those of other servers of its NVLink domain.")


class GroupRow(MachineFields):
    """Servers of one kind; what it does not say is as in [cluster]. Groups follow each other, rack by rack."""

    count: Count = Field(description="Number of such servers.")


class ClusterSection(MachineFields):
    """The machines and the network between them. A field that the topology does not know is refused."""

    topology: TopologyName = Field(
        description="single-switch: nothing blocks but NICs; leaf-spine: racks under leaves, all joined to all spines; "
        "three-tier: a tree; fat-tree: k-ary; rails: NIC i of all servers of a rack on rail switch i, spines above; "
        "torus; dragonfly; cassini: the testbed of that paper; links: cable by cable; file: read it."
    )
    racks: Count | None = Field(None, description="Number of racks (leaf-spine, three-tier) or rail groups (rails).")
    servers_per_rack: Count | None = Field(None, description="Servers in each rack.")
    servers: Annotated[int | list[str] | None, Field(union_mode="left_to_right")] = Field(
        None, description="Number of servers (single-switch), or the nodes that are servers (links)."
    )
    group: list[GroupRow] | None = Field(
        None,
        description="Unequal servers (single-switch, leaf-spine, rails). The planners ideal, pollux, random and themis "
        "need GPUs of one kind.",
    )
    oversubscription: Annotated[
        Positive | Annotated[list[Positive], Field(min_length=1, max_length=2)] | None,
        Field(union_mode="left_to_right"),
    ] = Field(
        None, description="Downlink/uplink bandwidth ratio (4 = 4:1); by default 1. rails: perhaps one for each tier."
    )
    spines: Count | None = Field(
        None, description="Number of spines; by default as many as make uplinks as fast as NICs."
    )
    racks_per_edge: Count | None = Field(None, description="Racks under an edge switch (three-tier).")
    racks_per_pod: Count | None = Field(None, description="Rail groups under the same spines (rails); by default all.")
    pxn: bool | None = Field(None, description="A message for another rail goes to its GPU first; by default true.")
    dims: list[Count] | None = Field(None, description="Servers along each dimension (torus).")
    router_groups: Count | None = Field(None, description="Groups of routers (dragonfly).")
    routers_per_group: Count | None = Field(None, description="Routers of a group (dragonfly).")
    servers_per_router: Count | None = Field(None, description="Servers on each router (dragonfly).")
    global_links: Count | None = Field(None, description="Cables of a router to other groups (dragonfly); default 1.")
    uplink_gbps: Annotated[list[Positive], Field(min_length=2, max_length=2)] | None = Field(
        None, description="Speeds of rack and edge uplinks (three-tier), instead of oversubscription."
    )
    k: Count | None = Field(None, description="Ports of a switch (fat-tree): k pods, k^3/4 servers.")
    latency_us: NotNegative = Field(0.0, description="Latency of a message between servers.")
    intra_latency_us: NotNegative = Field(0.0, description="Latency of a message inside a server.")
    nvlink_latency_us: NotNegative = Field(0.0, description="Latency of a message between servers that NVLink joins.")
    links: list[LinkRow] | None = Field(
        None,
        description="The cables (links), each with a, b, gbps and perhaps tier. Parallel ones at a server count "
        "as one of their speed together.",
    )
    routes: list[RouteRow] | None = Field(None, description="Routes that shortest paths would not give (links).")
    file: str | None = Field(
        None, description="Slurm's topology.conf, or a .csv with columns node, rack (file); relative to the scenario."
    )

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


class LimitsSection(Section):
    """What users and queues may hold at once, under any order. A job over a limit waits and blocks nobody."""

    per_user: Count | None = Field(None, description="GPUs that the jobs of one user may hold together.")
    users: dict[str, Count] = Field(default_factory=dict, description="The same for single users: {alice = 8}.")
    per_queue: Count | None = Field(None, description="GPUs that the jobs of one queue (`vc`) may hold together.")
    queues: dict[str, Count] = Field(default_factory=dict, description="The same for single queues: {research = 64}.")
    quotas: dict[str, Count] = Field(
        default_factory=dict,
        description="GPUs of queues that lend each other what they do not use: {a = 32, b = 16}.",
    )
    borrow: bool = Field(True, description="Whether queues with a quota may borrow from each other.")
    reclaim: bool = Field(
        True,
        description="Whether a queue takes back what it lent when one of its jobs waits, where the order stops jobs.",
    )


class StackSection(Section):
    """A named stack, or its layers one by one; a layer beside a name replaces that layer."""

    name: Name | None = Field(None, description="A stack of `weft stacks`.")
    order: Name | None = Field(None, description="Who goes next, who gives way?")
    place: Name | None = Field(None, description="On which GPUs?")
    interleave: Name | None = Field(None, description="When does each job's communication start?")
    pace: Name | None = Field(None, description="Which transfers run now, how fast?")
    route: Name | None = Field(None, description="Over which links, where paths are equally short?")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.name is None and self.order is None:
            raise problem("is missing; give a name, or an order (see: weft stacks)", "name")
        return self


class TierRow(Section):
    """Exposed communication of a model as a fraction of its compute time, by how far its workers are apart."""

    machine: NotNegative = Field(0.0, description="All on one server.")
    rack: NotNegative = Field(description="In one rack.")
    network: NotNegative = Field(description="Across racks.")


class Sharing(Section):
    """How transfers share links; the constants belong to k-way sharing.

    With k transfers on the busiest server a byte takes k b + (k - 1) eta seconds. The defaults are those of
    10 Gbit/s Ethernet in the Ada-SRSF authors' code.
    """

    sharing: Literal["ideal", "max-min", "k-way"] = Field(
        "max-min",
        description="How transfers share links. ideal: as if alone; max-min: fairly per flow, within what a pace lets "
        "each flow have; k-way: by the number of transfers on the busiest server.",
    )
    a_s: Seconds = Field(0.0, description="k-way: seconds before the first byte.")
    b_s_per_byte: Annotated[float, Field(gt=0, le=1)] = Field(
        K_WAY_B_S_PER_BYTE, description="k-way: seconds per byte alone."
    )
    eta_s_per_byte: Annotated[float, Field(ge=0, le=1)] = Field(
        K_WAY_ETA_S_PER_BYTE, description="k-way: seconds per byte that each further transfer adds."
    )

    @model_validator(mode="after")
    def _constants(self) -> Self:
        for name in ("a_s", "b_s_per_byte", "eta_s_per_byte"):
            if name in self.model_fields_set and self.sharing != "k-way":
                raise problem(f'has no meaning with sharing "{self.sharing}"; remove it or use k-way', name)
        return self


class DimensionRow(Section):
    """Links of one tier of the hierarchy."""

    kind: Literal["ring", "switch", "fully-connected"] = Field("switch", description="How its units are joined.")
    gbps: Gbps = Field(description="Gbit/s of a link.")
    latency_us: NotNegative = Field(0.0, description="Latency of a message, in microseconds.")
    nic_latency_us: NotNegative = Field(0.0, description="What the network card adds to it.")
    algorithm: Literal["ring", "halving-doubling", "direct"] | None = Field(
        None,
        description="How data move over them; by default ring on a ring, halving-doubling on a switch, direct where "
        "all are connected.",
    )


class HierarchyTable(Section):
    """The network as three tiers of links, for cost analytical and astra-sim."""

    machine: DimensionRow = Field(description="Inside a machine.")
    rack: DimensionRow = Field(description="Between machines of a rack.")
    network: DimensionRow = Field(description="Between racks.")
    shrinking: bool = Field(
        True, description="An all-reduce scatters on the way out, so that outer tiers carry their part only."
    )
    overlapping: bool = Field(
        False, description="analytical: each tier carries a collective of its own at the same time, as in ASTRA-sim."
    )


class ForeignRow(Section):
    """A TCP flow that is not of our jobs. It shares links fairly with senders that react to loss; beside paces whose
    senders do not (flow, mcs, shortest) it gets what they leave."""

    src: str = Field(description="Server that sends, as `weft topology` names it.")
    dst: str = Field(description="Server that receives.")
    start_s: Seconds = Field(0.0, description="When it starts.")
    end_s: SomeSeconds | None = Field(None, description="When it ends; by default never.")
    gbps: Gbps | None = Field(None, description="Rate that it asks for; by default all that it can get.")

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.src == self.dst:
            raise problem(f'is "{self.dst}", where the flow comes from; name another server', "dst")
        if self.end_s is not None and self.end_s <= self.start_s:
            raise problem(f"is {self.end_s:g}, not after start_s; give more than {self.start_s:g}", "end_s")
        return self


class CrossTrafficTable(Section):
    """Foreign flows drawn at random: in each round every server sends to another one for a while."""

    every_s: SomeSeconds = Field(2.0, description="Length of a round.")
    seconds: Annotated[list[Positive], Field(min_length=2, max_length=2)] = Field(
        [0.2, 2.0], description="How long a flow lasts, drawn between these."
    )
    gbps: Gbps | None = Field(None, description="Rate that each flow asks for; by default all that it can get.")

    @model_validator(mode="after")
    def _in_turn(self) -> Self:
        low, high = self.seconds
        if not low <= high <= self.every_s:
            raise problem(
                f"is [{low:g}, {high:g}]; give two numbers in order, at most every_s = {self.every_s:g}", "seconds"
            )
        return self


class NetworkSection(Sharing):
    """How transfers share links, and what they cost.

    Every cost other than links stands for a network without contention, on which an iteration is longer by a fixed
    time.
    """

    cost: Name = Field(
        "links",
        description="links: bytes over links; tiers: a fixed part of compute time; analytical: collectives over a "
        "hierarchy, layer by layer; astra-sim: the same asked of an installed ASTRA-sim 1.0; or a model that another "
        "package installs (entry point weft.costs).",
    )
    collective: CollectiveName = Field(
        "ring",
        description="Algorithm of transfers whose profile names none. "
        "nccl: the fastest of ring, double-tree and nvls for each message, as NCCL's tuning model chooses; sharp: not "
        "on a torus or dragonfly.",
    )
    tiers: dict[str, TierRow] = Field(
        default_factory=dict, description="tiers: for each model (or default), its fractions: machine, rack, network."
    )
    table: Name | None = Field(
        None,
        description="tiers: a published table instead. dally: Table I of that paper; themis: its simulator's static "
        "penalties, the same for every model. With weft-evidence also dally-by-shape: collectives over the paper's "
        "hierarchy by the shape of a placement, calibrated to the table's machine column; dally-astra-sim: what its "
        "authors' ASTRA-sim gives for a shape.",
    )
    hierarchy: HierarchyTable | Literal["modern", "older"] | None = Field(
        None,
        description="analytical, astra-sim: the tiers; modern (NVSwitch, Quantum, Spectrum; the default) or older "
        "(PCIe, InfiniBand of 50 Gbit/s) are those of the Dally paper.",
    )
    astra_network: str | None = Field(None, description="analytical, astra-sim: an ASTRA-sim 1.0 network file instead.")
    astra_system: str | None = Field(None, description="analytical, astra-sim: an ASTRA-sim 1.0 system file.")
    scale: dict[str, Positive] = Field(
        default_factory=dict, description="analytical, astra-sim: by model, a factor on its bytes (weft calibrate)."
    )
    program: str | None = Field(None, description="astra-sim: the path of ASTRA-sim's AnalyticalAstra.")
    options: dict[str, Any] = Field(default_factory=dict, description="What a cost model of another package is told.")
    packet_loss: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="Share of packets lost at random on their way, which are sent again."
    )
    foreign: list[ForeignRow] = Field(
        default_factory=list, description="TCP flows of others, which share the links with our jobs."
    )
    cross_traffic: CrossTrafficTable | None = Field(None, description="TCP flows of others, drawn at random.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for name in ("packet_loss", "foreign", "cross_traffic"):
            if getattr(self, name) and (self.cost != "links" or self.sharing != "max-min"):
                raise problem('has a meaning only with cost "links" and sharing "max-min"; use those', name)
        if "collective" in self.model_fields_set and (self.cost, self.sharing) == ("links", "k-way"):
            words = 'changes nothing with sharing "k-way", where a transfer is one message; remove it or use max-min'
            raise problem(words, "collective")
        try:
            read = reads(self.cost, self.table)
        except StackError as error:
            raise problem(f"cannot be used: {error}", "cost") from None
        for name in KEYS:
            if name in self.model_fields_set and name not in read:
                others = " or ".join(f'"{cost}"' for cost in COSTS if name in reads(cost))
                use = f"remove it or use cost = {others}" if others else "remove it"
                raise problem(f'has no meaning with cost "{self.cost}"; {use}', name)
        return self
