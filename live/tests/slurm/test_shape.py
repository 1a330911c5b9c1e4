from pathlib import Path

import pytest

from live.tests.slurm.serving import Serving, ended, environment, running, serve_until
from weft.errors import InputError
from weft_live.slurm.records import Node, Record
from weft_live.slurm.request import on_fewest_nodes


@pytest.mark.parametrize(
    ("asked", "gpus", "each"),
    [
        ({"gpus_per_job": 8}, 8, 0),
        ({"gpus_per_job": 8, "nodes_at_most": 1}, 8, 8),
        ({"gpus_per_job": 8, "nodes_at_most": 2, "node_count": 2}, 8, 4),
        ({"gpus_per_job": 8, "node_count": 2, "tasks": 8}, 8, 0),  # Slurm's guess, not the user's word
        ({"gpus_per_node": 4, "nodes_at_most": 2, "node_count": 2}, 8, 4),
        ({"gpus_per_node": 4, "nodes_at_most": 4, "node_count": 2}, 8, 4),
        ({"gpus_per_task": 1, "tasks": 8, "tasks_per_node": 4, "node_count": 2}, 8, 4),
        ({"gpus_per_task": 2, "tasks": 4}, 8, 0),
    ],
)
def test_what_a_request_says_about_its_shape(asked: dict[str, int], gpus: int, each: int) -> None:
    made = Record("17", "17", "PENDING", False, True, **asked)  # type: ignore[arg-type]
    assert (made.gpus, made.gpus_on_each_node) == (gpus, each)


@pytest.mark.parametrize(
    ("asked", "nodes"),
    [
        ({"node_count": 2, "tasks": 1, "cpus_per_task": 8}, 1),
        ({"node_count": 3, "tasks": 4, "cpus_per_task": 8, "nodes_at_least": 2, "nodes_at_most": 4}, 2),
        ({"node_count": 2, "tasks": 40, "cpus_per_task": 2}, 2),  # they do not fit on one
        ({"node_count": 1, "tasks": 40, "cpus_per_task": 2}, 2),  # 24.11 guesses one all the same
        ({"node_count": 1, "tasks": 4, "cpus_per_task": 40, "nodes_at_most": 8}, 4),  # one task fits on a node
        ({"node_count": 1, "tasks": 4, "cpus_per_task": 40, "nodes_at_most": 2}, 2),  # Slurm will refuse it
        ({"node_count": 1, "tasks": 1, "cpus_per_task": 100}, 1),  # this, too
        ({"node_count": 2, "tasks": 4, "cpus_per_task": 2, "tasks_per_node": 2}, 2),
        ({"node_count": 2, "tasks": 128}, 2),
        ({"node_count": 2, "tasks": 1, "cpus_per_task": 8, "nodes_at_least": 0}, 2),  # a version that does not say
    ],
)
def test_a_job_has_the_fewest_nodes_that_its_tasks_fit_on(asked: dict[str, int], nodes: int) -> None:
    made = Record("17", "17", "PENDING", False, True, gpus_per_node=2, **{"nodes_at_least": 1, **asked})  # type: ignore[arg-type]
    assert on_fewest_nodes(made, [Node("n1", True, 8, cpus=64), Node("n2", True, 8, cpus=32)]).gpus == 2 * nodes


def test_a_shape_that_is_not_even_is_refused() -> None:
    made = Record("17", "17", "PENDING", False, True, gpus_per_job=8, nodes_at_most=3, node_count=3)
    with pytest.raises(InputError, match="wants 8 GPUs on 3 nodes, which is not the same number on each"):
        assert made.gpus_on_each_node


@pytest.mark.engine
def test_a_job_gets_the_shape_that_it_asks_for(serving: Serving, tmp_path: Path) -> None:
    """With three GPUs free on each node a job of one node with eight waits, and a job that leaves its shape to weft is
    spread; srun runs every task of both."""
    server = serving.start()
    fillers = [serving.sbatch(5, "sleep 600", "--nodes=1") for _ in range(16)]
    serve_until(server, running(server, *fillers))
    whole = f"sh -c 'env > {tmp_path}/whole; srun -l hostname > {tmp_path}/whole.tasks'"
    free = f"sh -c 'env > {tmp_path}/free; srun -l hostname > {tmp_path}/free.tasks'"
    options = ("--nodes=1", "--gpus-per-node=8", "--ntasks-per-node=8", "--cpus-per-task=6")
    file = tmp_path / "whole.sh"
    file.write_text(f"#!/bin/sh\nexec {whole}\n")
    asked = serving.box.sbatch(*options, str(file))
    file = tmp_path / "free.sh"
    file.write_text(f"#!/bin/sh\nexec {free}\n")
    spread = serving.box.sbatch(*options, "--comment=weft: shape=free", str(file))
    serve_until(server, ended(server, spread))
    assert asked in server.core.table.waiting
    assert server.core.table.held[asked] == "wants 1 servers with 8 GPUs each; fewer have them free"
    found = environment(tmp_path / "free")
    assert (found["SLURM_NNODES"], found["SLURM_GPUS_ON_NODE"]) == ("4", "2")
    assert found.get("SLURM_NTASKS_PER_NODE") is None
    assert len((tmp_path / "free.tasks").read_text().splitlines()) == 8
    server.cancel(fillers[3])
    serve_until(server, ended(server, asked))
    found = environment(tmp_path / "whole")
    assert (found["SLURM_NNODES"], found["SLURM_GPUS_ON_NODE"], found["SLURM_NTASKS_PER_NODE"]) == ("1", "8", "8")
    assert len((tmp_path / "whole.tasks").read_text().splitlines()) == 8
