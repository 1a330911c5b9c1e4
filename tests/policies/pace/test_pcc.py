import numpy as np
import pytest

from testkit.paced import ends, servers
from weft.errors import StackError
from weft.model.flows import FlowRows, FlowSet, flow_set
from weft.policies.pace.pcc import Pcc, PccRule, allegro, amplified, vivace
from weft.policies.pace.rates import Carried, Demand, Moment

LINE = 3.125e9  # 25 Gbit/s: a buffer of 1 MB holds 3.2 % of what a slot of 10 ms carries
CAPACITY = np.array([LINE, LINE])
ROW = FlowRows(((0, 1),), (1e15,), (0.0,), ((0, 0),), ((0, 0),))


def one_flow() -> FlowSet:
    flows = flow_set(1, 2)
    flows.put(0, 0, ROW, CAPACITY)
    return flows


def asked(rule: PccRule, flows: FlowSet, slots: int, free: float = 0.5, loss: float = 0.0) -> list[float]:
    """What a flow asks for, slot by slot, in parts of a line of which so much is free."""
    found, live = [], np.array([0])
    for slot in range(slots):
        rate = float(rule.decide(Moment(slot), flows, live).caps[0])
        found.append(rate / LINE)
        flows.rate[0] = min(rate, free * LINE)
        full = np.array([rate > free * LINE, False])
        rule.carried(slot, flows, live, Carried(np.full(2, flows.rate[0]), full, loss))
    return found


def test_utilities() -> None:
    """Allegro: more is better while nothing is lost, and a loss of 10 % is worth less than half the rate without.
    Vivace: 1 Mbit/s is worth 1, and a delay that grows by 1 ms in a second costs 0.9 of it."""
    some = allegro(np.array([1.0, 2.0, 2.0]), np.array([0.0, 0.0, 0.1]))
    assert some[2] < some[0] < some[1]
    one = np.array([1.25e5] * 3)
    assert vivace(one, np.array([0.0, 0.0, 0.1]), np.array([0.0, 0.001, 0.0])) == pytest.approx([1.0, 0.1, -0.135])
    assert amplified(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).tolist() == [1.0, 2.0, 3.0, 5.0, 7.0]


def test_allegro_by_hand() -> None:
    """By hand: half of the line is free. Doubling from 0.05 to 0.8, which loses, so back to 0.4; two
    pairs of trials 1 % up and down; both favour more, so from 0.404 on by 1 %, 2 %, ..., until 0.531 loses 2.6 %
    beyond what the buffer takes; back to 0.496 and new trials."""
    rule = PccRule()
    rule.begin(Demand(CAPACITY, seed=3))
    found = asked(rule, one_flow(), 18)
    assert found[:5] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8])
    for pair in (found[5:7], found[7:9]):
        assert sorted(pair) == pytest.approx([0.396, 0.404])
    on = [0.404 * 1.01]
    for percent in range(2, 8):
        on.append(on[-1] * (1 + percent / 100))
    assert found[9:16] == pytest.approx(on)
    assert sorted(found[16:18]) == pytest.approx([0.99 * on[-2], 1.01 * on[-2]])


def test_allegro_tries_further_where_its_pairs_disagree() -> None:
    """One pair favours less and the other more, six times: the trials are 2, 3, 4 and 5 % up and down, and not more."""
    rule, flows = PccRule(), one_flow()
    rule.begin(Demand(CAPACITY, seed=1))
    rule.decide(Moment(0), flows, np.array([0]))
    rule._try(np.array([0]), 0.01)
    found = []
    for _ in range(6):
        rule.seen[0] = np.where(rule.up[0], [1.0, 1.0, 2.0, 2.0], [2.0, 2.0, 1.0, 1.0])
        rule._settle(np.array([0]))
        found.append(float(rule.eps[0]))
        assert rule.trial[0] == 0
    assert found == pytest.approx([0.02, 0.03, 0.04, 0.05, 0.05, 0.05])


def test_allegro_tries_by_one_percent_again_after_a_return() -> None:
    """By hand: trials 3 % up and down from 1,000,000 bytes/s favour more, so it moves to 1,030,000 and on
    by 1 % to 1,040,300. There its utility falls: it returns to 1,030,000 and tries 1 % up or down of it."""
    rule, flows, rows = PccRule(), one_flow(), np.array([0])
    rule.begin(Demand(CAPACITY, seed=1))
    rule.decide(Moment(0), flows, rows)
    rule.rate[0] = 1e6
    rule._try(rows, 0.03)
    rule.seen[0] = np.where(rule.up[0], 2.0, 1.0)
    rule._settle(rows)
    assert rule.decide(Moment(1), flows, rows).caps[0] == pytest.approx(1_040_300.0)
    rule._move(rows, np.array([1.9]))
    assert rule.rate[0] == pytest.approx(1_030_000.0)
    assert abs(rule.decide(Moment(2), flows, rows).caps[0] - 1_030_000.0) == pytest.approx(10_300.0)


