"""Unequal shares of a link: weights of jobs, and caps below the rate of a NIC."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from tests.sim.test_analytic import chain, run_all
from weft.errors import InputError, StackError
from weft.scenario.build import build

MODEL = "vgg16"


def two(first: dict[str, Any], second: dict[str, Any], **network: Any) -> weft.Scenario:
    """Two jobs of three GPUs on three servers of two: both send through the NIC of the server in the middle."""
    jobs = [{"id": name, "model": MODEL, "gpus": 3, **({} if "duration_s" in more else {"iterations": 40}), **more}
            for name, more in (("a", first), ("b", second))]  # fmt: skip
    cluster = {"topology": "single-switch", "servers": 3, "gpus_per_server": 2, "nic_gbps": 10}
    return weft.Scenario.load(
        {"cluster": cluster, "workload": {"source": "jobs", "job": jobs}, "stack": {"name": "fifo"}, "network": network}
    )


def lengths(scenario: weft.Scenario, **layers: str) -> dict[str, float]:
    """Completion times."""
    run = weft.simulate(scenario, **layers)
    return dict(zip(run.jobs["job_id"], run.jobs["jct_s"], strict=True))


@given(st.sampled_from([1, 2, 3, 10, 1000]), st.floats(0.1, 10.0))
def test_two_weights_on_a_link(weight: int, size: float) -> None:
    """Weights w and 1, both B bytes on a link of C = 1: the first is done at B (w + 1) / w, the second at 2 B."""
    heavy, light = run_all([chain(0.0, size, 0, claim=weight), chain(0.0, size, 0)])
    assert heavy.finish_s == pytest.approx(size * (weight + 1) / weight, rel=1e-9)
    assert light.finish_s == pytest.approx(2 * size, rel=1e-9)


def test_what_a_cap_leaves_goes_to_the_others() -> None:
    """Weights 4 and 1 on a link of 1, the first capped at 0.5: both have half, and both are done at 2 B."""
    capped, other = run_all([chain(0.0, 1.0, 0, claim=4, demand=0.5), chain(0.0, 1.0, 0)])
    assert (capped.finish_s, other.finish_s) == pytest.approx((2.0, 2.0), rel=1e-9)


def test_listed_jobs_have_weights() -> None:
    """Of two equal jobs that meet in a NIC, the heavier one is nearly as fast as alone, and the other no slower than
    without weights: what the first one does not use it has sooner."""
    alone = lengths(two({}, {"submit_s": 1e5}))["a"]
    equal, weighed = lengths(two({}, {})), lengths(two({"link_weight": 9}, {}))
    assert equal["a"] == equal["b"] > 1.2 * alone
    assert alone < weighed["a"] < alone + 0.3 * (equal["a"] - alone)
    assert weighed["b"] <= equal["b"] * 1.001


def test_all_weights_equal_is_no_weight() -> None:
    equal, alike = (lengths(two({"link_weight": w}, {"link_weight": w})) for w in (1, 5))
    assert alike == pytest.approx(equal, rel=1e-9)


def test_estimated_runs_carry_weights_out() -> None:
    """exact = false measures or computes paces; both know weights."""
    scenario = two({"link_weight": 4, "iterations": 3000}, {"iterations": 3000})
    exact = lengths(scenario)
    quick = lengths(weft.Scenario.load({**scenario.model_dump(exclude_unset=True), "run": {"exact": False}}))
    assert quick == pytest.approx(exact, rel=0.02)


def test_a_capped_job_lasts_as_long_as_it_says() -> None:
    """duration_s is time alone, the cap included: so many iterations fill it as the cap allows."""
    plain, capped = (
        weft.simulate(two({"duration_s": 600.0, **more}, {"submit_s": 5000.0})) for more in ({}, {"max_rate_gbps": 1.0})
    )
    for run in (plain, capped):
        row = run.jobs.filter(run.jobs["job_id"] == "a")
        assert row["jct_s"][0] == pytest.approx(600.0, rel=0.01)
    assert capped.jobs["iterations"][0] < 0.5 * plain.jobs["iterations"][0]


@pytest.mark.parametrize(
    ("job", "network", "layers"),
    [
        ({"link_weight": 2}, {"sharing": "k-way"}, {}),
        ({"link_weight": 2}, {"sharing": "ideal"}, {}),
        ({"max_rate_gbps": 2.0}, {"sharing": "k-way"}, {}),
        ({"max_rate_gbps": 2.0}, {"cost": "analytical"}, {}),
        ({"link_weight": 2}, {}, {"pace": "tcp"}),
        ({"max_rate_gbps": 2.0}, {}, {"pace": "flow"}),
    ],
)
def test_who_does_not_carry_it_out_refuses(
    job: dict[str, Any], network: dict[str, Any], layers: dict[str, str]
) -> None:
    with pytest.raises(StackError) as caught:
        lengths(two(job, {}, **network), **layers)
    assert next(iter(job)) in str(caught.value)


def test_ideal_links_have_caps() -> None:
    """A cap is the speed of a sender, which does not need others to share with."""
    plain, capped = (lengths(two(job, {}, sharing="ideal"))["a"] for job in ({}, {"max_rate_gbps": 1.0}))
    assert capped > 1.5 * plain


@pytest.mark.parametrize("job", [{"link_weight": 0}, {"link_weight": 1.5}, {"max_rate_gbps": 0.0}])
def test_what_is_no_share(job: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        two(job, {})


def test_kinds_of_a_mix_have_shares() -> None:
    kinds = [
        {"model": MODEL, "gpus": 2, "iterations": (5, 5), "link_weight": 3, "max_rate_gbps": 4.0},
        {"model": MODEL, "gpus": 2, "iterations": (5, 5)},
    ]
    scenario = weft.Scenario.load(
        {"cluster": {"topology": "single-switch", "servers": 4},
         "workload": {"source": "batch", "jobs": 20, "mix": kinds}}
    )  # fmt: skip
    found = {(j.profile.link_weight, j.profile.nic_bytes_per_s) for j in build(scenario).workload.jobs}
    assert found == {(1, None), (3, 5e8)}
