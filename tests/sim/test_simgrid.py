"""Against SimGrid, an outside oracle of max-min sharing (model CM02, no cross-traffic, no latency).

Runs are short: contended runs amplify the least difference, so long ones of any two programs drift apart.
"""

import math
import random
from typing import Any

import numpy as np
import pytest

from benchmarks import _simgrid
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import compute_node, make_program, transfer_node

pytestmark = pytest.mark.engine


def weft(case: dict[str, Any]) -> list[float]:
    """Finish times as the engine has them."""
    capacity = np.array(case["capacity"])
    engine = Engine(EngineSpec(capacity, np.ones(len(capacity), np.bool_)))
    ends, rows = [0.0] * len(case["jobs"]), {}
    order = sorted(range(len(case["jobs"])), key=lambda i: (case["jobs"][i]["start"], i))
    for i in [*order, None]:
        until = math.inf if i is None else case["jobs"][i]["start"]
        while finished := engine.run(until):
            for row in finished:
                ends[rows[row]] = engine.detach(row).finish_s
        if i is not None:
            job = case["jobs"][i]
            links = [(k, 1) for k in sorted(job["links"])]
            send = transfer_node(1, job["bytes"], links, (0,), demand=job["rate"] or math.inf)
            program = make_program([compute_node(0, job["compute"]), send], capacity)
            rows[engine.attach(i, program, job["iterations"])] = i
    return ends


def drawn(rng: random.Random, jobs: int, links: int, iterations: int) -> dict[str, Any]:
    """Jobs over one to three links each, some capped, at different starts."""
    return {
        "capacity": [rng.choice([1.25e9, 6.25e9, rng.uniform(1e9, 1e10)]) for _ in range(links)],
        "jobs": [
            {
                "start": rng.choice([0.0, 0.0, rng.uniform(0.0, 0.5)]),
                "compute": 0.0 if iterations == 1 else rng.uniform(0.02, 0.3),
                "bytes": rng.randrange(50_000_000, 500_000_000),
                "links": rng.sample(range(links), rng.randint(1, min(3, links))),
                "rate": rng.choice([None, None, rng.uniform(2e8, 2e9)]),
                "iterations": iterations,
            }
            for _ in range(jobs)
        ],
    }


@pytest.mark.parametrize("seed", range(4))
def test_flows_with_staggered_starts(simgrid_python: str, seed: int) -> None:
    """Sixty flows over a dozen links, each once."""
    case = drawn(random.Random(seed), jobs=60, links=12, iterations=1)
    assert weft(case) == pytest.approx(_simgrid.run(simgrid_python, case)[0], rel=1e-6)


@pytest.mark.parametrize(("jobs", "links", "iterations"), [(2, 1, 40), (3, 2, 40), (4, 3, 20), (12, 6, 10)])
def test_training_jobs(simgrid_python: str, jobs: int, links: int, iterations: int) -> None:
    """Jobs that compute and send in turn."""
    case = drawn(random.Random(iterations), jobs, links, iterations)
    assert weft(case) == pytest.approx(_simgrid.run(simgrid_python, case)[0], rel=1e-6)
