"""Sprayed flows against SimGrid.

SimGrid has no shares of links. But where all flows are divided alike over the same links, half of a flow on each of two
links is a whole flow on one link of twice the rate; so what SimGrid is asked has these links instead.
"""

import random

import pytest

from benchmarks import _simgrid
from weft.core.stack import Stack
from weft.network.topologies import Machine, leaf_spine
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.stacks.registry import make
from weft.testing.probes import Fixed
from weft.testing.toy import toy_job

pytestmark = pytest.mark.engine
NIC, MESSAGE = 1.25e9, 100_000_000


@pytest.mark.parametrize("seed", range(3))
def test_sprayed_jobs(simgrid_python: str, seed: int) -> None:
    """Two racks under three spines: the uplinks of a rack are one link of their common rate."""
    rng, n = random.Random(seed), 5
    computes = [rng.uniform(0.02, 0.3) for _ in range(n)]
    cluster = leaf_spine(2, n, Machine(1, 10.0), spines=3, oversubscription=2.0)
    jobs = [toy_job(f"j{i}", 2, 12, seconds, MESSAGE) for i, seconds in enumerate(computes)]
    stack = Stack("check", Fixed({f"j{i}": (i, i + n) for i in range(n)}), route=make("route", "spray"))
    ours = simulate(cluster, jobs, stack, NetworkSpec(), RunSpec()).jobs["finish_s"].to_list()
    capacity = [NIC] * n + [n * NIC / 2.0]  # one direction: both are alike
    case = {
        "capacity": capacity,
        "jobs": [
            {"start": 0.0, "compute": seconds, "bytes": MESSAGE, "links": [i, n], "rate": None, "iterations": 12}
            for i, seconds in enumerate(computes)
        ],
    }
    assert ours == pytest.approx(_simgrid.run(simgrid_python, case)[0], rel=1e-6)
