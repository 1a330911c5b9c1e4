import pytest

from weft.core.cycle import Core
from weft.core.loop import run
from weft.model import Job
from weft.model.profile import Compute, Profile
from weft.network.cost import DALLY_TABLE_I, Cached, Shape, TierTable, shape_of
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
