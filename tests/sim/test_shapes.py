import pytest

from weft.core.cycle import Core
from weft.core.loop import run
from weft.model import Job
from weft.model.profile import Compute, Profile, Transfer
from weft.network.cost import DALLY_TABLE_I, Cached, Shape, TierTable, shape_of
from weft.sim.engine.program import PARTS
from weft.sim.lower import Lowering
from weft.sim.spec import NetworkSpec, RunSpec
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import toy_cluster

MODELS = tuple(DALLY_TABLE_I)
SIZES = (1, 1, 1, 2, 4, 8, 8, 16)


def test_500_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int, Shape]] = []
    answer = TierTable.exposed_s

    def count(self: TierTable, profile: Profile, model: str, shape: Shape) -> float:
        asked.append((model, profile.workers, shape))
        return answer(self, profile, model, shape)

    monkeypatch.setattr(TierTable, "exposed_s", count)
    profiles = {n: Profile("p", (Compute("c", 1.0),), n) for n in set(SIZES)}
    jobs = [
        Job(f"j{i}", 0.0, SIZES[i % 8], 3000 + 40 * i, {SIZES[i % 8]: profiles[SIZES[i % 8]]}, MODELS[i % 6])
        for i in range(500)
    ]
    world = SimWorld(toy_cluster(8, 8, 8), jobs, NetworkSpec(cost=Cached(TierTable(DALLY_TABLE_I))), RunSpec())
    run(Core(resolve("dally-nowait"), world), world, until=20_000.0)
    world.close()
    used = {
        (world.records[span.job].job.model, len(span.gpus), shape_of(world.cluster, span.gpus)) for span in world.spans
    }
    assert len(world.spans) > 400
    assert sorted(asked) == sorted(used)
    assert len(asked) < 100


def test_a_job_that_comes_back_has_the_program_it_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is kept programs are equal, row by row; only as many nodes are kept as there is room for."""
    cluster = toy_cluster(2, 2, 4)
    tasks = (Compute("c", 1.0), Transfer("t", 1e9, after=(0,)))
    profiles = [Profile("p", tasks, n) for n in (6, 8)]
    kept, anew = Lowering(cluster, NetworkSpec()), Lowering(cluster, NetworkSpec())
    first = [kept.program(profile, tuple(range(profile.workers)), flow_key=3) for profile in profiles]
    for profile, program in zip(profiles, first, strict=True):
        where = tuple(range(profile.workers))
        assert kept.program(profile, where, flow_key=3) is program
        assert kept.program(profile, tuple(g + 4 for g in where), flow_key=3) is not program
        again = anew.program(profile, where, flow_key=3)
        assert all((getattr(again, part) == getattr(program, part)).all() for part in PARTS)
    monkeypatch.setattr("weft.sim.lower._NODES", len(first[0].nodes))
    assert kept.program(profiles[1], tuple(range(8)), flow_key=4) is not first[1]
    assert kept.program(profiles[0], tuple(range(6)), flow_key=3) is not first[0]
