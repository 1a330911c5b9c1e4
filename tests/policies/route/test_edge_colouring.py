"""edge-colouring: flows between racks do not meet while there are spines enough."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.policies.route.sights import fabric, job, numbers, sight, uplinks
from weft.policies.route.edge_colouring import EdgeColouring

CLUSTER = fabric(4, 4, 4)
PAIRS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda p: p[0] != p[1]), max_size=8)


def test_three_racks_all_to_all() -> None:
    """Two spines, six flows, no link shared."""
    view = sight(fabric(3, 2, 2), [job("a", [(a, b) for a in (0, 2, 4) for b in (0, 2, 4) if a != b])])
    used = uplinks(view, EdgeColouring().route(view, {}).routes)
    assert len(used) == len(set(used)) == 12


def test_three_flows_between_two_racks_take_turns() -> None:
    """D = 3 on two spines: 0, 1, 0."""
    view = sight(fabric(2, 3, 2), [job("a", [(0, 3), (1, 4)]), job("b", [(2, 5)])])
    found = EdgeColouring().route(view, {}).routes
    assert numbers(found["a"]) + numbers(found["b"]) == [0, 1, 0]


def test_flows_inside_a_rack_cross_no_spine() -> None:
    view = sight(fabric(2, 3, 2), [job("a", [(0, 1), (1, 3)])])
    assert len(uplinks(view, EdgeColouring().route(view, {}).routes)) == 2


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_no_link_carries_more_than_it_must(pairs: list[list[tuple[int, int]]]) -> None:
    """At most ceil(D / spines) flows on any link of a spine, D the most that leave or reach a rack."""
    view = sight(CLUSTER, [job(f"j{i}", mine) for i, mine in enumerate(pairs)])
    across = [(a // 4, b // 4) for mine in pairs for a, b in mine if a // 4 != b // 4]
    ends = Counter(("out", a) for a, _ in across) + Counter(("in", b) for _, b in across)
    used = Counter(uplinks(view, EdgeColouring().route(view, {}).routes))
    assert max(used.values(), default=0) <= -(-max(ends.values(), default=0) // 4)
