from collections.abc import Sequence
from itertools import count

import pytest

from live.tests.jobs import LOOP
from live.tests.slurm.serving import Serving, python
from testkit.sandbox import Sandbox
from weft.core.world import World
from weft.model.job import Job
from weft.network.topologies.files import parse_slurm_topology
from weft.testing import check_world
from weft_live.description import Description
from weft_live.slurm.world import SlurmWorld

pytestmark = pytest.mark.engine


def test_it_is_a_world(serving: Serving, box: Sandbox) -> None:
    """On two of its nodes, so that not all jobs fit at once."""
    cluster = parse_slurm_topology("SwitchName=leaf1 Nodes=n[1-2]\n", gpus={"n1": 8, "n2": 8})
    made: list[SlurmWorld] = []
    numbers = count()

    def make(jobs: Sequence[Job], *, latency_s: float, failure_rate: float, seed: int) -> World:
        while made:
            made.pop().close()  # the suite uses one after the other
        number = next(numbers)
        world = SlurmWorld(cluster, serving.tmp_path / f"run{number}", box.slurm, poll_s=0.2)
        made.append(world)
        for job in jobs:
            key = serving.sbatch(job.gpus, python(serving.tmp_path, LOOP, job.profile.compute_s, job.iterations))
            said = Description(name=job.id, argv=("sbatch",), gpus=job.gpus, iterations=job.iterations, user="root")
            world.submit(job, said, key)
        return world

    try:
        check_world(make, iteration_s=0.06, deterministic=False)
    finally:
        for world in made:
            world.close()