@pytest.mark.parametrize(("kind", "eps"), [("allegro", 0.01), ("vivace", 0.05)])
def test_random_loss_is_noticed(kind: str, eps: float) -> None:
    """One packet in ten is lost though no link is full. A byte per second is worth 0.9 / (1 + e^5) - 0.1 = -0.094 to
    Allegro, and x^0.9 - 1.135 x falls from x = 1,250 Mbit/s on: so 0.1 of the line is worse than 0.05, it goes back to
    that, and all trials favour less."""
    rule = PccRule(kind)
    rule.begin(Demand(CAPACITY, seed=3))
    found = asked(rule, one_flow(), 7, loss=0.1)
    assert found[:2] == pytest.approx([0.05, 0.1])
    assert sorted(found[2:4]) == pytest.approx([0.05 * (1 - eps), 0.05 * (1 + eps)])
    assert rule.side[0] == -1
    flows = one_flow()
    rule.asked[0] = flows.rate[0] = 1.25e5  # 1 Mbit/s, all of it sent
    worth = rule._worth(np.array([0]), flows, Carried(np.zeros(2), np.zeros(2, np.bool_), 0.1))
    assert worth == pytest.approx([1.25e5 * -0.093976] if kind == "allegro" else [1.0 - 1.135], rel=1e-4)


@pytest.mark.parametrize("kind", ["allegro", "vivace"])
def test_a_flow_that_waits_for_others_sees_no_loss(kind: str) -> None:
    """Others feed it at a tenth of what it asks for, and no link is full: nothing was lost, and it goes on doubling. If
    nine tenths were lost a higher rate would be worth less, and it would go back after the second slot."""
    rule, flows, live = PccRule(kind), one_flow(), np.array([0])
    rule.begin(Demand(CAPACITY))
    found = []
    for slot in range(4):
        found.append(float(rule.decide(Moment(slot), flows, live).caps[0]) / LINE)
        flows.rate[0] = 0.1 * found[-1] * LINE
        rule.carried(slot, flows, live, Carried(np.full(2, flows.rate[0]), np.zeros(2, np.bool_)))
    assert found == pytest.approx([0.05, 0.1, 0.2, 0.4])


def test_the_order_of_trials_is_drawn_by_the_seed() -> None:
    orders = set()
    for seed in range(12):
        rule = PccRule()
        rule.begin(Demand(CAPACITY, seed=seed))
        found = asked(rule, one_flow(), 9)
        orders.add((found[5] > found[6], found[7] > found[8]))
    assert len(orders) == 4


def test_vivace_by_hand() -> None:
    """By hand: at 10 Gbit/s the gradient of x^0.9 is 0.9 x 10,000^-0.1 = 0.358; the first step is as many
    Mbit/s, the second twice, the third three times as many. A queue that grows turns it round."""
    rule, flows = PccRule("vivace"), one_flow()
    rule.begin(Demand(CAPACITY, seed=3))
    found = asked(rule, flows, 13)
    assert found[:5] == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8])
    middle = [(a + b) / 2 * LINE * 8e-6 for a, b in zip(found[5::2], found[6::2], strict=True)]
    x, gradient = 10_000.0, 0.358
    assert middle == pytest.approx([x, x + gradient, x + 3 * gradient, x + 6 * gradient], abs=0.02)
    assert abs(found[5] - found[6]) == pytest.approx(0.1 * 0.4)
    asked(rule, flows, 2, free=0.4)
    assert rule.side[0] == -1


def test_what_the_buffer_takes_is_delay_and_not_loss() -> None:
    """3 % more than is free is less than the buffer takes in a slot (3.2 %), so nothing is lost and Allegro's utility
    is its whole rate; of 6 % more, 6 / 106 of it, the buffer takes 3.2 points and the rest is lost. Vivace sees what
    the buffer takes as a round trip that grows."""
    for kind in ("allegro", "vivace"):
        rule, flows, live = PccRule(kind), one_flow(), np.array([0])
        rule.begin(Demand(CAPACITY))
        rule.decide(Moment(0), flows, live)
        for more, lost in ((1.03, 0.0), (1.06, 0.06 / 1.06 - 0.032)):
            rule.asked[0], flows.rate[0] = more * 0.5 * LINE, 0.5 * LINE
            kept = 1.0 - 1.0 / more - lost
            came = Carried(np.full(2, 0.5 * LINE), np.array([True, False]))
            mine = rule.asked.copy()
            worth = (
                allegro(mine, np.array([lost]))
                if kind == "allegro"
                else vivace(mine, np.array([lost]), np.array([kept]))
            )
            assert rule._worth(live, flows, came) == pytest.approx(worth)


