from collections.abc import Callable, Collection, Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from testkit.toys import played
from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Job, Start
from weft.model.profile import Phase, Profile
from weft.policies.place.elasticflow import ElasticFlow
from weft.policies.place.hived import HiveD
from weft.policies.place.pattern import Load, bytes_across, kind_of, pattern_of
from weft.policies.place.titan import StageLimits, Titan, printed, solve
from weft.policies.place.titan.machines import Rooms
from weft.policies.place.titan.search import TRIES, search
from weft.stacks import resolve
from weft.stacks.registry import names
from weft.testing import ToyWorld, toy_cluster, toy_job

NO_LIMIT = StageLimits(np.inf, lambda a, b: np.inf)


def waiting(jobs: list[Job], machines: int, stack: str = "titan") -> Core:
    world = ToyWorld(toy_cluster(1, machines, 4), jobs)
    core = Core(resolve(stack), world)
    core.confirm(world.next_events(None))
    return core


def kind(workers: int, collective: str = "halving-doubling") -> tuple:  # type: ignore[type-arg]
    return kind_of(Profile.from_phases("p", [Phase(1.0), Phase(bytes=1.0)], workers), collective)


def place_of(stack: str, gpus: int = 4) -> tuple[int, ...]:
    """GPUs of a job on machines with 4, 3, 2 and 1 of 4 GPUs free (section II-B)."""
    jobs = [toy_job(f"x{i}", 1) for i in range(6)] + [toy_job("job", gpus, message_bytes=1.0)]
    core = waiting(jobs, 4, stack)
    for i, gpu in enumerate((4, 8, 9, 12, 13, 14)):
        core.table.starting(f"x{i}", (gpu,), None)
    starts = [d for d in core.step(0.0, []) if isinstance(d, Start)]
    return starts[0].gpus


@pytest.mark.parametrize(
    ("stack", "machines", "across"),
    [("elasticflow", {0}, 0.0), ("hived", {1, 3}, 1.5), ("titan", {1, 2}, 1.0), ("titan:printed", {0}, 0.0)],
)
def test_example_of_section_ii(stack: str, machines: set[int], across: float) -> None:
    """K bytes: 0, 3K/2 and K across machines, each exchange counted once; as printed Algorithm 3 takes Machine 1."""
    gpus = place_of(stack)
    where = [g // 4 for g in gpus]
    assert set(where) == machines
    assert bytes_across(pattern_of(kind(4)), where) == across


def test_titan_puts_the_first_and_third_worker_together() -> None:
    """W1 and W3 exchange K/2 twice, W1 and W2 only K/4 twice."""
    where = [g // 4 for g in place_of("titan")]
    assert where[0] == where[2] != where[1] == where[3]


# Free devices of 8 servers of 4 with 0 to 3 background jobs of one device each (Figure 8; the picture is not given in
# numbers: these fit all that the text says of it).
TESTBED = np.array([1, 2, 3, 1, 2, 1, 4, 4])


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        (4, {1: 2, 4: 2}),
        (6, {2: 3, 1: 2, 0: 1}),
        (8, {2: 3, 1: 2, 4: 2, 0: 1}),
        (10, {0: 1, 1: 2, 2: 3, 3: 1, 4: 2, 5: 1}),
        (12, {6: 4, 2: 3, 1: 2, 4: 2, 0: 1}),
    ],
)
def test_figure_8(workers: int, expected: dict[int, int]) -> None:
    """No idle server up to 10 workers; with 12 one of the two remains idle. Of 6 workers 3 + 2 + 1 send 2K across
    (K between 2 and 5, K/2 between 0 and 2, K/2 between 4 and 5), 2 + 2 + 2 half a K more."""
    found = solve(kind(workers), TESTBED, TESTBED == 4, NO_LIMIT)
    assert found is not None
    assert {machine: len(ranks) for machine, ranks in found} == expected
    assert sorted(r for _, ranks in found for r in ranks) == list(range(workers))


# H over families of disjoint sets


def machines_saved(family: Iterable[Collection[int]], workers: Collection[int]) -> int:
    """H(family) = sum of C(N_i) + C(N - R) - C(N), where R is the union of the family and C(X) is 1 unless X is empty.

    Non-decreasing and submodular over families of *disjoint* sets of workers only: with N = {1, 2} the set {1, 2} adds
    nothing to the empty family and one to {{1}, {2}}.
    """
    sets = [frozenset(part) for part in family]
    covered: frozenset[int] = frozenset().union(*sets)
    rest = frozenset(workers) - covered
    return sum(bool(part) for part in sets) + bool(rest) - bool(workers)


