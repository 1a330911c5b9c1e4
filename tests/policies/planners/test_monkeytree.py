"""monkeytree: conforms; the program by hand and against enumeration; a migration as a sequence of decisions."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from testkit.toys import played
from weft.model import Start, Stop
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.plan import Candidate, State
from weft.model.profile import Compute, Profile, Transfer
from weft.model.reason import Reason
from weft.model.view import ClusterView
from weft.network.topologies import single_switch
from weft.policies.planners.monkeytree import MonkeyTree, rings, spines
from weft.policies.planners.monkeytree.plan import Segment, fragmentation, moved
from weft.testing import ToyWorld, check_planner, toy_cluster, toy_job

A, B, C = (2, 2, 0), (2, 0, 2), (0, 1, 0)  # blocks on three ToRs of four


def test_conforms() -> None:
    check_planner(MonkeyTree, range(3))
    check_planner(lambda: MonkeyTree(0), range(2))


def moves(before: list[Segment], after: list[tuple[int, ...]]) -> int:
    """Half of the sum of d."""
    return sum(abs(a - b) for s, w in zip(before, after, strict=True) for a, b in zip(s.blocks, w, strict=True)) // 2


@pytest.mark.parametrize(("n", "limit", "expected"), [
    (1, 2, 0), (1, 1, 2), (1, 0, 4), (8, 16, 0), (8, 8, 2),
])  # fmt: skip
def test_three_tors_of_four_blocks(n: int, limit: int, expected: int) -> None:
    """A on T0 and T1, B on T0 and T2, C whole on T1: fragmentation 2, 1, 1 (times the rings). With a limit of 1, B goes
    to T2 whole, with 0 A to T0 as well."""
    segments = [Segment(n, A), Segment(n, B), Segment(n, C)]
    assert fragmentation(segments, 3) == [2 * n, n, n]
    found = moved(segments, [4, 4, 4], limit)
    assert found is not None
    assert moves(segments, found) == expected
    after = [Segment(s.rings, w) for s, w in zip(segments, found, strict=True)]
    assert max(fragmentation(after, 3)) <= limit
    if expected == 4:
        assert found == [(4, 0, 0), (0, 0, 4), C]


@st.composite
def states(draw: st.DrawFn) -> tuple[list[Segment], list[int], int]:
    tors = draw(st.integers(2, 3))
    blocks = st.tuples(*[st.integers(0, 2)] * tors).filter(any)
    segments = draw(st.lists(st.builds(Segment, st.integers(1, 2), blocks), min_size=1, max_size=3))
    room = [sum(s.blocks[t] for s in segments) + draw(st.integers(0, 2)) for t in range(tors)]
    return segments, room, draw(st.integers(0, 3))


def ways(segments: list[Segment], room: list[int], limit: int) -> list[list[tuple[int, ...]]]:
    """Every way to spread the split segments that keeps to the room and the limit."""
    options = []
    for s in segments:
        size = sum(s.blocks)
        every = [w for w in product(range(size + 1), repeat=len(room)) if sum(w) == size]
        options.append(every if s.split else [s.blocks])
    found = []
    for way in product(*options):
        after = [Segment(s.rings, w) for s, w in zip(segments, way, strict=True)]
        fits = all(sum(w[t] for w in way) <= room[t] for t in range(len(room)))
        if fits and max(fragmentation(after, len(room))) <= limit:
            found.append(list(way))
    return found


@given(states())
@settings(max_examples=examples(25), deadline=None)
def test_no_fewer_moves_will_do(case: tuple[list[Segment], list[int], int]) -> None:
    segments, room, limit = case
    if not any(s.split for s in segments):
        return
    every, found = ways(segments, room, limit), moved(segments, room, limit)
    if not every:
        assert found is None
        return
    assert found in every
    assert moves(segments, found) == min(moves(segments, way) for way in every)


def test_a_state_of_sixteen_tors_is_solved() -> None:
    """Sixteen ToRs of eight blocks: pairs of neighbours have exchanged a block of each of two jobs of four, so that two
    segments of eight rings cross each. Under a limit of 8 each pair has to bring one job home, against a free block."""
    segments, room = [], [8] * 16
    for tor in range(0, 16, 2):
        for home, guest in ((tor, tor + 1), (tor + 1, tor)):
            segments.append(Segment(8, tuple(3 if t == home else int(t == guest) for t in range(16))))
            segments.append(Segment(1, tuple(3 if t == home else 0 for t in range(16))))
    assert fragmentation(segments, 16) == [16] * 16
    found = moved(segments, room, 8)
    assert found is not None
    assert max(fragmentation([Segment(s.rings, w) for s, w in zip(segments, found, strict=True)], 16)) <= 8
    assert moves(segments, found) == 8


def test_without_an_answer_nobody_moves_and_it_is_not_sought_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ToRs of two servers hold a, of 3: under a limit of 0 there is no way. While b and c come, which find no GPUs,
    nothing that the program sees changes: it is solved once, and a has the reason each time."""
    solved, reasons, propose = [], [], MonkeyTree.propose

    def counted(segments: list[Segment], room: list[int], limit: int) -> list[tuple[int, ...]] | None:
        solved.append(room)
        return moved(segments, room, limit)

    def noted(self: MonkeyTree, view: ClusterView, state: State, n: int) -> list[Candidate]:
        found = propose(self, view, state, n)
        reasons.append((view.now, found[0].reasons.get("a")))
        return found

    monkeypatch.setattr("weft.policies.planners.monkeytree.moved", counted)
    monkeypatch.setattr(MonkeyTree, "propose", noted)
    jobs = [toy_job("a", 3, 30), *(toy_job(name, 2, 5, submit_s=when) for name, when in (("b", 5.0), ("c", 6.0)))]
    found = sequence(0, *jobs, cluster=toy_cluster(2, 2, 1))
    assert [(time_s, what, job) for time_s, what, job, _ in found] == [
        (0.0, "Start", "a"), (30.0, "Start", "b"), (30.0, "Start", "c"),
    ]  # fmt: skip
    assert len(solved) == 1
    later = [why for now, why in reasons if 0.0 < now < 30.0]
    assert len(later) >= 2
    assert {why.code for why in later if isinstance(why, Reason)} == {"weft.no-way"}


