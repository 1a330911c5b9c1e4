"""Sharing scheduled: the kernel against its plain twin, and what max-min and never-ahead mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.compiled import load
from weft.network.slots.scheduled import fair_rates, link_demand, reach


@st.composite
def flows_on_links(draw: st.DrawFn) -> tuple[list[list[int]], list[float], list[float]]:
    links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.integers(1, 40).map(float), min_size=links, max_size=links))
    some = st.lists(st.integers(0, links - 1), min_size=1, max_size=3, unique=True)
    paths = draw(st.lists(some, min_size=1, max_size=12))
    ask = draw(st.lists(st.integers(0, 30).map(float), min_size=len(paths), max_size=len(paths)))
    return paths, ask, capacity


@given(flows_on_links())
@settings(max_examples=100, deadline=None)
def test_rates_are_max_min_and_the_kernel_finds_the_same(
    case: tuple[list[list[int]], list[float], list[float]],
) -> None:
    """No flow gets more than it asks for; one that gets less has a full link on which nobody gets more."""
    paths, ask, capacity = case
    rates = fair_rates(paths, ask, capacity)
    loads = link_demand(paths, rates, len(capacity))
    assert all(x <= c * (1 + 1e-9) for x, c in zip(loads, capacity, strict=True))
    for i, path in enumerate(paths):
        assert 0.0 <= rates[i] <= ask[i]
        if rates[i] < ask[i]:
            assert any(
                loads[k] >= capacity[k] * (1 - 1e-9)
                and all(rates[j] <= rates[i] * (1 + 1e-9) for j, other in enumerate(paths) if k in other)
                for k in path
            )
    kernel = load("weft.network.slots.scheduled_kernel", ("network/slots",))
    table = np.full((len(paths), 3), -1, np.int32)
    for i, path in enumerate(paths):
        table[i, : len(path)] = path
    got = np.zeros(len(paths))
    kernel.fill(np.arange(len(paths)), table, np.array(ask), np.array(capacity), got)
    assert got.tolist() == rates


@given(st.integers(2, 6), st.data())
@settings(max_examples=60, deadline=None)
def test_a_ring_never_runs_ahead_and_the_kernel_says_the_same(n: int, data: st.DataObject) -> None:
    """sent_i <= chunk_i + sent_(i-1) all round, as much as that allows."""
    amounts = st.lists(st.integers(0, 20).map(float), min_size=n, max_size=n)
    chunk = [1.0 + c for c in data.draw(amounts)]
    end, size, sent = data.draw(amounts), [20.0] * n, [0.0] * n
    feed = [((i - 1) % n, (i - 1) % n + 1) for i in range(n)]
    found = reach(feed, chunk, size, sent, end)
    for i in range(n):
        assert found[i] <= end[i]
        assert found[i] <= found[i - 1] + chunk[i] or found[i] == sent[i]
        assert found[i] in (end[i], found[i - 1] + chunk[i])  # nothing is held back without a reason
    kernel = load("weft.network.slots.scheduled_kernel", ("network/slots",))
    for start_after in (False, True):
        again = np.array(end)
        low, high = (np.array(side) for side in zip(*feed, strict=True))
        kernel.reach(0, n, low, high, np.array(chunk), np.array(size), np.array(sent), again, start_after)
        assert again.tolist() == reach(feed, chunk, size, sent, end, start_after)


def test_start_after() -> None:
    """A broadcast waits for both pushes; a ring's second chunk for the whole first one."""
    feed = [(0, 0), (0, 0), (0, 2)]
    assert reach(feed, [0.0] * 3, [4.0] * 3, [0.0] * 3, [4.0, 3.0, 4.0])[2] == 3.0
    assert reach(feed, [0.0] * 3, [4.0] * 3, [0.0] * 3, [4.0, 3.0, 4.0], True)[2] == 0.0
    assert reach(feed, [0.0] * 3, [4.0] * 3, [0.0] * 3, [4.0, 4.0, 4.0], True)[2] == 4.0
    ring = reach([(1, 2), (0, 1)], [2.0, 2.0], [4.0, 4.0], [0.0, 0.0], [4.0, 1.5], True)
    assert ring == pytest.approx([2.0, 1.5])
