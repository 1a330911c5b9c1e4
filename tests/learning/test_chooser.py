"""Choosers: policies that are asked for one job after another."""

import json
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.core.cycle import Core
from weft.core.loop import run
from weft.core.stack import Stack
from weft.errors import DecisionError, StackError
from weft.learning import FEATURES, Chooser, Seen
from weft.model.plan import Start
from weft.stacks import describe
from weft.testing import ToyWorld, check_planner, toy_cluster, toy_job


class First(Chooser):
    """The first job that can start."""

    name = "first"

    def choose(self, seen: Seen) -> int | None:
        return int(np.argmax(seen.mask))


class Shortest(Chooser):
    """The shortest of those that can start."""

    name = "shortest"
    rows = 4

    def choose(self, seen: Seen) -> int | None:
        return int(np.argmin(np.where(seen.mask[:-1], seen.jobs[:, FEATURES.index("left")], 2.0)))


class Never(Chooser):
    name = "never"

    def choose(self, seen: Seen) -> int | None:
        return None


class Wild(Chooser):
    name = "wild"

    def choose(self, seen: Seen) -> int | None:
        return 99


class Tight(Shortest):
    place = "tight"


@pytest.mark.parametrize("kind", [First, Shortest, Never, Tight])
def test_choosers_conform(kind: type[Chooser]) -> None:
    check_planner(kind)


def starts(chooser: Chooser, jobs: list[object]) -> list[tuple[float, str]]:
    world = ToyWorld(toy_cluster(), jobs)  # type: ignore[arg-type]
    core = Core(Stack(chooser.name, chooser), world)
    run(core, world)
    return [(at, one.job) for _, at, one in core.journal.entries if isinstance(one, Start)]  # type: ignore[attr-defined]


def test_by_hand() -> None:
    """16 GPUs, jobs of 16 GPUs and 30, 10 and 20 s. Shortest first: at 0, 10 and 30 s. Who never chooses gets the first
    one whenever the cluster is empty: at 0, 30 and 40 s."""
    jobs = [toy_job("a", 16, iterations=30), toy_job("b", 16, iterations=10), toy_job("c", 16, iterations=20)]
    assert starts(Shortest(), list(jobs)) == [(0, "b"), (10, "c"), (30, "a")]
    assert starts(Never(), list(jobs)) == [(0, "a"), (30, "b"), (40, "c")]
    with pytest.raises(DecisionError, match="wild chose row 99; rows are 0 to 15"):
        starts(Wild(), list(jobs))


def test_what_is_seen() -> None:
    """Before the second choice one of four servers is full, and a job of 16 GPUs has no room."""
    found: list[Seen] = []

    class Looking(First):
        def choose(self, seen: Seen) -> int | None:
            found.append(seen)
            return super().choose(seen)

    starts(Looking(), [toy_job("a", 4), toy_job("b", 16), toy_job("c", 8)])
    first, second = found[0], found[1]
    assert [job.id for job in first.queue] == ["a", "b", "c"]
    assert [job.id for job in second.queue] == ["c", "b"]
    assert second.why_not[0] == ""
    assert first.mask.tolist() == [1, 1, 1, *[0] * 14]  # none is not allowed while nothing runs
    assert first.jobs[:4, 0].tolist() == [1, 1, 1, 0]
    assert first.jobs[:3, FEATURES.index("gpus")].tolist() == [0.25, 1.0, 0.5]
    assert second.mask.tolist() == [1, *[0] * 15, 1]
    assert sorted(second.servers.tolist()) == [0.0, 1.0, 1.0, 1.0]
    assert sorted(second.racks.tolist()) == [0.5, 1.0]
    assert all(array.min() >= 0 and array.max() <= 1 for seen in found for array in seen.arrays.values())


SCENARIO = {
    "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 4},
    "workload": {"source": "poisson", "jobs": 20, "load": 0.9, "models": ["resnet50"], "gpus": {"1": 0.5, "4": 0.5},
                 "iterations": [50, 200]},
}  # fmt: skip


def test_limits_hold() -> None:
    """With at most 4 GPUs for the one user, no two jobs of 4 run at once."""
    run = weft.simulate({**SCENARIO, "limits": {"per_user": 4}}, stack=First)
    spans = list(run.spans.iter_rows(named=True))
    for one in spans:
        held = sum(len(other["gpus"]) for other in spans if other["start_s"] <= one["start_s"] < other["end_s"])
        assert held <= 4
    assert run.jobs["status"].unique().to_list() == ["finished"]


FILE = """
from weft.learning import Chooser
from weft.policies.order.fifo import Fifo

class Learned(Chooser):
    def choose(self, seen):
        return int(seen.mask.argmax())

class Mine(Fifo):
    pass
"""


def test_a_class_in_a_file_is_a_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "some" / "where"
    folder.mkdir(parents=True)
    (folder / "learned.py").write_text(FILE)
    monkeypatch.chdir(folder)
    for name in ("learned.py:Learned", "../where/learned.py:Learned"):
        assert describe(name) == {"planner": name, "interleave": "none", "pace": "fair"}
        assert describe(f"{name}/none/at-most:2")["pace"] == "at-most:2"
        assert len(weft.compare(SCENARIO, [name, "fifo"], 1).runs) == 2
    assert describe("learned.py:Mine") == {
        "order": "learned.py:Mine",
        "place": "best-fit",
        "interleave": "none",
        "pace": "fair",
    }
    assert describe("../where/learned.py:Mine/tight")["place"] == "tight"
    with pytest.raises(StackError, match="has no class Lerned; did you mean Learned"):
        weft.simulate(SCENARIO, stack="learned.py:Lerned")


def test_its_memory_is_json() -> None:
    assert json.loads(json.dumps(First().initial_state())) == First().initial_state()
