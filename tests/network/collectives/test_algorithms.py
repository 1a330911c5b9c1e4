from math import ceil, log2

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from tests.network.collectives.forms import CLOSED_FORMS, closed_form
from weft.errors import InputError
from weft.model.profile import APART
from weft.network.collectives import COLLECTIVES, Stage, get_collective, stages
from weft.network.collectives.algorithms import host_ranks

FAST = settings(max_examples=examples(60), deadline=None)
SIZES = st.floats(1.0, 1e10)
ANY_N = list(range(2, 21))


def sent(name: str, n: int, message: float, n_ps: int = 1) -> list[float]:
    """Bytes that each rank sends."""
    total = [0.0] * n
    for stage in stages(name, n, message, n_ps):
        for src, _ in stage.pairs:
            total[src] += stage.bytes * stage.steps
    return total


def received(own: frozenset[int], incoming: frozenset[int]) -> frozenset[int]:
    """What a worker has after a message: a sum of other workers' parts, or a finished result; nobody counts twice."""
    if incoming >= own:
        return incoming
    assert not own & incoming, "a contribution would be counted twice"
    return own | incoming


# Data movement: contributions as sets, for any number of workers


@pytest.mark.parametrize("name", ["recursive-doubling", "tree"])
@pytest.mark.parametrize("n", ANY_N)
def test_whole_message_all_reduce_ends_with_all_contributions(name: str, n: int) -> None:
    have = [frozenset({r}) for r in range(n)]
    for stage in stages(name, n, 1.0):
        before = list(have)
        assert stage.bytes == 1.0
        assert len({dst for _, dst in stage.pairs}) == len(stage.pairs)  # one message at a time
        for src, dst in stage.pairs:
            have[dst] = received(have[dst], before[src])
    assert have == [frozenset(range(n))] * n


def exchange(span: dict[int, range], src: int, dst: int, blocks: int) -> range:
    """Blocks that src sends in a halving or doubling stage of that many blocks: what the partner keeps, or its own."""
    own = span[src]
    if len(own) == 2 * blocks:
        assert span[dst] == own, "partners halve the same part"
        return own[blocks:] if src < dst else own[:blocks]
    assert len(own) == blocks
    return own


@pytest.mark.parametrize("n", ANY_N)
def test_halving_doubling_ends_with_all_contributions(n: int) -> None:
    core = 2 ** int(log2(n))
    have = [[frozenset({r})] * core for r in range(n)]  # by rank and block
    span = dict.fromkeys(range(n), range(core))  # blocks that a rank is in charge of
    for stage in stages("halving-doubling", n, float(core)):
        blocks = round(stage.bytes)
        before = [list(row) for row in have]
        halving = core > 1 and all(len(span[src]) == 2 * blocks for src, _ in stage.pairs)
        new_span = dict(span)
        for src, dst in stage.pairs:
            parts = range(core) if blocks == core else exchange(span, src, dst, blocks)
            for block in parts:
                have[dst][block] = received(have[dst][block], before[src][block])
            if halving:
                new_span[dst] = parts
            elif blocks < core:
                low, high = sorted((span[dst], parts), key=lambda r: r.start)
                assert low.stop == high.start, "partners double to one piece"
                new_span[dst] = range(low.start, high.stop)
        span = new_span
    assert have == [[frozenset(range(n))] * core] * n


@pytest.mark.parametrize("n", ANY_N)
def test_ring_ends_with_all_contributions(n: int) -> None:
    (stage,) = stages("ring", n, float(n))
    assert stage == Stage(1.0, tuple((r, (r + 1) % n) for r in range(n)), 2 * (n - 1))
    have = [[frozenset({r})] * n for r in range(n)]
    for step in range(stage.steps):  # rank r passes on the chunk it got last
        before = [list(row) for row in have]
        for src, dst in stage.pairs:
            chunk = (src - step) % n
            have[dst][chunk] = received(have[dst][chunk], before[src][chunk])
    assert have == [[frozenset(range(n))] * n] * n


@pytest.mark.parametrize("n", ANY_N)
@pytest.mark.parametrize("n_ps", [1, 2, 3, 7, 25])
def test_parameter_servers_end_with_all_contributions(n: int, n_ps: int) -> None:
    push, pull = stages("parameter-server", n, 100.0, n_ps)
    hosts = host_ranks(n, n_ps)
    assert all(0 <= host < n for host in hosts)
    assert max(hosts.count(h) for h in set(hosts)) == ceil(n_ps / n)  # spread evenly
    for host in set(hosts):
        times = hosts.count(host)
        assert sorted(src for src, dst in push.pairs if dst == host) == sorted(
            [r for r in range(n) if r != host] * times
        )
        assert sorted(dst for src, dst in pull.pairs if src == host) == sorted(
            [r for r in range(n) if r != host] * times
        )
    assert push.bytes == pull.bytes == 100.0 / n_ps


def test_parameter_servers_stand_beside_evenly_spread_workers() -> None:
    assert host_ranks(8, 1) == (0,)
    assert host_ranks(8, 2) == (0, 4)
    assert host_ranks(5, 3) == (0, 1, 3)
    assert host_ranks(2, 4) == (0, 0, 1, 1)


@pytest.mark.parametrize("n", ANY_N)
def test_all_to_all_joins_every_ordered_pair_once(n: int) -> None:
    (stage,) = stages("all-to-all", n, 1.0)
    assert sorted(stage.pairs) == [(a, b) for a in range(n) for b in range(n) if a != b]
    assert sent("all-to-all", n, 1.0) == pytest.approx([(n - 1) / n] * n)


