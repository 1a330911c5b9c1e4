import numpy as np
import pytest

from benchmarks import _tracked, load
from benchmarks.cassini import _near, big_decision, random_circles


def test_quick_figures_are_there() -> None:
    figures = load("cassini")(True, lambda text: None)
    assert set(_tracked.Cassini.params[0]) <= figures.keys()  # as make bench keeps them
    assert figures["three_jobs_gap_max"] <= 0.001
    times = ["two_jobs_ms", "three_jobs_ms", "decision_cpu_s"]
    times += [f"{planner}_propose_100_servers_cpu_s" for planner in ("themis", "pollux")]
    assert all(figures[name] > 0.0 for name in times)


def test_a_smaller_decision_and_its_circles() -> None:
    found = big_decision(0, servers=40, n_jobs=20, candidates=3)
    assert found["wall_s"] > 0.0
    circles = random_circles(np.random.default_rng(0), 3)
    assert len(circles) == 3
    assert all(circle.pieces for circle in circles)


@pytest.mark.parametrize("servers", [40, 100])  # an even and an odd number of racks of 20
def test_pairs_near_each_other_use_every_server_once(servers: int) -> None:
    pairs = _near(np.random.default_rng(0), servers, 10).reshape(-1, 2)
    assert sorted(pairs.reshape(-1).tolist()) == list(range(servers))
    apart = int((pairs[:, 0] // 20 != pairs[:, 1] // 20).sum())
    assert apart == 10 * (servers // 40)
