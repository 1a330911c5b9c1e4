"""The time schedule: by hand, and no link above its capacity."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.policies.interleave.foresight.slots import Room, Slot, Way, schedule

FOUR_AND_FOUR = Way(8.0, 4.0, 4.0, {"e": 1.0})  # computes for 4, sends for 4


def delays(slots: dict[str, list[Slot]], job: str) -> list[float]:
    return [slot.delay_s for slot in slots[job]]


def test_two_jobs_take_turns() -> None:
    """One link of 1; three iterations of A and B. B waits for 4 once: A sends in 4-8, 12-16, ..., B in 8-12, 16-20."""
    found = schedule({"A": [FOUR_AND_FOUR], "B": [FOUR_AND_FOUR]}, Room({"e": 1.0}), {"A": 0.0, "B": 0.0}, 24.0)
    assert delays(found, "A") == [0.0, 0.0, 0.0]
    assert delays(found, "B") == [4.0, 0.0, 0.0]
    assert [slot.sends_s for slot in found["B"]] == [8.0, 16.0, 24.0]


def test_a_cap_with_which_it_ends_first() -> None:
    """A link of 2, on which A has 1 until 4. At full rate B needs 2 for 2: it waits till 4 and ends at 6. At half the
    rate it starts at once and ends at 4."""
    room = Room({"e": 2.0})
    room.take(Slot(0.0, 0.0, Way(4.0, 0.0, 4.0, {"e": 1.0})))
    whole, half = Way(2.0, 0.0, 2.0, {"e": 2.0}), Way(4.0, 0.0, 4.0, {"e": 1.0}, 0.5)
    assert schedule({"B": [whole]}, room, {"B": 0.0}, 2.0)["B"][0].ends_s == 6.0
    room = Room({"e": 2.0})
    room.take(Slot(0.0, 0.0, Way(4.0, 0.0, 4.0, {"e": 1.0})))
    found = schedule({"B": [whole, half]}, room, {"B": 0.0}, 2.0)["B"][0]
    assert (found.way.cap, found.delay_s, found.ends_s) == (0.5, 0.0, 4.0)


def test_more_than_a_link_has() -> None:
    """2.5 on a link of 1: the window is three times as long; a way that fits is taken before."""
    wide = Way(8.0, 4.0, 4.0, {"e": 2.5})
    found = wide.within({"e": 1.0})
    assert (found.window_s, found.period_s, found.loads["e"], found.squeezed) == (12.0, 16.0, 1.0, True)
    slow = Way(30.0, 4.0, 26.0, {"e": 0.5}, 0.25)
    assert schedule({"A": [wide, slow]}, Room({"e": 1.0}), {"A": 0.0}, 8.0)["A"][0].way == slow


WAYS = st.builds(
    lambda compute, window, loads: Way(compute + window, compute, window, loads),
    st.integers(0, 5).map(float), st.integers(1, 5).map(float),
    st.dictionaries(st.sampled_from("efg"), st.integers(1, 3).map(float), min_size=1),
)  # fmt: skip


@given(st.lists(WAYS, min_size=1, max_size=4), st.integers(1, 4))
@settings(max_examples=examples(60), deadline=None)
def test_no_link_carries_more_than_it_can(ways: list[Way], capacity: int) -> None:
    room = {link: float(capacity) for link in "efg"}
    names = [str(i) for i in range(len(ways))]
    found = schedule({n: [w] for n, w in zip(names, ways, strict=True)}, Room(room), dict.fromkeys(names, 0.0), 20.0)
    slots = [slot for mine in found.values() for slot in mine]
    for mine in found.values():
        assert all(a.ends_s == b.ready_s for a, b in pairwise(mine))
        assert all(slot.delay_s >= 0.0 for slot in mine)
    for at in {slot.sends_s for slot in slots}:
        for link in "efg":
            there = [s.way.loads.get(link, 0.0) for s in slots if s.sends_s <= at + 1e-9 and s.over_s > at + 1e-9]
            assert sum(there) <= room[link] + 1e-9
