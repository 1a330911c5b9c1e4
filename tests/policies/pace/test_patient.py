import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from testkit.draws import examples
from testkit.oracles.shortest import pushing, shares
from testkit.paced import CAPACITY, program, servers
from weft.errors import StackError
from weft.model.flows import FlowSet, flow_set
from weft.policies.pace.rates import Demand, Moment, Others
from weft.policies.pace.shortest import Shortest
from weft.policies.pace.shortest.patient import ENOUGH, PRICE, PatientRule
from weft.policies.pace.shortest.rule import ShortestRule
from weft.scenario import Scenario
from weft.scenario.shipped import scenario_path
from weft.sim.engine.ruled import flow_rows
from weft.testing import check_pace

INF = float("inf")


def _told(lasted: list[float], since: list[float], link: int = 0) -> Others:
    path = np.full((len(since), 1), link, np.int64)
    return Others(path, np.full(len(since), np.inf), np.array(since), np.array(lasted))


def _rule(compute_s: float = 1.8) -> tuple[PatientRule, FlowSet, np.ndarray]:
    """A rule that knows one job: a push of 6 bytes at 10 bytes/s and its broadcast, so 0.6 s of sending. Those of its
    rows that leave their server are live."""
    rule, flows = PatientRule(), flow_set(8, 3)
    rule.begin(Demand(CAPACITY))
    flows.put(0, 0, flow_rows(program(compute_s, servers(1, (0,), 6.0))), CAPACITY, 3)
    rule.came(np.arange(3), flows)
    live = np.flatnonzero(flows.path[:3].max(axis=1) >= 0)
    flows.active[live] = True
    return rule, flows, live


def _rate(rule: ShortestRule, flows: FlowSet, live: np.ndarray, now_s: float = 10.0) -> float:
    """What the job's first flow gets of its link of 10."""
    return float(rule.decide(Moment(0, now_s=now_s), flows, live).caps[live[0]])


def test_how_long_a_flow_will_stay_by_hand() -> None:
    """By hand: twenty flows have lasted 1 s (ten) and 3 s (ten), 2 s in the mean. One that is 0.5 s
    old stays for (10 x 0.5 + 10 x 2.5 + 2) / 21 s, and one of 2 s for (10 x 1 + 2) / 11 s. One of 4 s is older than any
    before, and stays for as long again."""
    rule, _, _ = _rule()
    rule.others(_told([1.0] * 10 + [3.0] * 10, [4.5, 3.0, 1.0]))
    assert rule.stays_s(5.0) == pytest.approx([32 / 21, 12 / 11, 4.0])


def _at_equal_cost(age_s: float = 0.0) -> tuple[PatientRule, FlowSet, np.ndarray]:
    """Foreign flows last 2 s, and one that is `age_s` old is on a link of the job. It will stay for 2 s less its age
    (twenty such flows, and one more that stays for 2 s). The price is such that pushing and waiting cost the same."""
    rule, flows, live = _rule()
    rule.others(_told([2.0] * ENOUGH, [10.0 - age_s], int(flows.path[live[0]][0])))
    stays = (20 * (2.0 - age_s) + 2.0) / 21
    rule.price = (1.0 + stays) / (0.6 * (2.0 / 0.6) ** 0.75)
    return rule, flows, live


@pytest.mark.parametrize("age_s", [0.0, 1.5])
def test_who_pushes_by_hand(age_s: float) -> None:
    """By hand: a job needs 0.6 s at full rate, in which a foreign flow loses a line rate. At a price
    X that costs X (2 / 0.6)^(3/4) x 1 x 0.6; waiting costs half of a lifetime, 1 s, and the time for which the flow
    stays. A little below the X at which both are equal the job pushes; a little above it the foreign flow has all."""
    rule, flows, live = _at_equal_cost(age_s)
    equal = rule.price
    rule.price = 0.99 * equal
    assert _rate(rule, flows, live) == pytest.approx(10.0)
    rule.price = 1.01 * equal
    assert _rate(rule, flows, live) == pytest.approx(0.0)


