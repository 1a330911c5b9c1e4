"""SwitchTable: add, replace, expire."""

from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft_live.flow.switch_table import SwitchTable

POSTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-2, 6), st.lists(st.integers(0, 9), min_size=1, max_size=6)), max_size=12
)


def test_add_replace_expire() -> None:
    table = SwitchTable([7, 8], slots=4)
    table.post(1, 7, 0, [5.0, 20.0, 0.0, 1.0])
    table.post(2, 7, 0, [1.0, 1.0])
    assert table.load(7) == [6.0, 21.0, 0.0, 1.0]
    assert table.load(8) == [0.0] * 4
    table.post(1, 7, 0, [2.0, 2.0, 2.0, 2.0])  # replaces
    assert table.load(7) == [3.0, 3.0, 2.0, 2.0]
    table.advance(1)
    assert table.load(7) == [3.0, 2.0, 2.0, 0.0]
    table.post(2, 7, 0, [9.0])  # late: that slot has passed
    assert table.load(7) == [3.0, 2.0, 2.0, 0.0]
    table.withdraw(1, 7)
    assert table.load(7) == [1.0, 0.0, 0.0, 0.0]
    table.advance(99)
    assert table.load(7) == [0.0] * 4


@given(st.lists(st.one_of(POSTS, st.integers(0, 3)), max_size=6))
@settings(max_examples=examples(50), deadline=None)
def test_the_load_is_the_sum_of_the_latest_schedules(steps: list[object]) -> None:
    table, latest, now = SwitchTable([0], slots=5), dict[int, dict[int, float]](), 0
    for step in steps:
        if isinstance(step, int):
            now += step
            table.advance(now)
            continue
        assert isinstance(step, list)
        for flow, start, rates in step:
            table.post(flow, 0, start + now, [float(r) for r in rates])
            latest.setdefault(flow, {}).update(
                {start + now + t: float(r) for t, r in enumerate(rates) if now <= start + now + t < now + 5}
            )
    expected = [sum(held.get(now + t, 0.0) for held in latest.values()) for t in range(5)]
    assert table.load(0) == expected


def test_the_table_grows_with_links_alone() -> None:
    """Section VI-G: linear in attached servers, whatever is posted on them; an answer has K numbers."""
    sizes = []
    for servers in (6, 12, 24):
        table = SwitchTable(range(servers), slots=10)
        for flow in range(3 * servers):
            table.post(flow, flow % servers, 0, [1.0] * 10)
        sizes.append(table._load.size)
        assert {len(table.load(link)) for link in range(servers)} == {10}
    assert sizes == [60, 120, 240]
