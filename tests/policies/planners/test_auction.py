import itertools
import math
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testkit.draws import examples
from weft.policies.planners.auction import Bid, auction, proportional_fair

bids_of = st.dictionaries(
    st.sampled_from("abcd"),
    st.tuples(
        st.floats(0.01, 10).map(lambda value: [Bid(frozenset(), value)]),
        st.lists(st.builds(Bid, st.frozensets(st.integers(0, 6), max_size=4), st.floats(0.01, 10)), max_size=5),
    ).map(lambda both: both[0] + both[1]),
    min_size=1, max_size=4,
)  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(bids_of)
def test_the_product_of_valuations_is_the_largest(bids: dict[str, list[Bid]]) -> None:
    """Against every combination of bids in which no GPU is named twice."""
    won = proportional_fair(bids, 7)
    assert _apart(won.values())
    best = max(math.prod(b.value for b in trial) for trial in itertools.product(*bids.values()) if _apart(trial))
    assert math.prod(bid.value for bid in won.values()) == pytest.approx(best, rel=1e-7)
    for bid, part in auction(bids, 7).values():  # Themis section 5.1: nobody pays more than its share, nobody is paid
        assert 0.0 < part <= 1.0 if bid.gpus else part == 0.0


def _apart(bids: Iterable[Bid]) -> bool:
    named = [gpu for bid in bids for gpu in bid.gpus]
    return len(named) == len(set(named))


def test_payments_by_hand() -> None:
    """a values both GPUs at 3, one at 2, none at 1; b at 4, 3 and 1. One each is worth 6, all to b 4, all to a 3.

    Alone b would have both, worth 4: because of a it has 3, so a keeps 3/4. Because of b, a has 2 of 3: b keeps 2/3.
    """
    none, first, second, both = (frozenset(gpus) for gpus in ((), (0,), (1,), (0, 1)))
    bids = {
        "a": [Bid(none, 1.0), Bid(first, 2.0), Bid(second, 2.0), Bid(both, 3.0)],
        "b": [Bid(none, 1.0), Bid(first, 3.0), Bid(second, 3.0), Bid(both, 4.0)],
    }
    assert auction(bids, 2) == {
        "a": (Bid(first, 2.0), pytest.approx(3 / 4)), "b": (Bid(second, 3.0), pytest.approx(2 / 3)),
    }  # fmt: skip


def test_many_bidders_end_in_time_and_name_no_gpu_twice() -> None:
    """1200 bidders for the same 50 GPUs: more than Python's stack is deep, and far more than can be tried."""
    bids = {
        f"j{i}": [Bid(frozenset(), 1.0), *(Bid(frozenset({gpu, (gpu * 7 + i) % 50}), 2.0 + i) for gpu in range(50))]
        for i in range(1200)
    }
    won = proportional_fair(bids, 50)
    assert _apart(won.values())
    assert sum(len(bid.gpus) for bid in won.values()) > 40


def test_bidders_who_name_the_same_gpus_first_are_not_held_to_them() -> None:
    """Twenty bidders for two of 40 GPUs each, whose own bids all name the same four: in turn everybody has two."""
    same = [Bid(frozenset(), 1.0), Bid(frozenset({0, 1}), 2.0), Bid(frozenset({2, 3}), 2.0)]
    bids = {f"j{i}": same for i in range(20)}

    def best(name: str, n: int, taken: frozenset[int]) -> Bid:
        return Bid(frozenset([gpu for gpu in range(40) if gpu not in taken][:n]), 2.0)

    won = proportional_fair(bids, 40, best)
    assert {bid.value for bid in won.values()} == {2.0}
    assert _apart(won.values())
