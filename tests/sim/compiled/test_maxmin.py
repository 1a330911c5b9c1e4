from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.oracles.sharing import Sharer, k_way, max_min
from weft.runs.run import Task, run_task
from weft.scenario import Scenario
from weft.scenario.build import Layers
from weft.scenario.shipped import scenario_path
from weft.sim.compiled.state import UNLIMITED, rate_unit
from weft.sim.engine import Engine, EngineSpec
from weft.sim.engine.program import make_program, transfer_node

N_LINKS = 4
CAPACITIES = st.lists(st.integers(1, 10**6), min_size=N_LINKS, max_size=N_LINKS)
USES = st.dictionaries(st.integers(0, N_LINKS - 1), st.integers(1, 3), min_size=1, max_size=3)
DEMANDS = st.one_of(st.just(UNLIMITED), st.integers(1, 10**6))
SHARERS = st.lists(st.tuples(USES, DEMANDS), min_size=1, max_size=12)
Flows = Sequence[tuple[dict[int, int], float]]


def solved(sharers: Flows, capacity: Sequence[int]) -> list[Sharer]:
    """Sharers with their rates."""
    made = [Sharer(uses, int(demand)) for uses, demand in sharers]
    max_min(made, capacity)
    return made


@given(SHARERS, CAPACITIES)
def test_feasible(sharers: Flows, capacity: list[int]) -> None:
    """No link carries more than it can, and nobody gets more than it wants. In whole units this is exact."""
    made = solved(sharers, capacity)
    for k, c in enumerate(capacity):
        assert sum(s.rate * s.links.get(k, 0) for s in made) <= c
    assert all(0 <= s.rate <= s.demand for s in made)


@given(SHARERS, CAPACITIES)
def test_everybody_has_a_bottleneck(sharers: Flows, capacity: list[int]) -> None:
    """Max-min: who has less than it wants uses a full link on which nobody is faster.

    Full means that less than one unit a flow is left.
    """
    made = solved(sharers, capacity)
    for s in made:
        full = []
        for k in s.links:
            users = [u for u in made if k in u.links]
            left = capacity[k] - sum(u.rate * u.links[k] for u in users)
            at_top = sum(u.links[k] for u in users if u.rate == s.rate)
            full.append(left < at_top and all(u.rate <= s.rate for u in users))
        assert s.rate == s.demand or any(full)


@given(SHARERS, CAPACITIES, st.randoms(use_true_random=False))
def test_order_does_not_matter(sharers: Flows, capacity: list[int], rng: random.Random) -> None:
    """Rates belong to transfers, not to their places in a list."""
    order = list(range(len(sharers)))
    rng.shuffle(order)
    rates = [s.rate for s in solved(sharers, capacity)]
    shuffled = [s.rate for s in solved([sharers[i] for i in order], capacity)]
    assert [rates[i] for i in order] == shuffled


@given(SHARERS, CAPACITIES)
def test_as_in_fractions(sharers: Flows, capacity: list[int]) -> None:
    """Rounded down, a rate is less than the true one, by no more than the rounding of the links before it."""
    wants = [(uses, math.inf if demand == UNLIMITED else demand) for uses, demand in sharers]
    truth = filled(wants, [Fraction(c) for c in capacity])
    for s, true in zip(solved(sharers, capacity), truth, strict=True):
        assert abs(s.rate - true) <= 3 ** (N_LINKS + 1)


@given(SHARERS, CAPACITIES, st.randoms(use_true_random=False))
def test_followers(sharers: Flows, capacity: list[int], rng: random.Random) -> None:
    """Who is level with another is never faster; who is level with one that has not started stands still."""
    made = [Sharer(uses, int(demand)) for uses, demand in sharers]
    for i, s in enumerate(made[1:], 1):
        s.level_with = [made[k] for k in range(i) if rng.random() < 0.4]
        s.stalled = rng.random() < 0.2
    max_min(made, capacity)
    for k, c in enumerate(capacity):
        assert sum(s.rate * s.links.get(k, 0) for s in made) <= c
    for s in made:
        assert all(s.rate <= lead.rate for lead in s.level_with)
        assert s.rate == 0 or not s.stalled


