"""A program that is placed anew equals one that is made node by node."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.model.cluster import Cluster
from weft.model.profile import APART, Compute, Profile, Transfer
from weft.network.topologies import build_cluster
from weft.sim.engine.program import PARTS, NodeSpec, Program, make_program
from weft.sim.lower import Lowering
from weft.sim.spec import NetworkSpec

MACHINE: dict[str, Any] = {"gpus_per_server": 4, "nic_gbps": 40, "gpu": "H100", "intra_server_gbps": 1200}
CLUSTERS = [
    build_cluster("leaf-spine", racks=3, servers_per_rack=2, oversubscription=2, **MACHINE),
    build_cluster("leaf-spine", racks=3, servers_per_rack=2, spines=3, intra_latency_us=3, latency_us=5, **MACHINE),
    build_cluster("leaf-spine", racks=3, servers_per_rack=2, nics_per_server=2, **MACHINE),
]
COLLECTIVES = (
    None,
    "ring",
    "halving-doubling",
    "tree",
    "parameter-server",
    APART,
    "all-to-all",
    "nccl",
    "hierarchical",
)
N_GPUS = 24


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Tasks of few sizes among few lists of workers, so that some are of one kind; each comes after the one before and
    perhaps others."""
    workers = draw(st.integers(2, 8))
    some = st.lists(st.integers(0, workers - 1), min_size=2, max_size=workers, unique=True).map(tuple)
    lists = [None, *draw(st.lists(some, max_size=3))]
    tasks: list[Compute | Transfer] = []
    for i in range(draw(st.integers(1, 8))):
        after = draw(st.sets(st.integers(0, i - 1), max_size=2)) if i else set()
        if i == 0 or draw(st.booleans()):
            tasks.append(Compute("c", draw(st.sampled_from([0.0, 0.5, 1.0])), tuple(sorted(after | set(range(i))))))
            continue
        demand, size = draw(st.sampled_from([None, 1e9, 1e13])), draw(st.sampled_from([0.0, 1e3, 1e9]))
        whose, how = draw(st.sampled_from(lists)), draw(st.sampled_from(COLLECTIVES))
        servers = draw(st.integers(1, 2)) if how in ("parameter-server", APART) else 1
        tasks.append(Transfer("t", size, tuple(sorted(after)), whose, how, demand, servers))
    return Profile("p", tuple(tasks), workers, link_weight=draw(st.integers(1, 3)))


def same(one: Program, other: Program) -> bool:
    arrays = all(getattr(one, part).tobytes() == getattr(other, part).tobytes() for part in PARTS)
    return arrays and one.serial == other.serial and one.specs == other.specs


@given(profile=profiles(), cluster=st.sampled_from(CLUSTERS), data=st.data())
def test_on_other_gpus(profile: Profile, cluster: Cluster, data: st.DataObject) -> None:
    lowering = Lowering(cluster, NetworkSpec())
    for flow_key in range(4):
        gpus = tuple(data.draw(st.permutations(range(N_GPUS)))[: profile.workers])
        anew = Lowering(cluster, NetworkSpec()).program(profile, gpus, flow_key=flow_key)
        assert same(lowering.program(profile, gpus, flow_key=flow_key), anew)
        assert same(make_program(anew.specs, lowering.capacity), anew)


SCENARIO = """
[cluster]
topology = "leaf-spine"
racks = 4
servers_per_rack = 2
gpus_per_server = 4
gpu = "A100"
gpu_memory_gb = 400
nic_gbps = 100
oversubscription = 4
[workload]
source = "poisson"
jobs = 24
load = 0.9
models = ["gpt2-a[parallel=pipeline]", "llama-7b[parallel=pipeline]"]
gpus = { 8 = 2, 16 = 1 }
iterations = [200, 2000]
[stack]
name = "STACK"
[run]
exact = false
restart_s = 30
"""


def test_no_named_stack_lays_out_far_more_than_the_cheapest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that are laid out one by one, however often jobs start: less than half of what starts would take if each
    were made anew, and within ten times those of the cheapest stack."""
    work, anew, starts = Counter[str](), Counter[str](), Counter[str]()
    started = Lowering.program

    def laid_out(specs: Sequence[NodeSpec], capacity: npt.NDArray[np.float64], **given: Any) -> Program:
        work[stack] += len(specs)
        return make_program(specs, capacity, **given)

    def program(self: Lowering, *given: Any) -> Program:
        made = started(self, *given)
        anew[stack] += len(made.nodes)
        return made

    monkeypatch.setattr("weft.sim.lower.make_program", laid_out)
    monkeypatch.setattr(Lowering, "program", program)
    for stack in ("fifo", "fifo-backfill", "gandiva:60", "themis", "themis+cassini", "dally", "srsf", "weft"):
        file = tmp_path / "hybrid.toml"
        file.write_text(SCENARIO.replace("STACK", stack), encoding="utf-8")
        starts[stack] = weft.simulate(file).spans.height
    assert starts["gandiva:60"] > 3 * starts["fifo"]
    assert all(2 * work[name] < anew[name] for name in starts)
    assert max(work.values()) < 10 * min(work.values())