@st.composite
def nested_families(draw: st.DrawFn) -> tuple[list[set[int]], list[set[int]], set[int], set[int]]:
    """A family of disjoint sets, a part of it, a set disjoint from all of it, and all workers."""
    n = draw(st.integers(1, 8))
    label = draw(st.lists(st.integers(-1, 4), min_size=n, max_size=n))
    sets = [{i for i in range(n) if label[i] == k} for k in range(5)]
    family = [s for s in sets[:4] if s]
    part = [s for s in family if draw(st.booleans())]
    return family, part, sets[4], set(range(n))


@given(nested_families())
def test_h_is_submodular_and_non_decreasing(case: tuple[list[set[int]], list[set[int]], set[int], set[int]]) -> None:
    """Definition 2: a set adds to a family no more than to a part of it; and never less than nothing."""
    family, part, new, workers = case
    gain = machines_saved([*family, new], workers) - machines_saved(family, workers)
    gain_of_part = machines_saved([*part, new], workers) - machines_saved(part, workers)
    assert 0 <= gain <= gain_of_part


def test_h_is_not_submodular_over_sets_that_meet() -> None:
    """N = {1, 2}: the set {1, 2} adds 0 to nothing and 1 to {{1}, {2}}."""
    both = {1, 2}
    assert machines_saved([both], both) - machines_saved([], both) == 0
    assert machines_saved([{1}, {2}, both], both) - machines_saved([{1}, {2}], both) == 1


# Machines


@st.composite
def states(draw: st.DrawFn) -> tuple[list[int], int]:
    free = draw(st.lists(st.integers(0, 4), min_size=1, max_size=7))
    return free, draw(st.integers(1, 12))


def best_by_trying(free: list[int], workers: int) -> tuple[int, int] | None:
    """(O1, O2) over all sets of machines."""
    sets = [[i for i in range(len(free)) if bits >> i & 1] for bits in range(1, 2 ** len(free))]
    found = [
        (sum(free[i] == 4 for i in chosen), len(chosen))
        for chosen in sets
        if sum(free[i] for i in chosen) >= workers and all(free[i] for i in chosen)
    ]
    return min(found, default=None)


@given(states())
def test_without_a_limit_both_objectives_are_the_best_there_are(case: tuple[list[int], int]) -> None:
    free, workers = case
    room = np.array(free)
    expected = best_by_trying(free, workers)
    assert Rooms(room, room == 4).fewest(workers) == expected
    for plus in (False, True):
        found = solve(kind(workers), room, room == 4, NO_LIMIT, plus)
        if expected is None:
            assert found is None
            continue
        assert found is not None
        assert (sum(free[m] == 4 for m, _ in found), len(found)) == expected
        assert all(len(ranks) <= free[m] for m, ranks in found)
        assert sorted(r for _, ranks in found for r in ranks) == list(range(workers))


@given(states(), st.sampled_from([0.3, 0.6, 1.2, 2.5]), st.sampled_from(["halving-doubling", "ring", "tree"]))
def test_the_limit_is_kept_stage_by_stage(case: tuple[list[int], int], limit: float, collective: str) -> None:
    """No machine sends another more than the limit in one stage; counted anew here, message by message."""
    free, workers = case
    room, limits = np.array(free), StageLimits(limit, lambda a, b: limit)
    for plus in (False, True):
        found = solve(kind(workers, collective), room, room == 4, limits, plus)
        if found is None:
            continue
        where = {rank: machine for machine, ranks in found for rank in ranks}
        for pairs, size in pattern_of(kind(workers, collective)).stages:
            sent: dict[tuple[int, int], float] = {}
            for a, b in pairs.tolist():
                if where[a] != where[b]:
                    sent[where[a], where[b]] = sent.get((where[a], where[b]), 0.0) + size
            assert all(amount <= limit + 1e-9 for amount in sent.values())


def test_a_limit_costs_machines() -> None:
    """4 workers, 2 + 2 GPUs: two messages of K/4 cross at once. A limit below K/2 refuses that, and a third machine
    does not help: K/2 must stay inside, so {W1, W3} and {W2, W4} is the only division on two."""
    room = np.array([2, 2])
    idle = room == 4
    assert solve(kind(4), room, idle, StageLimits(0.5, lambda a, b: 0.5)) is not None
    assert solve(kind(4), room, idle, StageLimits(0.4, lambda a, b: 0.4)) is None
    with_idle = np.array([2, 2, 4])
    found = solve(kind(4), with_idle, with_idle == 4, StageLimits(0.4, lambda a, b: 0.4))
    assert found == ((2, (0, 1, 2, 3)),)


