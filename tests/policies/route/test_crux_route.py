"""crux: the most intense job chooses first; what is least congested."""

import numpy as np
import pytest

from tests.policies.route.sights import fabric, job, numbers, sight, uplinks
from weft.policies.route.choices import busiest_s, worst_first
from weft.policies.route.crux import Crux


def test_the_most_intense_job_chooses_first() -> None:
    """Two spines. b computes more for each second on its NIC, so it takes the first; a, submitted first, the other."""
    a, b = job("a", [(0, 4)], gpus=1), job("b", [(1, 5)], gpus=8)
    found = Crux().route(sight(fabric(2, 4, 2), [a, b]), {}).routes
    assert (numbers(found["b"]), numbers(found["a"])) == ([0], [1])


@pytest.mark.parametrize(("by", "third"), [("load", 1), ("flows", 0)])
def test_what_congested_means(by: str, third: int) -> None:
    """Two spines; a heavy flow takes the first and a light one the second. The third flow goes beside the light one if
    the load counts, and to the first spine if flows are counted."""
    heavy, light = job("a", [(0, 4)], size=2e9, gpus=64), job("b", [(1, 5)], size=1e8, gpus=2)
    third_job = job("c", [(2, 6)], size=1e8, gpus=1)
    found = Crux.from_text(by).route(sight(fabric(2, 4, 2), [heavy, light, third_job]), {}).routes
    assert [numbers(found[name]) for name in "abc"] == [[0], [1], [third]]


def test_while_there_are_paths_nobody_shares() -> None:
    jobs = [job(f"j{i}", [(i, 4 + i)]) for i in range(4)]
    view = sight(fabric(2, 4, 4), jobs)
    used = uplinks(view, Crux().route(view, {}).routes)
    assert len(used) == len(set(used)) == 8


def test_time_on_the_busiest_link() -> None:
    """1e9 bytes on a NIC of 1.25e9 bytes/s; with a fourth of the bandwidth above, half of that from each of three flows
    on a link of 0.625e9."""
    for scarce, seconds in ((1.0, 0.8), (4.0, 3 * 0.5e9 / 0.625e9)):
        view = sight(fabric(2, 4, 2, scarce), [job("a", [(0, 4), (1, 5), (2, 6)])])
        assert busiest_s(view, view.jobs["a"]) == pytest.approx(seconds)


def test_worst_first() -> None:
    """The busiest link decides, then the next, then the number."""
    load = np.array([0.0, 1.0, 2.0, 2.0])
    assert worst_first(load, np.array([[3, 0], [1, 1], [2, 0]])) == 1
    assert worst_first(load, np.array([[3, 1], [2, 0]])) == 1
    assert worst_first(load, np.array([[3, 0], [2, 0]])) == 0
