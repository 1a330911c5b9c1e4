"""Ada-SRSF on real TCP: what is run there, and that the live stack takes jobs to their ends."""

import numpy as np
import pytest

from live.tests.testbed.needs import need_testbed
from weft.stacks import resolve
from weft_evidence.ada_srsf import CLAIMS
from weft_evidence.ada_srsf.real import (
    NIC_GBPS,
    OTHERS,
    WHOLE,
    _at_once,
    _bed,
    _cluster,
    _mean_jct_s,
    _simulated,
    _two,
    drawn,
    live,
)
from weft_live.engine import find
from weft_live.testbed.world import TestbedWorld

LINE = NIC_GBPS * 1e9 / 8


def test_the_simulator_says_what_two_equal_jobs_cost_each_other_at_once_and_in_turn() -> None:
    """Both compute for 0.3 s and send for 0.64. At once both always meet: 0.3 + 2 x 0.64 s. In turn the link is never
    idle once the first has waited, so an iteration takes 2 x 0.64 s."""
    jobs = [_two(1, 200)[0]] * 2
    alone = [0.94, 0.94]
    assert _simulated(jobs, alone, "fair") == pytest.approx((0.3 + 1.28) / 0.94, rel=0.01)
    assert _simulated(jobs, alone, "at-most:1") == pytest.approx(1.28 / 0.94, rel=0.01)


def test_both_jobs_of_a_pair_take_about_as_long_in_all() -> None:
    for ratio in (16, 4):
        (large, n), (small, more) = _two(ratio, 14)
        assert large.message_bytes == ratio * small.message_bytes
        assert more * (small.compute_s + small.message_bytes / LINE) == pytest.approx(n * 0.94, rel=0.02)


def test_drawn_jobs_are_those_of_their_seed_and_fit_the_cluster() -> None:
    assert drawn(3) == drawn(3) != drawn(4)
    for job in drawn(3):
        assert job["gpus"] in (2, 3)
        assert 0.0 <= job["submit_s"] <= 4.0


def test_the_stacks_give_whole_gpus_and_stand_beside_headline_claims() -> None:
    assert not any(resolve(name).planner.shares_gpus for name in (WHOLE, *(stack for stack, _, _ in OTHERS)))
    assert all(CLAIMS[claim].headline for _, _, claim in OTHERS)
    assert not TestbedWorld.capabilities.gpu_sharing
    assert find("testbed", {}).name == "testbed"


@pytest.mark.testbed
def test_two_all_reduces_at_once_share_a_real_link() -> None:
    """Whatever contention costs, two cannot both have the whole link."""
    need_testbed()
    with _bed(2, 2) as bed:
        one, two = (_at_once(bed, k, 50.0, 8) for k in (1, 2))
    assert one > 0.9 * 5e7 / LINE
    assert two > 1.5 * 5e7 / LINE


@pytest.mark.long
@pytest.mark.testbed
def test_ada_srsf_runs_live_from_submission_to_the_last_end() -> None:
    need_testbed()
    jobs = [{**job, "iterations": 12} for job in drawn(0)[:3]]
    with _bed(3, 2) as bed:
        mean_s = live(bed, _cluster(3, 2), jobs, WHOLE)
    assert mean_s > 0.8 * _mean_jct_s(jobs, WHOLE)
    assert np.isfinite(mean_s)
