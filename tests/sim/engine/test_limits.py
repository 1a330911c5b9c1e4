import math
from typing import Any

import numpy as np
import pytest

from testkit.oracles.engine import ReferenceEngine
from testkit.paced import program, servers, spec_of
from tests.sim.rules import Nothing, Told
from weft.errors import EngineError
from weft.policies.pace.rates import Limits, RateRule
from weft.sim.engine import Engine
from weft.sim.engine.program import make_program, transfer_node

LINE = np.array([10.0])
BOTH = pytest.mark.parametrize("make", [Engine, ReferenceEngine])
INF = math.inf


class Answers(Nothing):
    """The same answer for every flow that it is asked about."""

    def __init__(self, cap: float, weight: float, level: float, of: type = np.int64) -> None:
        super().__init__()
        self.answer, self.of = (cap, weight, level), of

    def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
        """As given; rows that it is not asked about have no limit."""
        caps, weights, levels = np.full(len(flows), INF), np.ones(len(flows), self.of), np.zeros(len(flows), self.of)
        caps[live], weights[live], levels[live] = self.answer
        return Limits(caps, weights, levels)


@BOTH
@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Answers(math.nan, 1, 0), "a cap of nan"),
        (Answers(-1.0, 1, 0), "a cap of -1.0"),
        (Answers(-INF, 1, 0), "a cap of -inf"),
        (Answers(INF, 0, 0), "a weight that is no whole number from 1 to 1048576"),
        (Answers(INF, -3, 0), "a weight that"),
        (Answers(INF, 1 << 32, 0), "a weight that"),
        (Answers(INF, 1.5, 0, np.float64), "a weight that"),
        (Answers(INF, 1, -1), "a level that is no whole number from 0"),
        (Answers(INF, 1, 1 << 32), "a level that"),
    ],
)
def test_answers_that_the_network_cannot_apply_are_refused(make: Any, rule: RateRule, words: str) -> None:
    """Once such a cap let a flow of 5 bytes send 100, or backwards; such weights and levels were taken by the engines
    each in its own way."""
    engine = make(spec_of(lambda: rule, LINE))
    engine.attach(0, make_program([transfer_node(0, 5.0, [(0, 1)])], LINE), 1)
    with pytest.raises(EngineError, match=f"the rule Answers gives a flow {words}"):
        engine.run(20.0)


@BOTH
def test_answers_have_a_value_for_every_row(make: Any) -> None:
    """Compiled code would read on behind the end of an array that is too short."""

    class Short(Nothing):
        def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
            return Limits(np.ones(len(live)))

    engine = make(spec_of(Short, LINE))
    engine.attach(0, make_program([transfer_node(0, 5.0, [(0, 1)])], LINE), 1)
    with pytest.raises(EngineError, match="the rule Short has 1 caps for 64 rows"):
        engine.run(20.0)


@BOTH
@pytest.mark.parametrize("what", ["weights", "levels"])
def test_every_flow_that_feeds_another_has_its_rank(make: Any, what: str) -> None:
    """Two pushes feed a broadcast; the second has another weight or level, although the first has not."""

    class Uneven(Nothing):
        def decide(self, when, flows, live):  # type: ignore[no-untyped-def]
            ranks = np.ones(len(flows), np.int64)
            ranks[2] = 2
            return Limits(np.full(len(flows), INF), **{what: ranks})

    engine = make(spec_of(Uneven))
    engine.attach(0, program(0.0, servers(0, (1, 2), 1.0)), 1)
    with pytest.raises(EngineError, match="flows of a job that keep step different weights or levels"):
        engine.run(20.0)


@BOTH
def test_a_rule_is_told_what_stopped_transfers_have_carried(make: Any) -> None:
    """A line of 10, slots of 1 s. B sends at 3 throughout. A sends at 4 until it is stopped at 0.5 s, and again from
    0.75 s on: 3 + 2 + 1 bytes in the first slot, 7 in the second. The link has carried as much by then."""
    told: list[float] = []

    class Noting(Told):
        def carried(self, slot, flows, live, came):  # type: ignore[no-untyped-def]
            told.append(float(came.link[0]))

    engine = make(spec_of(lambda: Noting([{0: (4.0, 1, 0), 1: (3.0, 1, 0)}]), LINE))
    long = make_program([transfer_node(0, 100.0, [(0, 1)])], LINE)
    engine.attach(1, long, 1)
    first = engine.attach(0, long, 1)
    assert engine.run(0.5) == []
    engine.detach(first)
    assert engine.run(0.75) == []
    again = engine.attach(0, long, 1)
    assert engine.run(2.5) == []
    assert told == pytest.approx([6.0, 7.0])
    for row in (again, 0):
        engine.detach(row)
    carried = engine.links()["bytes"][0] if make is Engine else engine.bytes[0]
    assert carried == pytest.approx(6.0 + 7.0 + 3.5)