@pytest.mark.parametrize("near", [1, 2])
def test_machines_of_one_room_differ_in_their_links(near: int) -> None:
    """4 workers, 2 + 2 + 2 GPUs: {W1, W3} and {W2, W4} send K/2 across, which only machine 0 and one of the others may;
    the greedy looks at both, whichever has the lower number."""
    room = np.array([2, 2, 2])
    limits = StageLimits(0.4, lambda a, b: 1.0 if {a, b} == {0, near} else 0.4)
    for plus in (False, True):
        found = solve(kind(4), room, room == 4, limits, plus)
        assert found == ((0, (0, 2)), (near, (1, 3)))


@pytest.mark.parametrize("pair", [(0, 1), (0, 2), (1, 2), (2, 3)])
def test_the_search_tells_machines_apart_by_their_limits_to_all_others(pair: tuple[int, int]) -> None:
    """2 workers on 4 machines with one free GPU each; only one pair of machines may send each other K/2. The search
    finds that pair, whether or not the machine with the lowest number is in it."""
    room = np.ones(4, dtype=np.int64)

    def between(a: int, b: int) -> float:
        return 1.0 if {a, b} == set(pair) else 0.0

    found = search(kind(2), room, room == 4, between, (0, 2))
    assert found is not None
    assert {machine for machine, _ in found} == set(pair)


@pytest.mark.parametrize("outward", [True, False])
def test_the_search_compares_limits_in_both_directions(outward: bool) -> None:
    """Two workers exchange K/2, one free GPU on each of three machines; 1 and 2 may send each other K/10. Beside that
    they differ in one direction only: towards machine 0, or from it, 1 has no room. So 0 and 2 are the place."""
    limits = _limit({(1, 0) if outward else (0, 1): 0.0, (1, 2): 0.1, (2, 1): 0.1})
    found = search(kind(2), np.ones(3, dtype=np.int64), np.zeros(3, dtype=np.bool_), limits, (0, 2))
    assert found == ((0, (0,)), (2, (1,)))


def test_the_search_compares_the_limits_between_two_machines() -> None:
    """The first worker sends to the second, and only machine 1 may send to machine 0. As seen from any other machine
    the two are alike (there is no other), but they cannot change places."""
    room, limits = np.ones(2, dtype=np.int64), _limit({(0, 1): 0.0})
    found = search(kind(2, "point-to-point"), room, room == 4, limits, (0, 2))
    assert found == ((1, (0,)), (0, (1,)))


def _limit(some: dict[tuple[int, int], float]) -> Callable[[int, int], float]:
    return lambda a, b: some.get((a, b), 1.0)


def test_the_search_does_not_give_up_early() -> None:
    """Two workers, 30 machines that all differ: only the last two may send each other K/2. The first worker is tried on
    the 28 before them, the second beside each on 29 others, and then on 29: 28 x 30 + 30 = 870 tries."""
    room = np.ones(30, dtype=np.int64)

    def between(a: int, b: int) -> float:
        return 1.0 if min(a, b) == 28 else 1e-6 * (30 * a + b)

    found = search(kind(2), room, room == 4, between, (0, 2))
    assert found is not None
    assert {machine for machine, _ in found} == {28, 29}


