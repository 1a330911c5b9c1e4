from benchmarks import _tracked, load
from benchmarks.engine import draining_flows, random_jobs, repeating_pairs

ASKED = {
    "iterations_per_s", "flow_completions_per_s", "dense_events_per_s", "skip_cost_ratio", "estimate_cost_ratio",
    "estimate_error_mean", "estimate_error_p95", "cold_compile_s", "warm_start_s",
}  # fmt: skip


def test_figures() -> None:
    figures = load("engine")(True, lambda text: None)
    assert set(_tracked.Engine.params[0]) <= figures.keys()  # as make bench keeps them
    assert set(figures) >= ASKED
    assert figures["cold_compile_s"] is None  # left out of a smoke test
    assert all(figures[name] > 0 for name in ASKED - {"cold_compile_s"})
    assert figures["skip_error_max"] < 1e-9
    assert figures["skip_cost_ratio"] < 10.0  # of 100 times as many iterations; measured once, so not to 2
    assert figures["estimate_error_p95"] < max(0.02, 2 * figures["exact_spread_p95"])


def test_cases_are_those_that_were_asked_for() -> None:
    for links in (200, 40):
        jobs = random_jobs(links, 5)
        assert (len(jobs["links"]), len(jobs["jobs"])) == (links, 100)
        assert {len(job["phases"][1]["flows"]) for job in jobs["jobs"]} == {2}
    flows = draining_flows()["jobs"]
    assert len(flows) == 1000
    assert all(50e6 <= flow["phases"][0]["bytes"] <= 500e6 for flow in flows)
    assert len(repeating_pairs(5)["links"]) == 50
