"""colouring: proper with exactly D colours; cases by hand."""

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from weft.policies.route.colouring import colour, degree, spines

RACKS = st.integers(0, 7)


@given(st.lists(st.tuples(RACKS, RACKS), max_size=80))
def test_edges_that_meet_differ_and_d_colours_are_enough(edges: list[tuple[int, int]]) -> None:
    """König: the edge chromatic number of a bipartite multigraph is its largest degree."""
    colours = colour(edges)
    sends, receives = Counter(a for a, _ in edges), Counter(b for _, b in edges)
    most = max([*sends.values(), *receives.values()], default=0)
    assert degree(edges) == most
    assert set(colours) <= set(range(most))
    for i, j in combinations(range(len(edges)), 2):
        if edges[i][0] == edges[j][0] or edges[i][1] == edges[j][1]:
            assert colours[i] != colours[j]


@given(st.lists(st.tuples(RACKS, RACKS), min_size=1, max_size=60), st.integers(1, 9))
def test_where_d_spines_are_there_no_link_carries_two(edges: list[tuple[int, int]], more: int) -> None:
    """With fewer, a link carries at most ceil(D / spines) of the flows of a rack that has D."""
    many = spines(edges, degree(edges) + more)
    for side in (0, 1):
        assert max(Counter((edge[side], spine) for edge, spine in zip(edges, many, strict=True)).values()) == 1
    few, most = spines(edges, more), degree(edges)
    for side in (0, 1):
        load = Counter((edge[side], spine) for edge, spine in zip(edges, few, strict=True))
        assert max(load.values()) <= -(-most // more)


def test_three_racks_all_to_all() -> None:
    """D = 2: two spines, and no link is shared."""
    edges = [("A", "B"), ("A", "C"), ("B", "A"), ("B", "C"), ("C", "A"), ("C", "B")]
    found = spines(edges, 2)
    for side in (0, 1):
        assert len({(edge[side], spine) for edge, spine in zip(edges, found, strict=True)}) == 6


def test_three_flows_between_two_racks_take_turns_on_two_spines() -> None:
    """D = 3: colours 0, 1, 2, spines 0, 1, 0."""
    assert colour([("A", "B")] * 3) == [0, 1, 2]
    assert spines([("A", "B")] * 3, 2) == [0, 1, 0]


def test_matchings_without_dummy_edges_need_more() -> None:
    """A path a-x, a-y, b-x is no trouble, but a greedy matching a-x leaves a-y and b-x: here D = 2 is met."""
    assert sorted(set(colour([("a", "x"), ("a", "y"), ("b", "x")]))) == [0, 1]


def test_no_flow_no_colour() -> None:
    assert colour([]) == []
    assert degree([]) == 0