def test_who_waits_for_gpus_makes_jobs_push() -> None:
    """Three who wait make waiting cost four times as much."""
    rule, flows, live = _at_equal_cost()
    rule.price *= 3.9
    assert _rate(rule, flows, live) == 0.0
    rule.waiting = 3
    assert _rate(rule, flows, live) == pytest.approx(10.0)


def test_nobody_waits_for_ever() -> None:
    """At a fifth more than the equal price a job waits at first. Each second of waiting counts half: after 1.2 s it
    pushes, unless it has begun anew since, or has sent all the time."""
    rule, flows, live = _at_equal_cost()
    rule.price *= 1.19
    assert _rate(rule, flows, live) == 0.0
    rule.others(_told([], [11.2], int(flows.path[live[0]][0])))  # another flow, as young as the first
    assert _rate(rule, flows, live, 11.2) == pytest.approx(10.0)
    flows.active[live] = False
    rule.over(live, flows)
    flows.active[live] = True
    assert _rate(rule, flows, live, 11.2) == 0.0


def test_sending_is_not_waiting() -> None:
    """A job that has needed 0.3 s for half of its bytes has not waited, one that has needed 1 s has: 0.7 s."""
    for late_s, pushes in ((0.3, False), (1.0, True)):
        rule, flows, live = _at_equal_cost()
        rule.price *= 2.1  # half of the bytes cost half as much
        assert _rate(rule, flows, live) == 0.0
        flows.sent[live] = 0.5 * flows.size[live]
        rule.others(_told([], [10.0 + late_s], int(flows.path[live[0]][0])))
        assert (_rate(rule, flows, live, 10.0 + late_s) > 0.0) is pushes


def test_it_is_shortest_before_enough_is_known() -> None:
    """Then, where none of our jobs computes, and where nobody else sends."""
    for lasted, compute_s, since in (
        ([2.0] * (ENOUGH - 1), 1.8, [10.0]), ([2.0] * ENOUGH, 0.0, [10.0]), ([2.0] * ENOUGH, 1.8, [])
    ):  # fmt: skip
        rule, flows, live = _rule(compute_s)
        plain = ShortestRule()
        plain.begin(Demand(CAPACITY))
        plain.came(np.arange(3), flows)
        for each in (rule, plain):
            each.others(_told(lasted, since, int(flows.path[live[0]][0])))
        assert _rate(rule, flows, live) == _rate(plain, flows, live) > 0.0


_LINKS = 5
_paths = st.lists(st.integers(0, _LINKS - 1), min_size=1, max_size=2, unique=True)
_foreign = st.lists(st.tuples(_paths, st.sampled_from([2.0, 7.0, INF])), min_size=1, max_size=7)


@given(_foreign, st.lists(st.sampled_from([4.0, 10.0, 12.0]), min_size=_LINKS, max_size=_LINKS))
@settings(max_examples=examples(100), deadline=None)
def test_shares_are_max_min(flows: list[tuple[list[int], float]], room: list[float]) -> None:
    """No link carries more than it can, nobody has more than asked for, and whoever has less is on a full link on which
    nobody has more. The kernel finds the same."""
    rates = shares(flows, room)
    for link, free in enumerate(room):
        assert sum(r for r, (links, _) in zip(rates, flows, strict=True) if link in links) <= free * (1 + 1e-9)
    for rate, (links, most) in zip(rates, flows, strict=True):
        assert rate <= most
        held = [[r for r, (other, _) in zip(rates, flows, strict=True) if link in other] for link in links]
        full = [max(theirs) for link, theirs in zip(links, held, strict=True) if sum(theirs) >= room[link] * (1 - 1e-9)]
        assert rate == most or any(rate >= theirs * (1 - 1e-9) for theirs in full)
    found = np.zeros(len(flows))
    path, most = np.array([(*links, -1)[:2] for links, _ in flows]), np.array([most for _, most in flows])
    users = np.zeros(_LINKS, np.int64)
    PatientRule().kernel.shares(np.arange(len(flows)), path, most, np.array(room), users, found)
    assert found == pytest.approx(rates)
    assert not users.any()


