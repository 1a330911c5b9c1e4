"""build_cluster: a topology by the name and the fields of a scenario's [cluster] section."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from weft.errors import ScenarioError
from weft.model.cluster import Cluster
from weft.model.topologies.checks import check_count
from weft.model.topologies.clos import (
    CASSINI_MACHINE,
    cassini,
    cassini_multi_gpu,
    fat_tree,
    leaf_spine,
    single_switch,
    three_tier,
)
from weft.model.topologies.fabric import Machine
from weft.model.topologies.links import Cable, Via, from_cables

__all__ = ["TOPOLOGIES", "build_cluster"]

Fields = dict[str, Any]


def build_cluster(
    kind: str,
    *,
    racks: int | None = None,
    servers_per_rack: int | None = None,
    servers: int | Sequence[str] | None = None,
    gpus_per_server: int | None = None,
    nic_gbps: float | None = None,
    oversubscription: float | None = None,
    uplink_gbps: tuple[float, float] | None = None,
    spines: int | None = None,
    racks_per_edge: int | None = None,
    k: int | None = None,
    cables: Sequence[Cable] | None = None,
    routes: Sequence[Via] | None = None,
    intra_server_gbps: float | None = None,
    gpu: str | None = None,
    gpu_memory_gb: float | None = None,
    latency_us: float = 0.0,
    intra_latency_us: float = 0.0,
    seed: int = 0,
) -> Cluster:
    """The cluster that a [cluster] section describes. None means "not given": the kind's own default, if it has one.

    A field that the kind does not know is refused (an oversubscription of 1 says nothing and passes everywhere). The
    `cassini` kind is the 24-server testbed; with `servers=6` the two-GPU variant of its section 5.6.
    """
    if kind not in TOPOLOGIES:
        raise ScenarioError(f'cluster.topology is "{kind}"; choose one of {", ".join(TOPOLOGIES)}')
    known, build = TOPOLOGIES[kind]
    fields: Fields = {
        "racks": racks, "servers_per_rack": servers_per_rack, "servers": servers, "oversubscription": oversubscription,
        "uplink_gbps": uplink_gbps, "spines": spines, "racks_per_edge": racks_per_edge, "k": k, "links": cables,
        "routes": routes,
    }  # fmt: skip
    _refuse_unknown(kind, fields, known)
    if kind == "cassini" and gpus_per_server is None and servers == 6:
        gpus_per_server = 2
    given: Fields = {
        "gpus_per_server": gpus_per_server, "nic_gbps": nic_gbps, "gpu": gpu, "gpu_memory_gb": gpu_memory_gb,
    }  # fmt: skip
    machine = replace(
        CASSINI_MACHINE if kind == "cassini" else Machine(),
        intra_server_gbps=intra_server_gbps,
        latency_us=latency_us,
        intra_latency_us=intra_latency_us,
        **{name: value for name, value in given.items() if value is not None},
    )
    return build({**fields, "oversubscription": 1.0 if oversubscription is None else oversubscription}, machine, seed)


def _refuse_unknown(kind: str, fields: Fields, known: Collection[str]) -> None:
    for name, value in fields.items():
        if value is not None and name not in known and not (name == "oversubscription" and value == 1):
            raise ScenarioError(f"cluster.{name} has no meaning in a {kind} topology; leave it out")


def _single_switch(f: Fields, machine: Machine, seed: int) -> Cluster:
    if f["servers"] is None:
        _require(f, "single-switch", "servers_per_rack")
        racks = 1 if f["racks"] is None else check_count("racks", f["racks"])
        return single_switch(racks * check_count("servers_per_rack", f["servers_per_rack"]), machine, seed=seed)
    if f["racks"] is not None or f["servers_per_rack"] is not None:
        raise ScenarioError("cluster.servers stands beside racks or servers_per_rack; give the one or the others")
    return single_switch(f["servers"], machine, seed=seed)


def _leaf_spine(f: Fields, machine: Machine, seed: int) -> Cluster:
    _require(f, "leaf-spine", "racks", "servers_per_rack")
    ratio, spines = f["oversubscription"], f["spines"]
    return leaf_spine(f["racks"], f["servers_per_rack"], machine, oversubscription=ratio, spines=spines, seed=seed)


def _three_tier(f: Fields, machine: Machine, seed: int) -> Cluster:
    _require(f, "three-tier", "racks", "servers_per_rack")
    if f["uplink_gbps"] is not None and f["oversubscription"] != 1:
        raise ScenarioError("cluster.uplink_gbps stands beside oversubscription; give the one or the other")
    return three_tier(
        f["racks"],
        f["servers_per_rack"],
        machine,
        racks_per_edge=f["racks_per_edge"],
        oversubscription=f["oversubscription"],
        uplink_gbps=f["uplink_gbps"],
        seed=seed,
    )


def _fat_tree(f: Fields, machine: Machine, seed: int) -> Cluster:
    k = f["k"]
    if k is None:
        if f["servers_per_rack"] is None:
            raise ScenarioError("cluster.k is missing; give the number of ports of a switch (k pods, k^3/4 servers)")
        k = 2 * check_count("servers_per_rack", f["servers_per_rack"])
    check_count("k", k, least=2)
    for name, right in (("servers_per_rack", k // 2), ("racks", k * k // 2)):
        if f[name] is not None and f[name] != right:
            raise ScenarioError(f"cluster.{name} is {f[name]}; a fat tree of k = {k} has {right}: leave it out")
    return fat_tree(k, machine, oversubscription=f["oversubscription"], seed=seed)


def _cassini(f: Fields, machine: Machine, seed: int) -> Cluster:
    if f["servers"] == 6:
        expected, build = {"racks": 3, "servers_per_rack": 2}, cassini_multi_gpu
    else:
        expected, build = {"racks": 6, "servers_per_rack": 4, "servers": 24}, cassini
    for name, right in expected.items():
        if f[name] is not None and f[name] != right:
            raise ScenarioError(f"cluster.{name} is {f[name]}; the CASSINI testbed has {right}: leave it out")
    if f["oversubscription"] not in (1.0, 2.0):
        raise ScenarioError(
            f"cluster.oversubscription is {f['oversubscription']}; the CASSINI testbed has 2: leave it out"
        )
    return build(machine, seed=seed)


def _links(f: Fields, machine: Machine, seed: int) -> Cluster:
    if f["links"] is None:
        raise ScenarioError("cluster.links is missing; give the cables, each with a, b and gbps")
    names = f["servers"]
    if isinstance(names, int | str):
        raise ScenarioError(
            f"cluster.servers is {names!r}; in a links topology give the servers' names, or leave it out"
        )
    return from_cables(f["links"], machine, servers=names, routes=f["routes"] or (), seed=seed)


def _require(f: Fields, kind: str, *names: str) -> None:
    for name in names:
        if f[name] is None:
            raise ScenarioError(f"cluster.{name} is missing; a {kind} topology needs it")


TOPOLOGIES: dict[str, tuple[frozenset[str], Callable[[Fields, Machine, int], Cluster]]] = {
    "single-switch": (frozenset({"racks", "servers_per_rack", "servers"}), _single_switch),
    "leaf-spine": (frozenset({"racks", "servers_per_rack", "oversubscription", "spines"}), _leaf_spine),
    "three-tier": (
        frozenset({"racks", "servers_per_rack", "oversubscription", "racks_per_edge", "uplink_gbps"}),
        _three_tier,
    ),
    "fat-tree": (frozenset({"k", "racks", "servers_per_rack", "oversubscription"}), _fat_tree),
    "cassini": (frozenset({"racks", "servers_per_rack", "servers", "oversubscription"}), _cassini),
    "links": (frozenset({"servers", "links", "routes"}), _links),
}