def test_rings_of_a_segment() -> None:
    """One for a ring over all; one for each tensor rank of strided rings; pairs of stages do not count."""
    assert rings(toy_job("a", 8, message_bytes=1.0).profile, range(8), 4) == 1
    groups = [tuple(range(first, 16, 4)) for first in range(4)]
    sends = [Transfer(f"g{i}", 1.0, (0,), group) for i, group in enumerate(groups)]
    pairs = Transfer("p", 1.0, (0,), (0, 8), "point-to-point")
    profile = Profile("strided", (Compute("c", 1.0), *sends, pairs), 16)
    assert rings(profile, range(16), 4) == 4
    assert rings(profile, range(8), 4) == 4
    assert profile.stages == 1


def test_spines_are_the_links_up() -> None:
    assert spines(toy_cluster(2, 2, 4)) == 2
    assert spines(single_switch(4)) == 0


def sequence(limit: int, *jobs: Job, cluster: Cluster | None = None) -> list[tuple[float, str, str, tuple[int, ...]]]:
    """(time, action, job, servers) on a cluster; else on three ToRs of four servers of one GPU."""
    core = played(ToyWorld(cluster or toy_cluster(3, 4, 1), jobs), f"monkeytree:limit={limit}")
    return [
        (time_s, type(d).__name__, d.job, d.gpus if isinstance(d, Start) else ())
        for _, time_s, d in core.journal.entries  # type: ignore[attr-defined]
        if isinstance(d, Start | Stop)
    ]


def test_a_job_moves_when_another_ends() -> None:
    """a takes 3 of T0 and b 3 of T1; c, of 4, has the best fit on T2; d, of 2, is split over the fourth servers of T0
    and T1. At 10 s c ends. Under a limit of 0 d has to be in one ToR. Neither T0 nor T1 has room for its other block:
    both go to the first servers of T2."""
    jobs = [toy_job("a", 3, 30), toy_job("b", 3, 30), toy_job("c", 4, 10), toy_job("d", 2, 20, message_bytes=1.0)]
    found = sequence(0, *jobs)
    starts = {job: gpus for _, what, job, gpus in found if what == "Start"}
    assert found[:4] == [
        (0.0, "Start", "a", (0, 1, 2)), (0.0, "Start", "b", (4, 5, 6)),
        (0.0, "Start", "c", (8, 9, 10, 11)), (0.0, "Start", "d", (3, 7)),
    ]  # fmt: skip
    assert [(time_s, what, job) for time_s, what, job, _ in found[4:]] == [(10.0, "Stop", "d"), (10.0, "Start", "d")]
    assert starts["d"] == (8, 9)


def test_nobody_moves_below_the_limit() -> None:
    jobs = [toy_job("a", 3, 30), toy_job("b", 3, 30), toy_job("c", 4, 10), toy_job("d", 2, 20, message_bytes=1.0)]
    assert len(sequence(1, *jobs)) == 4


def test_the_first_in_line_blocks() -> None:
    """b does not fit beside a, and c, which would, waits behind it."""
    found = sequence(2, toy_job("a", 6, 10), toy_job("b", 8, 10), toy_job("c", 2, 10))
    assert [(time_s, job) for time_s, _, job, _ in found] == [(0.0, "a"), (10.0, "b"), (10.0, "c")]