@pytest.mark.parametrize(
    ("sharers", "rates"),
    [
        ([(UNLIMITED, 1, 0), (UNLIMITED, 4, 0)], [2, 8]),  # 10 x 1/5 and 10 x 4/5
        ([(UNLIMITED, 1, 0), (5, 4, 0)], [5, 5]),  # what a cap leaves the other has
        ([(4, 1, 0), (UNLIMITED, 1, 1), (UNLIMITED, 1, 1)], [4, 3, 3]),  # levels in turn: half each of 10 - 4
        ([(UNLIMITED, 1, 1), (UNLIMITED, 1, 0)], [0, 10]),
        ([(UNLIMITED, 3, 2), (6, 1, 0), (UNLIMITED, 1, 2)], [3, 6, 1]),  # 3 : 1 of 10 - 6
        ([(0, 7, 0), (UNLIMITED, 1, 5)], [0, 10]),  # who may have nothing keeps nothing from anybody
    ],
)
def test_weights_and_levels(sharers: list[tuple[int, int, int]], rates: list[int]) -> None:
    """A link of 10."""
    made = [Sharer({0: 1}, *sharer) for sharer in sharers]
    max_min(made, [10])
    assert [s.rate for s in made] == rates


@given(SHARERS, CAPACITIES, st.randoms(use_true_random=False))
def test_a_weight_is_so_many_flows(sharers: Flows, capacity: list[int], rng: random.Random) -> None:
    """A flow of weight w with a cap of c has what w flows with a cap of c / w have together."""
    weights = [rng.randint(1, 4) for _ in sharers]
    wholes = [demand if demand == UNLIMITED else w * demand for (_, demand), w in zip(sharers, weights, strict=True)]
    heavy = [Sharer(uses, int(d), w) for (uses, _), d, w in zip(sharers, wholes, weights, strict=True)]
    many = [[Sharer(uses, int(demand)) for _ in range(w)] for (uses, demand), w in zip(sharers, weights, strict=True)]
    max_min(heavy, capacity)
    max_min([s for group in many for s in group], capacity)
    assert [s.rate for s in heavy] == [sum(s.rate for s in group) for group in many]


@given(SHARERS, CAPACITIES, st.randoms(use_true_random=False))
def test_a_level_has_what_those_before_it_leave(sharers: Flows, capacity: list[int], rng: random.Random) -> None:
    """Level by level: each is max-min on the links without what the levels before it have, and touches none of it."""
    levels = [rng.randint(0, 2) for _ in sharers]
    made = [Sharer(uses, int(demand), level=level) for (uses, demand), level in zip(sharers, levels, strict=True)]
    max_min(made, capacity)
    left = list(capacity)
    for level in range(3):
        mine = [s for s in made if s.level == level]
        alone = [Sharer(s.links, s.demand) for s in mine]
        max_min(alone, left)
        assert [s.rate for s in mine] == [s.rate for s in alone]
        left = [c - sum(s.rate * s.links.get(k, 0) for s in mine) for k, c in enumerate(left)]
    assert min(left) >= 0


def filled(flows: Sequence[tuple[dict[int, int], float]], capacity: Sequence[Fraction]) -> list[Fraction]:
    """Max-min by raising all rates together until a link is full or a demand met: the definition, in exact numbers."""
    rates = [Fraction(0)] * len(flows)
    rising = set(range(len(flows)))
    while rising:
        steps = [
            Fraction(demand) - rates[i] for i, (_, demand) in enumerate(flows) if i in rising and demand < math.inf
        ]
        for k, c in enumerate(capacity):
            used = sum((rates[i] * uses.get(k, 0) for i, (uses, _) in enumerate(flows)), Fraction(0))
            weight = sum(uses.get(k, 0) for i, (uses, _) in enumerate(flows) if i in rising)
            if weight:
                steps.append((c - used) / weight)
        step = min(steps)
        for i in rising:
            rates[i] += step
        for k, c in enumerate(capacity):
            if sum(rates[i] * uses.get(k, 0) for i, (uses, _) in enumerate(flows)) == c:
                rising -= {i for i, (uses, _) in enumerate(flows) if k in uses}
        rising -= {i for i, (_, demand) in enumerate(flows) if rates[i] == demand}
    return rates