def test_point_to_point_goes_from_the_first_half_to_the_second() -> None:
    assert stages("point-to-point", 2, 5.0) == (Stage(5.0, ((0, 1),)),)
    assert stages("point-to-point", 4, 5.0) == (Stage(5.0, ((0, 2), (1, 3))),)
    with pytest.raises(InputError, match="has 3 workers"):
        stages("point-to-point", 3, 5.0)


# Bytes


@FAST
@given(st.integers(2, 40), SIZES)
def test_ring_sends_two_n_minus_one_messages_in_all(n: int, message: float) -> None:
    assert sum(sent("ring", n, message)) == pytest.approx(2 * (n - 1) * message)
    assert sent("ring", n, message) == pytest.approx([2 * (n - 1) / n * message] * n)


@FAST
@given(st.integers(1, 6), SIZES)
def test_halving_doubling_is_bandwidth_optimal_at_powers_of_two(exponent: int, message: float) -> None:
    n = 2**exponent
    assert sent("halving-doubling", n, message) == pytest.approx([2 * (n - 1) / n * message] * n)


@FAST
@given(st.integers(2, 40), SIZES)
def test_halving_doubling_beyond_a_power_of_two_adds_two_messages_per_extra_worker(n: int, message: float) -> None:
    core = 2 ** int(log2(n))
    expected = 2 * (core - 1) * message + 2 * (n - core) * message
    assert sum(sent("halving-doubling", n, message)) == pytest.approx(expected)


@FAST
@given(st.integers(2, 40), SIZES)
def test_tree_sends_two_n_minus_one_messages_in_whole_rounds(n: int, message: float) -> None:
    assert sum(sent("tree", n, message)) == pytest.approx(2 * (n - 1) * message)
    assert len(stages("tree", n, message)) == 2 * ceil(log2(n))


@FAST
@given(st.integers(2, 40), st.integers(1, 60), SIZES)
def test_parameter_servers_move_the_message_twice_per_remote_worker(n: int, n_ps: int, message: float) -> None:
    assert sum(sent("parameter-server", n, message, n_ps)) == pytest.approx(2 * (n - 1) * message)


@FAST
@given(st.integers(2, 40), st.integers(1, 60), SIZES)
def test_servers_apart_move_the_message_twice_per_worker(n: int, n_ps: int, message: float) -> None:
    push, pull = stages(APART, n, message, n_ps)
    assert all(worker < n <= server < n + n_ps for worker, server in push.pairs)
    assert pull.pairs == tuple((server, worker) for worker, server in push.pairs)
    assert (push.bytes + pull.bytes) * len(push.pairs) == pytest.approx(2 * n * message)


@FAST
@given(st.sampled_from(list(COLLECTIVES)), st.integers(1, 20).map(lambda half: 2 * half), SIZES, st.integers(1, 5))
def test_stages_are_well_formed(name: str, n: int, message: float, n_ps: int) -> None:
    for stage in stages(name, n, message, n_ps):
        assert stage.bytes > 0
        assert stage.steps >= 1
        assert stage.pairs
        places = n + n_ps if name == APART else n
        assert all(0 <= a < places and 0 <= b < places and a != b for a, b in stage.pairs)


@pytest.mark.parametrize("name", list(COLLECTIVES))
def test_one_worker_sends_nothing(name: str) -> None:
    assert stages(name, 1, 1e6) == ()


# Table I of the Ada-SRSF paper


@pytest.mark.parametrize("name", CLOSED_FORMS)
@pytest.mark.parametrize("n", [2, 4, 8, 16, 32, 64])
def test_stages_add_up_to_table_one(name: str, n: int) -> None:
    """T = a + b M with a = alpha x rounds and b M = beta x bytes sent one after the other (gamma = 0)."""
    alpha, beta, message = 3e-5, 8e-10, 1e8
    a, b = closed_form(name, n, alpha, beta)
    rounds = sum(stage.steps for stage in stages(name, n, message))
    serial = sum(stage.steps * stage.bytes for stage in stages(name, n, message))
    assert a == pytest.approx(alpha * rounds)
    assert b * message == pytest.approx(beta * serial)


def test_table_one_with_reduction_cost() -> None:
    """N = 8, alpha = beta = 1, gamma = 10, by hand."""
    assert closed_form("tree", 8, 1, 1, 10) == (6, 36)
    assert closed_form("recursive-doubling", 8, 1, 1, 10) == (3, 33)
    assert closed_form("halving-doubling", 8, 1, 1, 10) == pytest.approx((6, 2 - 12 / 8 + 10))
    assert closed_form("ring", 8, 1, 1, 10) == pytest.approx((14, 14 / 8 + 70 / 8))
    assert closed_form("ring", 1, 1, 1, 10) == (0, 0)


# Refusals


def test_unknown_names_and_numbers_are_refused() -> None:
    with pytest.raises(
        InputError, match="collective 'star' is unknown; choose one of ring, one-ring, halving-doubling"
    ):
        get_collective("star")
    with pytest.raises(InputError, match="0 workers"):
        stages("ring", 0, 1.0)
    with pytest.raises(InputError, match="0 parameter servers"):
        stages("parameter-server", 4, 1.0, 0)
    with pytest.raises(InputError, match="nan bytes"):
        stages("ring", 4, float("nan"))
