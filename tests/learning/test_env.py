"""The environment steps the simulation itself: what an agent plays is what the same policy does in `weft.simulate`."""

from typing import Any

import numpy as np
import pytest

import weft
from weft.errors import InputError
from weft.learning import FEATURES, Chooser, Seen

gymnasium = pytest.importorskip("gymnasium", reason="make dev installs it")

LEAF = {"topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 4, "oversubscription": 4.0}
MIX = {"source": "poisson", "jobs": 25, "load": 1.2, "models": ["resnet50", "vgg16"], "iterations": [50, 300],
       "gpus": {"1": 0.4, "2": 0.2, "4": 0.2, "8": 0.2}}  # fmt: skip
SCENARIOS: dict[str, dict[str, Any]] = {
    "plain": {"cluster": LEAF, "workload": MIX},
    "slow and failing": {"cluster": LEAF, "workload": MIX, "run": {"start_latency_s": 3.0, "failure_rate": 0.2}},
    "lost server": {"cluster": LEAF, "workload": MIX,
                    "run": {"outages": [{"server": "s0", "at_s": 5.0, "for_s": 60.0}]}},
    "waiting place": {"cluster": LEAF, "workload": MIX, "stack": {"name": "dally"}},
    "shared GPUs": {"cluster": LEAF, "workload": MIX, "stack": {"order": "fifo", "place": "first-fit:shared"}},
    "cassini": {"cluster": LEAF, "workload": MIX, "stack": {"name": "fifo+cassini"}},
    "limits": {"cluster": LEAF, "workload": MIX, "limits": {"per_user": 8}},
    "joint planner": {"cluster": LEAF, "workload": MIX, "stack": {"name": "themis"}},
}  # fmt: skip


def env(scenario: dict[str, Any], **more: Any) -> Any:
    from weft.learning import QueueEnv

    return QueueEnv(scenario, **more)


@pytest.mark.parametrize("name", ["plain", "slow and failing"])
def test_gymnasiums_own_check(name: str) -> None:
    from gymnasium.utils.env_checker import check_env

    import weft.learning.env  # noqa: F401 - registers it

    check_env(gymnasium.make("weft/Queue-v0", scenario=SCENARIOS[name]).unwrapped)


def shortest(seen: dict[str, Any]) -> int:
    rows = len(seen["jobs"])
    return int(np.argmin(np.where(seen["mask"][:rows], seen["jobs"][:, FEATURES.index("left")], 2.0)))


class Shortest(Chooser):
    """The same as a policy."""

    name = "shortest"

    def choose(self, seen: Seen) -> int | None:
        return shortest(seen.arrays)


@pytest.mark.parametrize("name", SCENARIOS)
def test_plays_what_the_policy_does(name: str) -> None:
    """The same jobs at the same times, and rewards that sum up to minus all completion times."""
    from weft.core.layered import Layered
    from weft.scenario import Scenario
    from weft.scenario.build import Layers, build_stack

    scenario = SCENARIOS[name]
    world = env(scenario)
    seen, _ = world.reset(seed=3)
    total, done, steps = 0.0, False, 0
    while not done:
        seen, reward, terminated, truncated, info = world.step(shortest(seen))
        assert world.observation_space.contains(seen)
        assert not truncated
        total, done, steps = total + reward, terminated, steps + 1
    assert steps >= 25
    assert info["finished"] == 25

    made = build_stack(Scenario.load(scenario), Layers())

    class Same(Shortest):
        place = made.planner.place if isinstance(made.planner, Layered) else Chooser.place

    run = weft.simulate(scenario, seed=3, stack={"planner": Same, "interleave": made.interleave, "pace": made.pace})
    mine, theirs = world.result().jobs, run.jobs
    assert mine["finish_s"].to_list() == theirs["finish_s"].to_list()
    assert mine["start_s"].to_list() == theirs["start_s"].to_list()
    assert total == pytest.approx(-theirs["jct_s"].sum(), rel=1e-9)


def test_an_episode_is_cut_at_the_time() -> None:
    world = env({**SCENARIOS["plain"], "run": {"until_s": 30.0}})
    seen, _ = world.reset(seed=1)
    while True:
        seen, _, terminated, truncated, info = world.step(shortest(seen))
        if terminated or truncated:
            break
    assert (terminated, truncated, info["now_s"]) == (False, True, 30.0)
    assert not seen["mask"].any()
    with pytest.raises(InputError, match="call reset"):
        world.step(0)


def test_one_choice_by_hand() -> None:
    """Two jobs of 8 GPUs on 8: the second can be chosen when the first ends. Two are there for one unit, then one."""
    job = {"model": "resnet50", "gpus": 8, "iterations": 100}
    cluster = {"topology": "single-switch", "servers": 1, "gpus_per_server": 8}
    world = env({"cluster": cluster, "workload": {"source": "jobs", "job": [job, job]}}, rows=2)
    seen, info = world.reset(seed=0)
    assert (info["now_s"], info["waiting"]) == (0.0, 2)
    assert seen["mask"].tolist() == [1, 1, 0]
    seen, reward, terminated, _, info = world.step(1)
    unit = info["now_s"]
    assert reward == pytest.approx(-2 * unit)
    assert seen["mask"].tolist() == [1, 0, 0]
    _, reward, terminated, _, info = world.step(2)  # none counts as the first that can start, since nothing runs
    assert terminated
    assert reward == pytest.approx(-unit)
    assert info["now_s"] == pytest.approx(2 * unit)
    assert world.result().jobs["start_s"].to_list() == [pytest.approx(unit), 0.0]


def test_mistakes_are_told() -> None:
    from weft.learning import QueueEnv

    with pytest.raises(InputError, match="rows is 0"):
        env(SCENARIOS["plain"], rows=0)
    with pytest.raises(InputError, match="call reset"):
        QueueEnv(SCENARIOS["plain"]).step(0)
    world = env(SCENARIOS["plain"])
    world.reset(seed=1)
    with pytest.raises(InputError, match="action 17 is out of range; give 0 to 16"):
        world.step(17)


def test_seen_has_names_for_its_arrays() -> None:
    zeros = np.zeros((1, len(FEATURES)), np.float32)
    assert set(Seen(zeros, zeros[0], zeros[0], zeros[0].astype(np.int8)).arrays) == {"jobs", "servers", "racks", "mask"}