def test_the_search_looks_at_one_of_several_machines_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six machines whose limits are the same, and too low for anything: the first worker is tried on one of them and
    the second on that one (which is full) and on one other, not on all."""
    room, asked = np.ones(6, dtype=np.int64), []
    admit = Load.admit

    def counted(self: Load, worker: int, machine: int, fits: Callable[[int, int, float], bool]) -> bool:
        asked.append((worker, machine))
        return admit(self, worker, machine, fits)

    monkeypatch.setattr(Load, "admit", counted)
    assert search(kind(2), room, room == 4, lambda a, b: 0.0, (0, 2)) is None
    assert asked == [(0, 0), (1, 1)]


def test_a_job_that_is_beyond_the_bandwidth_now_waits() -> None:
    """6 workers, 10 Gbit/s, stages of 1 s, so 0.75 K: two machines send K/2, fragments of 3, 1, 1 and 1 send K."""
    held = [toy_job("x0", 1, 10), *(toy_job(f"x{i}", 3, 10) for i in (1, 2, 3))]
    core = waiting([*held, toy_job("big", 6, 5, message_bytes=1.25e9 / 0.75)], 4)
    for i in range(4):
        core.table.starting(f"x{i}", tuple(range(4 * i, 4 * i + held[i].gpus)), None)
    (hold,) = core.step(0.0, [])
    assert hold.reason == "no machines with free GPUs keep its traffic within the bandwidth"


def test_a_job_that_no_machines_could_keep_within_the_bandwidth_does_not_wait() -> None:
    """1e12 bytes in stages of 1 s over 10 Gbit/s: not even an empty cluster would do, so it starts beside others."""
    jobs = [toy_job("x", 1, 10), toy_job("big", 6, 5, message_bytes=1e12)]
    core = waiting(jobs, 3)
    core.table.starting("x", (0,), None)
    (start,) = core.step(0.0, [])
    assert isinstance(start, Start)
    assert start.reason.endswith("beyond the bandwidth, as it would be on any machines")


def test_looking_for_a_place_within_the_bandwidth_ends_on_many_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """16 workers on idle machines, half of what the fullest stage sends allowed: nothing is found. On 512 machines no
    more workers are tried than on 64, and for each no more than all machines are looked at. It took hours."""
    tried, admit = [0], Load.admit

    def counted(self: Load, worker: int, machine: int, fits: Callable[[int, int, float], bool]) -> bool:
        tried[-1] += 1
        return admit(self, worker, machine, fits)

    monkeypatch.setattr(Load, "admit", counted)
    asked = [0]

    def between(a: int, b: int) -> float:
        asked[-1] += 1
        assert asked[-1] < 1_000_000
        return 0.25

    for machines in (64, 512):
        room = np.full(machines, 8)
        assert solve(kind(16), room, room == 8, StageLimits(0.25, between)) is None
        tried.append(0)
        asked.append(0)
    assert tried[0] == tried[1] <= TRIES
    assert asked[1] <= 8 * asked[0]


def test_printed_takes_idle_machines_and_deals_workers_at_random() -> None:
    room = np.array([3, 3, 4])
    rng = np.random.default_rng(1)
    found = [printed(kind(6), room, room == 4, NO_LIMIT, rng) for _ in range(8)]
    assert all(f is not None and f[0][0] == 2 for f in found)
    assert len({f[0][1] for f in found if f}) > 1


@pytest.mark.parametrize("seed", range(6))
def test_printed_takes_the_machine_with_the_largest_h_next(seed: int) -> None:
    """Three machines of two free GPUs, four workers. The link between the first two carries 0.3 K in a stage, so the
    second often has a feasible set of one worker, which saves no machine; the third has one of two, which saves one."""
    limits = StageLimits(0.0, lambda a, b: 0.3 if {a, b} == {0, 1} else np.inf)
    room = np.array([2, 2, 2])
    found = printed(kind(4), room, room == 9, limits, np.random.default_rng(seed))
    assert found is not None
    assert [machine for machine, _ in found] == [0, 2]


def test_sharings_use_as_many_machines_as_told() -> None:
    room = np.array([3, 3, 2, 4, 4])
    for shares in Rooms(room, room == 4).sharings(7, 1, 3):
        assert len(shares) == 3
        assert sum(room[m] == 4 for m, _ in shares) == 1
        assert sum(count for _, count in shares) == 7


@pytest.mark.parametrize("order", names("order"))
@pytest.mark.parametrize("interleave", ["none", "cassini"])
def test_with_every_order(order: str, interleave: str) -> None:
    jobs = [toy_job(f"j{i}", 1 + 2 * i % 5, 3, submit_s=float(i)) for i in range(6)]
    world = ToyWorld(toy_cluster(1, 3, 4), jobs)

    core = played(world, "titan", order=order, interleave=interleave)
    assert not core.table.jobs


@pytest.mark.parametrize("order", names("order"))
@pytest.mark.parametrize("interleave", ["none", "cassini"])
def test_simulated_with_every_order(order: str, interleave: str) -> None:
    """Jobs of 6 on machines of 4 share NICs: all end, whoever goes first, and CASSINI shifts some of them."""
    run = weft.simulate(
        {
            "cluster": {"topology": "single-switch", "servers": 4, "gpus_per_server": 4, "nic_gbps": 25},
            "workload": {"source": "batch", "jobs": 5, "gpus": {6: 1.0}, "iterations": [40, 80], "models": ["vgg16"]},
            "network": {"sharing": "max-min", "collective": "ring"},  # one period wherever they are: shifts can help
        },
        stack="titan", order=order, interleave=interleave,
    )  # fmt: skip
    assert set(run.jobs["status"]) == {"finished"}
    assert run.jobs["iterations"].min() >= 40  # type: ignore[operator]
    shifted = run.jobs["gate_s"].sum() > 0.0 or "gate" in set(run.decisions["action"])
    assert shifted == (interleave == "cassini")


def test_parameter() -> None:
    assert Titan.from_text("plus/ring/0.1").name == "titan:plus/ring/0.1"
    for text in ("best", "0", "plus/printed", ""):
        with pytest.raises(StackError, match=r"^titan:"):
            Titan.from_text(text)
    assert [place.from_text(None).name for place in (Titan, ElasticFlow, HiveD)] == ["titan", "elasticflow", "hived"]