@dataclass(frozen=True)
class Drain:
    """Flows that start at their times, each with so many bytes."""

    capacity: list[float]
    flows: list[tuple[dict[int, int], float]]
    sizes: list[float]
    starts: list[float]

    @staticmethod
    def drawn(seed: int, n_flows: int, n_links: int, together: bool) -> Drain:
        """Random flows over one to three links each, some capped."""
        rng = random.Random(seed)
        flows = [
            (
                {k: rng.choice([1, 1, 2]) for k in rng.sample(range(n_links), rng.randint(1, min(3, n_links)))},
                rng.choice([math.inf, math.inf, rng.uniform(0.05, 1.0)]),
            )
            for _ in range(n_flows)
        ]
        return Drain(
            [float(rng.choice([1, 2, 3, rng.uniform(0.5, 5)])) for _ in range(n_links)],
            flows,
            [rng.choice([1.0, 2.0, rng.uniform(0.5, 5.0)]) for _ in flows],
            [0.0 if together else rng.choice([0.0, 1.0, round(rng.uniform(0.0, 8.0), 2)]) for _ in flows],
        )

    def exactly(self) -> list[float]:
        """When each ends, by filling anew, in fractions, whenever one has come or gone."""
        capacity = [Fraction(c) for c in self.capacity]
        waiting = sorted((Fraction(start), i) for i, start in enumerate(self.starts))
        left: dict[int, Fraction] = {}
        ends = [0.0] * len(self.flows)
        now = Fraction(0)
        while left or waiting:
            while waiting and waiting[0][0] == now:
                i = waiting.pop(0)[1]
                left[i] = Fraction(self.sizes[i])
            rates = dict(zip(left, filled([self.flows[i] for i in left], capacity), strict=True))
            steps = [left[i] / rates[i] for i in left]
            step = min([*steps, *([waiting[0][0] - now] if waiting else [])])
            now += step
            for i in list(left):
                left[i] -= rates[i] * step
                if left[i] == 0:
                    ends[i] = float(now)
                    del left[i]
        return ends

    def by_the_engine(self) -> list[float]:
        """The same by the kernel."""
        engine = Engine(EngineSpec(np.array(self.capacity), np.ones(len(self.capacity), np.bool_)))
        rows, ends = {}, [0.0] * len(self.flows)
        order = sorted(range(len(self.flows)), key=self.starts.__getitem__)
        for i in [*order, None]:
            while finished := engine.run(math.inf if i is None else self.starts[i]):
                for row in finished:
                    ends[rows[row]] = engine.detach(row).finish_s
            if i is not None:
                uses, demand = self.flows[i]
                node = transfer_node(0, self.sizes[i], sorted(uses.items()), demand=demand)
                rows[engine.attach(i, make_program([node], engine.spec.capacity), 1)] = i
        return ends


SIZES = [(0, 6, 3), (1, 10, 4), (2, 14, 6), (3, 40, 12), (4, 60, 20)]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(("seed", "n_flows", "n_links"), SIZES)
def test_kernel_drains_as_in_fractions(seed: int, n_flows: int, n_links: int, together: bool) -> None:
    """Every end is right to 1e-9, with few flows and with more than a scan looks at, together and one by one."""
    drain = Drain.drawn(seed, n_flows, n_links, together)
    assert drain.by_the_engine() == pytest.approx(drain.exactly(), rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_arrivals_on_crowded_links(seed: int) -> None:
    """A newcomer on links whose flows go at different speeds slows down those it must, and no others."""
    drain = Drain.drawn(1000 + seed, 9, 2, together=False)
    assert drain.by_the_engine() == pytest.approx(drain.exactly(), rel=1e-9)


@given(st.lists(st.floats(1e-3, 1e15), min_size=1, max_size=5))
def test_rate_unit(capacity: list[float]) -> None:
    """A power of two, so fine that rounding a capacity down to it loses less than 1e-14 of the fastest link."""
    unit = rate_unit(np.array(capacity))
    assert math.frexp(unit)[0] == 0.5
    assert unit <= max(capacity) * 1e-14
    assert max(capacity) / unit < 2**52  # fits, times thousands of flows, into 64 bits


@given(st.integers(1, 50), st.floats(1e-12, 1e3), st.floats(0, 1e3))
def test_k_way(k: int, b: float, eta: float) -> None:
    """Alone 1 / b; k together send no more than one alone, and less by what eta costs: k / (k b + (k - 1) eta)."""
    assert k_way(1, b, eta) == pytest.approx(1 / b, rel=1e-12)
    assert k * k_way(k, b, eta) <= 1 / b * (1 + 1e-12)
    assert k * k_way(k, b, 0.0) == pytest.approx(1 / b, rel=1e-12)
    assert k_way(k + 1, b, eta) < k_way(k, b, eta)


def test_a_rate_that_was_rounded_up_does_not_hide_its_equals() -> None:
    """Two pushes of a job over the same two NICs, beside others: one flow of a full port had three units more than the
    other three, which is what had been left by rounding. When it ended these were taken for slower than the change, and
    had no bottleneck from then on; one of them got no rate when it was next looked at, and its job never ended."""
    run = run_task(Task(Scenario.load(scenario_path("flows")), Layers("fifo[place=first-fit,pace=equal]"), 5, False))
    assert run.jobs["finish_s"].null_count() == 0
