import json
from dataclasses import replace

import pytest

from testkit.toys import decided, moves, played
from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Job, Start, Stop
from weft.model.profile import Compute, Profile
from weft.network.cost import Tier, TierTable
from weft.policies.place import packing
from weft.sim.spec import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job


def job(name: str, gpus: int, iterations: int, submit_s: float = 0.0, memory: float = 1e9) -> Job:
    """A second of computing in each iteration; the network costs what the table says."""
    profile = Profile(name, (Compute("c", 1.0),), gpus, memory_bytes=memory)
    return Job(name, submit_s, gpus, iterations, {gpus: profile}, "m")


def drive(jobs: list[Job], comm: float, gpus: int = 2) -> tuple[Core, SimWorld]:
    network = NetworkSpec(cost=TierTable({"m": Tier(comm, comm, comm)}))
    world = SimWorld(toy_cluster(1, 1, gpus), jobs, network, RunSpec(), shared_gpus=True)
    core = played(world, "gandiva-packing:20")
    world.close()
    return core, world


TURNS = [(0.0, Start, "a"), (20.0, Stop, "a"), (20.0, Start, "b"), (40.0, Stop, "b"), (40.0, Start, "a")]


def test_by_hand() -> None:
    """A server of 2 GPUs, slices of 20 s; a and b want both, 40 times 1 s of computing and
    2 s of communication. Each has a slice of its own, and does 6 iterations in it. At 40 s both are measured: b is
    packed with a. One computes while the other communicates: 34 iterations of 3 s each, until 143 s."""
    core, world = drive([job("a", 2, 40), job("b", 2, 40)], 2.0)
    assert moves(core) == [*TURNS, (40.0, Start, "b")]
    assert core.journal.entries[-1][2].reason == "its turn; packed with a"  # type: ignore[attr-defined]
    assert world.now() == pytest.approx(143.0)


def test_it_is_undone_where_it_does_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs that only compute get done together what one does alone: 10 iterations each in 20 s, and with those
    under way 11. Where 1.2 is asked for, b leaves when the slice ends at 60 s, and is not packed with a again."""
    monkeypatch.setattr(packing, "PAYS", 1.2)
    core, _ = drive([job("a", 2, 100), job("b", 2, 100)], 0.0)
    assert moves(core)[:9] == [
        *TURNS, (40.0, Start, "b"), (60.0, Stop, "b"), (80.0, Stop, "a"), (80.0, Start, "b"),
    ]  # fmt: skip
    stop = next(d for t, d in decided(core) if t == 60.0 and isinstance(d, Stop))
    assert stop.reason == "packing with a does not pay: together 1.10 of what one does alone"
    packed = [d for *_, d in core.journal.entries if isinstance(d, Start) and "packed" in d.reason]  # type: ignore[attr-defined]
    assert len(packed) == 1


def test_memory_and_size_must_fit() -> None:
    """Two jobs that want more than half of a GPU's memory do not share it; nor do jobs of different sizes."""
    most = 0.6 * toy_cluster(1, 1, 2).gpu_memory_bytes
    for jobs in ([job("a", 2, 60, memory=most), job("b", 2, 60, memory=most)], [job("a", 2, 60), job("b", 1, 60)]):
        core, _ = drive(jobs, 2.0)
        assert not [d for *_, d in core.journal.entries if isinstance(d, Start) and "packed" in d.reason]  # type: ignore[attr-defined]


def test_a_packed_job_moves_to_free_gpus() -> None:
    """3 GPUs and jobs of 1 GPU: a, b (200 s) and c (60 s), d (200 s) from 25 s on. At 40 s d has its turn in place of
    a, which is packed with b. At 60 s c is done, and a has a GPU of its own again. d is the last to end, at 240 s."""
    jobs = [job("a", 1, 200), job("b", 1, 200), job("c", 1, 60), job("d", 1, 200, submit_s=25.0)]
    core, world = drive(jobs, 0.0, gpus=3)
    starts = [(t, d.job, d.gpus) for t, d in decided(core) if isinstance(d, Start)]
    assert starts[3:] == [(40.0, "d", (0,)), (40.0, "a", (1,)), (60.0, "a", (2,))]
    assert world.now() == pytest.approx(240.0)


def test_state_is_json() -> None:
    core, _ = drive([job(f"j{i}", 1 + i % 2, 20 + i) for i in range(8)], 1.0)
    state = core.planner_state["place"]
    assert json.loads(json.dumps(state)) == state
    assert not state["alone"]  # all are gone


def test_a_world_without_shared_gpus_refuses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ToyWorld(toy_cluster(1, 1, 2), [toy_job("a", 1, 1)])
    monkeypatch.setattr(world, "capabilities", replace(world.capabilities, gpu_sharing=False))
    with pytest.raises(StackError, match="puts several jobs on one GPU"):
        Core(resolve("gandiva-packing"), world)