@given(
    st.lists(st.tuples(st.lists(_paths, min_size=1, max_size=3), st.floats(0.1, 10.0)), min_size=1, max_size=5),
    st.lists(st.tuples(_paths, st.just(INF), st.floats(0.0, 2.0)), min_size=1, max_size=5),
    st.floats(0.05, 5.0),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_kernel_pushes_as_the_plain_rule_does(
    jobs: list[tuple[list[list[int]], float]], foreign: list[tuple[list[int], float, float]], price: float
) -> None:
    """Jobs whose flows have as many bytes each, beside foreign flows. What the plain rule says of others is exact; the
    kernel looks at those whom a job meets and at their neighbours, so they are compared where these are all. Whatever
    is decided, no link carries more than it can."""
    capacity = [10.0] * _LINKS
    others = [(links, most) for links, most, _ in foreign]
    job = np.array([j for j, (paths, _) in enumerate(jobs) for _ in paths])
    path = np.array([(*links, -1)[:2] for paths, _ in jobs for links in paths], np.int64)
    left = np.array([size for paths, size in jobs for _ in paths])
    theirs = np.array([(*links, -1)[:2] for links, _ in others], np.int64)
    stays, caps = np.array([stay for *_, stay in foreign]), np.zeros(len(job))
    whole = np.full(len(jobs), -1.0)
    pushes = PatientRule().kernel.push(
        np.arange(len(job)), job, path, left, np.array(capacity), theirs, np.full(len(others), INF), stays, 0.5, price,
        np.zeros(len(jobs)), whole, caps,
    )  # fmt: skip
    counted: list[dict[int, int]] = [{} for _ in jobs]
    for j, links in zip(job.tolist(), path.tolist(), strict=True):
        for link in links:
            if link >= 0:
                counted[j][link] = counted[j].get(link, 0) + 1
    seconds = [max(n * size / 10.0 for n in mine.values()) for mine, (_, size) in zip(counted, jobs, strict=True)]
    assert whole == pytest.approx(seconds)
    costs = [
        0.5 + max((stay for links, _, stay in foreign if counted[j].keys() & {*links}), default=0.0)
        for j in range(len(jobs))
    ]
    expected = pushing(list(zip(counted, seconds, strict=True)), others, capacity, costs, price)
    used = [sum(c for c, links in zip(caps, path.tolist(), strict=True) if link in links) for link in range(_LINKS)]
    assert all(rate <= 10.0 * (1 + 1e-9) for rate in used)
    if _all_are_near(counted, others):
        assert pushes.tolist() == expected


def test_who_is_far_away_keeps_what_it_has() -> None:
    """Links of 10. A job on link 0 meets a flow over links 0 and 1. It shares link 1 with a second flow, and that
    one shares link 2 with a third; each has 5. If the first is pushed aside, the second cannot have more, for the third
    keeps its 5. So others lose half of a line rate, and at a high price the job waits for what is free: 5. Without the
    third flow the second has all that the first loses, and the job pushes."""
    chain, ten = np.array([[0, 1], [1, 2], [2, 3]]), np.full(4, 10.0)
    for flows, rate in ((chain, 5.0), (chain[:2], 10.0)):
        n, caps = len(flows), np.zeros(1)
        one, zero = np.zeros(1, np.int64), np.zeros(1)
        PatientRule().kernel.push(
            one, one, np.array([[0, -1]]), np.array([10.0]), ten, flows, np.full(n, INF), np.full(n, 2.0), 0.5, 100.0,
            zero, np.full(1, -1.0), caps,
        )  # fmt: skip
        assert caps[0] == pytest.approx(rate)


def test_rounding_does_not_leave_less_than_nothing() -> None:
    """Links of 10. A first job takes all of link 0, so flows on links 0 and 1 and on 0 and 2 have nothing, and
    three more on link 1 have 10 / 3 each. A second job meets one of the former two on link 2. Three times 10 / 3 is
    more than 10 by a rounding error; the other of the two has nothing, not less, and the second job has all of link 2.
    (With less than nothing the kernel did not end.)"""
    others, caps = np.array([[0, 1], [0, 2], [1, -1], [1, -1], [1, -1]]), np.zeros(2)
    PatientRule().kernel.push(
        np.arange(2), np.arange(2), np.array([[0, -1], [2, -1]]), np.array([1.0, 2.0]), np.full(3, 10.0), others,
        np.full(5, INF), np.full(5, 2.0), 0.5, 1e-3, np.zeros(2), np.full(2, -1.0), caps,
    )  # fmt: skip
    assert caps == pytest.approx([10.0, 10.0])


def test_a_job_that_sends_nothing_is_no_part_of_the_price() -> None:
    """On one server it has no flows at all, as agents tell of it. Nor does a job count whose computing is nothing
    beside its sending."""
    rule, flows, live = _rule(compute_s=1e-20)
    rule.came(np.zeros(0, np.int64), flows)
    rule.others(_told([2.0] * ENOUGH, [10.0], int(flows.path[live[0]][0])))
    assert 0.0 < _rate(rule, flows, live) < 10.0  # as `shortest` does


def test_what_it_calls_is_compiled_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    """`prepare` asks it once before and once after it knows how long foreign flows last."""
    called: list[str] = []
    kernel = PatientRule().kernel
    for name in ("decide", "push"):
        monkeypatch.setattr(kernel, name, lambda *_, name=name: called.append(name))
    Shortest.from_text("patient").prepare()
    assert called == ["decide", "push"]


def _all_are_near(jobs: list[dict[int, int]], others: list[tuple[list[int], float]]) -> bool:
    """Whether every foreign flow meets each job or shares a link with one that does."""
    for mine in jobs:
        met = [{*links} for links, _ in others if mine.keys() & {*links}]
        if met and not all({*links} & set.union(*met) for links, _ in others):
            return False
    return True


def test_it_is_a_pace() -> None:
    """It keeps the rules of a pace, has a name that it is found by, and says what else can be written."""
    check_pace(lambda: Shortest.from_text("patient"))
    for text in ("patient", "patient=0.6"):
        pace = Shortest.from_text(text)
        assert pace.name == f"shortest:{text}"
        assert isinstance(pace.rates(), PatientRule)
    assert Shortest.from_text(f"patient={PRICE}").name == "shortest:patient"
    assert Shortest.from_text("6").name == "shortest:6"
    for wrong in ("patience", "patient=", "patient=0", "patient=nan", "=3"):
        with pytest.raises(StackError, match=r"^shortest:.*(not known|takes a number)"):
            Shortest.from_text(wrong)


def test_on_the_testbed_it_learns_and_jobs_end() -> None:
    """Slices of `flows`: cross traffic comes and goes every second, so lifetimes are known soon; from then on it does
    otherwise than `shortest`. A higher price leaves others more. Conservation is checked in every run."""
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 4, "iterations": [5, 10]}
    runs = [
        weft.simulate(data, stack=f"fifo[place=first-fit,pace={pace}]", seed=1)
        for pace in ("shortest:patient", "shortest", "shortest:patient", "shortest:patient=5")
    ]
    ends = [run.jobs["finish_s"].to_list() for run in runs]
    assert ends[0] == ends[2]
    assert ends[0] != ends[1]
    assert None not in ends[0]
    assert runs[3].foreign_bytes_per_s > 1.02 * runs[0].foreign_bytes_per_s  # type: ignore[operator]


def test_a_job_beside_a_flow_that_never_ends_goes_on() -> None:
    """Enough short flows have ended for lifetimes to be known; then one that never ends crosses the job's links in each
    direction, and nothing starts or ends any more. At a high price the job waits, and still pushes when it has waited
    long enough."""
    data = Scenario.load(scenario_path("flows")).model_dump(exclude_unset=True)
    data["workload"] |= {"jobs": 1, "iterations": [3, 3], "models": ["vgg19[batch=64,workers=3]"]}
    names = ["s0", "s1"]
    short = [
        {"src": names[i % 2], "dst": names[1 - i % 2], "start_s": 0.01 * i, "end_s": 0.01 * i + 0.2} for i in range(24)
    ]
    endless = [{"src": a, "dst": b, "start_s": 0.5} for a, b in (names, names[::-1])]
    data["network"] = {"foreign": short + endless}
    data["run"] = {"until_s": 120.0}
    run = weft.simulate(data, stack="fifo[place=first-fit,pace=shortest:patient=5]", seed=1)
    assert run.jobs["finish_s"].to_list() != [None]