def test_vivace_is_held_to_a_bound_that_grows() -> None:
    """By hand: a step is at most 5 % of the rate, then 15 %, 25 % while it goes one way and the bound
    holds it back; when it turns round the bound is 5 % again. The rate is 0.08 Mbit/s and every
    gradient 1 Mbit/s, so each step would be longer than the rate itself."""
    rule, flows, rows = PccRule("vivace"), one_flow(), np.array([0])
    rule.begin(Demand(CAPACITY))
    rule.decide(Moment(0), flows, rows)
    rule.rate[0], expected = 1e4, 1e4
    for part, side in ((0.05, 1), (0.15, 1), (0.25, 1), (0.05, -1), (0.15, -1)):
        rule._try(rows, 0.05)
        better = 0.1 * rule.rate[0] * 8e-6  # over a tenth of the rate in Mbit/s: a gradient of 1
        rule.seen[0, :2] = np.where(rule.up[0, :2], side * better, 0.0)
        rule._climb(rows)
        expected *= 1.0 + side * part
        assert rule.rate[0] == pytest.approx(expected), (part, side)


def test_vivace_turns_round_with_small_steps() -> None:
    """By hand: at 10 Gbit/s every gradient is 1 Mbit/s up or down. Four steps up are 1, 2, 3 and 2 x 4 -
    3 = 5 Mbit/s, all far below the bound of 5 %, 500 Mbit/s. It turns round, and the steps down are 1 and 2 Mbit/s; it
    turns round again, and the first step up is 1 Mbit/s."""
    rule, flows, rows = PccRule("vivace"), one_flow(), np.array([0])
    rule.begin(Demand(CAPACITY))
    rule.decide(Moment(0), flows, rows)
    rule.rate[0], found = 1.25e9, []
    for side in (1, 1, 1, 1, -1, -1, 1):
        rule._try(rows, 0.05)
        better = 0.1 * rule.rate[0] * 8e-6  # over a tenth of the rate in Mbit/s: a gradient of 1
        rule.seen[0, :2] = np.where(rule.up[0, :2], side * better, 0.0)
        before = rule.rate[0]
        rule._climb(rows)
        found.append(float(rule.rate[0] - before) * 8e-6)
    assert found == pytest.approx([1.0, 2.0, 3.0, 5.0, -1.0, -2.0, 1.0])


def test_it_takes_time_to_find_the_rate() -> None:
    assert ends(Pcc(), [servers(1, (0,), 6.0)])[0] > 0.6 + 0.01
    assert ends(Pcc("vivace"), [servers(1, (0,), 6.0)])[0] > 0.6 + 0.01


def test_a_new_job_has_no_rate_yet() -> None:
    """Rows are used again: the next job's flow begins at 5 % of the line, not where the last job's was; the next
    iteration of the same job goes on."""
    rule, flows, live = PccRule(), one_flow(), np.array([0])
    rule.begin(Demand(CAPACITY))
    found = []
    for slot, uid in enumerate((0, 0, 0, 1, 1)):
        flows.put(0, 0, ROW, CAPACITY, uid)
        flows.rate[0] = rule.decide(Moment(slot), flows, live).caps[0]
        found.append(float(flows.rate[0]) / LINE)
        rule.carried(slot, flows, live, Carried(np.full(2, flows.rate[0]), np.zeros(2, np.bool_)))
    assert found == pytest.approx([0.05, 0.1, 0.2, 0.05, 0.1])


def test_a_slot_that_it_began_in_teaches_nothing() -> None:
    """A flow that starts in the middle of a slot has half of its bytes there by the end: no sign of loss."""
    rule, flows, live = PccRule(), one_flow(), np.array([0])
    rule.begin(Demand(CAPACITY))
    first = rule.decide(Moment(0, 0.5, begins=False), flows, live).caps[0]
    flows.rate[0] = first / 2.0
    rule.carried(0, flows, live, Carried(np.full(2, first / 2.0), np.ones(2, np.bool_)))
    assert rule.decide(Moment(1), flows, live).caps[0] == first == pytest.approx(0.05 * LINE)


def test_parameters() -> None:
    assert Pcc.from_text(None).name == Pcc.from_text("allegro").name == "pcc"
    assert Pcc.from_text("vivace").name == "pcc:vivace"
    for wrong in ("", "aurora", "vivace,allegro"):
        with pytest.raises(StackError, match=r"not known|twice"):
            Pcc.from_text(wrong)
