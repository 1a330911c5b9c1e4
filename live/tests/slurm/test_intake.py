from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.stacks import resolve
from weft.testing import toy_cluster
from weft_live.clock import Clock
from weft_live.description import Description
from weft_live.server.ledger import Ledger
from weft_live.server.profiles import Profiles
from weft_live.slurm.commands import Slurm
from weft_live.slurm.intake import Intake, refuse_uneven, refuse_wishes
from weft_live.slurm.records import Node, Record
from weft_live.slurm.world import SlurmWorld

JOB = Record("17", "17", "PENDING", False, True, gpus_per_job=8, partition="train")
NODES = [
    Node("n1", True, 8, "a100", partitions=frozenset({"train", "small"})),
    Node("n2", True, 8, "h100", partitions=frozenset({"train"})),
    Node("n3", True, 8),  # of which Slurm tells nothing
]


@pytest.mark.parametrize("partition", ["train", "small,train"])
def test_one_that_may_run_everywhere_is_welcome(partition: str) -> None:
    refuse_wishes(replace(JOB, partition=partition), NODES)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"partition": "small"}, "its partition small lacks n2, which weft serves too"),
        ({"gpu": "a100"}, "it wants GPUs of type a100, and n2 has h100"),
        ({"nodes_said": "--exclude"}, "it says --exclude, and nodes are weft's choice"),
    ],
)
def test_others_are_told_why_not(change: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        refuse_wishes(replace(JOB, **change), NODES)  # type: ignore[arg-type]


@pytest.mark.parametrize("gpus", [1, 8, 9, 12, 16, 20])
def test_numbers_that_can_be_split_evenly(gpus: int) -> None:
    """9 is 3 on each of three nodes; 20 is 5 on each of four, since one of the five has but 4."""
    refuse_uneven(gpus, [8, 8, 8, 8, 4])


@pytest.mark.parametrize("gpus", [11, 13, 28, 33, 36])
def test_numbers_that_cannot_are_refused_at_once(gpus: int) -> None:
    """28 is 7 on each of four nodes, and the fourth has 4."""
    with pytest.raises(InputError, match=f"wants {gpus} GPUs, and no nodes can give it the same number on each"):
        refuse_uneven(gpus, [8, 8, 8, 4, 4])


def test_a_job_is_there_from_when_it_could_run(tmp_path: Path) -> None:
    """Seen while it had to wait for another (even by the server before this one), it is there when it is let go; a job
    that never had to is there from its submission, and one with a time of its own from that."""
    ledger, clock = Ledger(None), Clock.begin()
    world = SlurmWorld(toy_cluster(), tmp_path, Slurm(path="/nowhere"), clock, tied=True)
    try:
        wall_s = clock.wall_s
        plain, timed, after = (
            replace(JOB, key=key, number=key, gpus_per_job=1, submit_s=wall_s + 10, eligible_s=eligible)
            for key, eligible in (("17", 0.0), ("18", wall_s + 20), ("19", 0.0))
        )

        def intake() -> Intake:
            return Intake(world, ledger, frozenset(), resolve("fifo").planner, Profiles(world.cluster), set(), print)

        intake().accept([], {"19", "20_3"}, {}, 12.0)
        intake().accept([plain, timed, after], {"20_3"}, {}, 30.0)
        assert {row.id: round(row.submit_s) for row in ledger.jobs()} == {"17": 10, "18": 20, "19": 30}
        assert ledger.meta("later") == ["20"]
    finally:
        world.close()
        ledger.close()


def test_a_shape_that_the_planner_cannot_promise_is_refused() -> None:
    described = Description.from_json({"name": "a", "argv": ["true"], "gpus": 4, "per_node": 2})
    described.refuse(toy_cluster(), frozenset(), resolve("random").planner)
    with pytest.raises(InputError, match="which themis cannot promise; choose a stack with an order"):
        described.refuse(toy_cluster(), frozenset(), resolve("themis").planner)
