"""cassini:printed, the algorithm to the letter of its paper."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weft.model.flows import Traffic
from weft.model.plan import Candidate, Plan
from weft.policies.interleave.cassini import Cassini, Settings
from weft.stacks import resolve
from weft.testing import check_interleave

PRINTED = Cassini(Settings(printed=True))
Jobs = dict[str, tuple[float, tuple[int, ...], float]]  # iteration, links and seconds of sending at 45 of 50 Gbit/s


class World:
    """Jobs whose links are those of the plan that their first GPU names."""

    def __init__(self, *plans: Jobs, now: float = 0.0) -> None:
        self.now, self.waiting, self.running, self.plans = now, dict[str, Any](), dict[str, Any](), plans
        self.cluster = SimpleNamespace(topology=SimpleNamespace(capacity=np.full(9, 50.0)))

    def job(self, name: str) -> Any:
        return SimpleNamespace(job=name)

    def traffic(self, job: str, gpus: tuple[int, ...]) -> Traffic:
        period, links, length = self.plans[gpus[0]][job]
        return Traffic(period, 1, 0.0, 0.0, dict.fromkeys(links, ((0.0, length, 45.0),)))

    def candidates(self, **restarts: float) -> list[Candidate]:
        return [
            Candidate(Plan(dict.fromkeys(jobs, (i, 9))), {}, restart_share=restarts.get(f"plan_{i}", 0.0))
            for i, jobs in enumerate(self.plans)
        ]


def picked(world: World, state: dict[str, Any] | None = None, **restarts: float) -> Any:
    return PRINTED.pick(world, world.candidates(**restarts), state or PRINTED.initial_state())  # type: ignore[arg-type]


def chosen(found: Any) -> int:
    return int(next(iter(found.candidate.plan.placements.values()))[0])


def test_conforms_and_has_a_name() -> None:
    check_interleave(lambda: Cassini(Settings(printed=True)), range(2))
    assert resolve("themis+cassini:printed").interleave.settings.printed  # type: ignore[attr-defined]


def test_a_sequence_by_hand() -> None:
    """Two jobs of 360 ms send for 90 ms: a step of the grid is 5 ms, and 18 steps are the first at which no sample sees
    both. The default takes the middle of the widest optimum, half a circle."""
    pair: Jobs = {"a": (0.36, (1,), 0.09), "b": (0.36, (1,), 0.09)}
    first = picked(World(pair))
    gates = first.candidate.plan.gates
    assert [(gates[job].epoch_s, gates[job].period_s) for job in "ab"] == [
        (0.0, pytest.approx(0.36)), (pytest.approx(0.09), pytest.approx(0.36)),
    ]  # fmt: skip
    ours = Cassini().pick(World(pair), World(pair).candidates(), {"gates": {}})  # type: ignore[arg-type]
    assert ours.candidate.plan.gates["b"].epoch_s - ours.candidate.plan.gates["a"].epoch_s == pytest.approx(0.18)
    again = picked(World(pair, now=7.0), first.state)  # nothing has changed: the openings stay
    assert again.candidate.plan.gates == gates
    # c comes, on b's second link. There c's first free angle is 18 steps after b's, which is at 18 steps itself.
    three: Jobs = {"a": pair["a"], "b": (0.36, (1, 2), 0.09), "c": (0.36, (2,), 0.09)}
    then = picked(World(three, now=7.0), first.state).candidate.plan.gates
    assert [then[job].epoch_s - then["a"].epoch_s for job in "bc"] == [pytest.approx(0.09), pytest.approx(0.18)]
    assert then["a"].epoch_s == 0.0  # b keeps the clock


def test_figure_5_on_the_grid() -> None:
    """40 and 60 ms on a circle of 120. a sends in 0 to 10, 40 to 50 and 80 to 90 ms. b, which sends for 10 ms, is free
    of it first when it starts as a has sent: at 10 and 70 ms, which is 6 steps."""
    gates = picked(World({"a": (0.04, (1,), 0.01), "b": (0.06, (1,), 0.01)})).candidate.plan.gates
    assert gates["b"].epoch_s - gates["a"].epoch_s == pytest.approx(0.01)
    assert (gates["a"].period_s, gates["b"].period_s) == (pytest.approx(0.04), pytest.approx(0.06))


def test_restarts_have_no_price_and_loops_are_discarded() -> None:
    """Plan 0: all on one link, 1: a ring of three links, light, 2: in pairs."""
    together: Jobs = dict.fromkeys("abc", (0.3, (1,), 0.15))
    ring: Jobs = {"a": (0.3, (1, 2), 0.01), "b": (0.3, (2, 3), 0.01), "c": (0.3, (3, 1), 0.01)}
    pairs: Jobs = {"a": (0.3, (1,), 0.15), "b": (0.3, (1,), 0.15), "c": (0.3, (2,), 0.15)}
    world = World(together, ring, pairs)
    assert chosen(picked(world, plan_2=0.9)) == 2
    ours = Cassini().pick(world, world.candidates(plan_2=0.9), {"gates": {}})  # type: ignore[arg-type]
    assert chosen(ours) != 2
    looped = picked(World(ring, ring))  # nothing is left: the planner's own, unshifted
    assert (chosen(looped), looped.candidate.plan.gates) == (0, {})


def test_jobs_that_do_not_fit_are_delayed_once_whether_it_pays_or_not() -> None:
    """Three quarters of the circle each: half of it is overlap whatever the shift. And periods with no small ratio."""
    world = World({"a": (0.3, (1,), 0.225), "b": (0.3, (1,), 0.225)})
    gates = picked(world).candidate.plan.gates
    assert {gate.period_s for gate in gates.values()} == {0.0}
    odd = picked(World({"a": (0.293, (1,), 0.2), "b": (0.397, (1,), 0.3)})).candidate.plan.gates
    assert set(odd) == {"a", "b"}
    rare = World({"a": (0.25, (1,), 0.01), "b": (0.26, (1,), 0.01)})
    assert picked(rare).candidate.plan.gates
    ours = Cassini().pick(rare, rare.candidates(), {"gates": {}})  # type: ignore[arg-type]
    assert ours.candidate.plan.gates == {}  # idle time would cost more than it gains
