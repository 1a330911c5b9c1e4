"""`weft replay`: what the job file says is what happens. Each test states its equation."""

from typing import Any

import pytest

from weft.errors import ScenarioError
from weft.scenario.jobfile import load_job_file
from weft.sim.replay import run_replay

GBPS = 1e9 / 8  # bytes/s


def replay(jobs: list[dict[str, Any]], network: Any = None, gbps: float = 8.0, links: int = 1, **more: Any) -> Any:
    """A job file with links l0, l1, ... of 1 GB/s unless told otherwise."""
    data: dict[str, Any] = {"links": {f"l{k}": {"gbps": gbps} for k in range(links)}, "jobs": jobs}
    if network is not None:
        data["network"] = network
    return run_replay(load_job_file(data).model_dump(), **more)


def job(name: str, *phases: dict[str, Any], iterations: int = 1, **more: Any) -> dict[str, Any]:
    """A job of a job file."""
    return {"id": name, "iterations": iterations, "phases": list(phases), **more}


def sends(size: float, link: str = "l0", **more: Any) -> dict[str, Any]:
    """A phase that only sends."""
    return {"bytes": size, "flows": {link: 1}, **more}


def finishes(result: Any) -> dict[str, float]:
    """When each job finished."""
    return {name: row["finish_s"] for name, row in result["jobs"].items()}


def test_the_example_of_the_documentation() -> None:
    """VGG16 at 45 of 50 Gbit/s: 141 ms of computing and 641.25 MB at 45 Gbit/s (114 ms): 255 ms an iteration."""
    phases = [{"compute_s": 0.141}, {"compute_s": 0.0, "bytes": 641250000.0, "flows": {"l0": 1}, "demand_gbps": 45}]
    gate = {"epoch_s": 0.12, "period_s": 0.255, "task": 0, "tolerance": 0.05}
    result = replay([job("a", *phases, iterations=100, gate=gate, start_s=0)], {"sharing": "max-min"}, gbps=50)
    assert result["makespan_s"] == pytest.approx(0.12 + 100 * 0.255, rel=1e-9)
    assert set(result) == {"makespan_s", "events", "iterations", "exact", "wall_s", "jobs", "links"}
    assert result["jobs"]["a"]["iteration_s"].keys() == {"mean", "p50", "p99", "max"}
    assert result["jobs"]["a"]["start_s"] == 0.0
    assert result["jobs"]["a"]["iteration_s"]["p50"] == pytest.approx(0.255, rel=1e-9)
    assert result["jobs"]["a"]["iteration_s"]["max"] == pytest.approx(0.12 + 0.255, rel=1e-9)
    assert result["iterations"] == 100
    assert result["exact"] is True
    link = result["links"]["l0"]
    assert link["bytes"] == pytest.approx(100 * 641250000.0, rel=1e-9)
    assert link["busy_s"] == pytest.approx(100 * 0.114, rel=1e-9)
    assert link["utilisation"] == pytest.approx(link["bytes"] / (50 * GBPS * result["makespan_s"]), rel=1e-12)


def test_compute_and_transfer_of_a_phase_run_side_by_side() -> None:
    """A phase takes max(c, B / C); phases follow each other, and the cycle repeats: N x sum of the maxima."""
    phases = [
        {"compute_s": 0.5, "bytes": 3e8, "flows": {"l0": 1}},
        {"compute_s": 0.1, "bytes": 4e8, "flows": {"l0": 1}},
        {"compute_s": 0.2},
    ]
    assert finishes(replay([job("a", *phases, iterations=7)])) == pytest.approx({"a": 7 * (0.5 + 0.4 + 0.2)}, rel=1e-9)


def test_flows_advance_in_lock_step() -> None:
    """Each flow carries the bytes; a link carries n of them: B n / C on the link with the most flows."""
    ring = {"bytes": 1e8, "flows": {"l0": 1, "l1": 3}}
    result = replay([job("a", ring)], links=2)
    assert result["makespan_s"] == pytest.approx(0.3, rel=1e-9)
    assert result["links"]["l1"]["bytes"] == pytest.approx(3e8, rel=1e-12)
    assert result["links"]["l0"]["utilisation"] == pytest.approx(1 / 3, rel=1e-9)


def test_demand_caps_a_flow() -> None:
    """B / d alone; beside another the rest of the link is the other's: B / (C - d)."""
    assert finishes(replay([job("a", sends(1e9, demand_gbps=2.0))])) == pytest.approx({"a": 4.0}, rel=1e-9)
    both = [job("a", sends(1e9, demand_gbps=2.0)), job("b", sends(1.5e9))]
    assert finishes(replay(both)) == pytest.approx({"a": 4.0, "b": 2.0}, rel=1e-9)


def test_start() -> None:
    """A job that starts at s: its finish is later by s, and it meets nobody who has gone."""
    jobs = [job("a", sends(1e9)), job("b", sends(1e9), start_s=1.0)]
    assert finishes(replay(jobs)) == pytest.approx({"a": 1.0, "b": 2.0}, rel=1e-9)


def test_ideal() -> None:
    """ "ideal" in place of the network's section: everybody as if alone."""
    jobs = [job(name, {"compute_s": 0.5}, sends(1e9), iterations=3) for name in "abc"]
    for network in ("ideal", {"sharing": "ideal"}):
        assert finishes(replay(jobs, network)) == pytest.approx(dict.fromkeys("abc", 4.5), rel=1e-9)


def test_k_way() -> None:
    """k jobs: a + B (k b + (k - 1) eta) (Ada-SRSF, Eq. 5); the capacity of the link is not asked."""
    network = {"sharing": "k-way", "a_s": 0.001, "b_s_per_byte": 8.53e-10, "eta_s_per_byte": 2.35e-10}
    for k in (1, 2, 4):
        result = replay([job(f"j{i}", sends(1e9)) for i in range(k)], network)
        each = 0.001 + 1e9 * (k * 8.53e-10 + (k - 1) * 2.35e-10)
        assert finishes(result) == pytest.approx({f"j{i}": each for i in range(k)}, rel=1e-9)


def test_at_most() -> None:
    """One at a time, in the order in which they stand: B / C, 2 B / C, 3 B / C."""
    jobs = [job(name, sends(1e9)) for name in "abc"]
    network = {"sharing": "max-min", "admission": {"kind": "at-most", "k": 1}}
    assert finishes(replay(jobs, network)) == pytest.approx({"a": 1.0, "b": 2.0, "c": 3.0}, rel=1e-9)
    network["admission"] = {"kind": "at-most", "k": 2}
    assert finishes(replay(jobs, network)) == pytest.approx({"a": 2.0, "b": 2.0, "c": 3.0}, rel=1e-9)


@pytest.mark.parametrize(("size", "ends"), [(0.3e9, {"a": 1.3, "b": 0.6}), (0.6e9, {"a": 1.0, "b": 1.6})])
def test_ratio(size: float, ends: dict[str, float]) -> None:
    """Beside one other only if that has more than twice its bytes: 1 GB against 0.3 (let in) and 0.6 (held)."""
    network = {"sharing": "max-min", "admission": {"kind": "ratio", "k": 2, "ratios": [2.0]}}
    assert finishes(replay([job("a", sends(1e9)), job("b", sends(size))], network)) == pytest.approx(ends, rel=1e-9)


def test_gate_counts_tasks_through_the_phases() -> None:
    """Task 2 is the transfer of the second phase: it waits for t = 5, once. Compute 1, then 5 + 1, then N - 1 more."""
    phases = [{"compute_s": 0.5}, {"compute_s": 0.5, "bytes": 1e9, "flows": {"l0": 1}}]
    gate = {"epoch_s": 5.0, "task": 2}
    result = replay([job("a", *phases, iterations=3, gate=gate)])
    assert result["makespan_s"] == pytest.approx(5.0 + 1.0 + 2 * 1.5, rel=1e-9)


def test_iteration_statistics() -> None:
    """An uncontended iteration takes 1.5 s, a contended one 2.5: quantiles are those of the list of all iterations."""
    jobs = [
        job("a", {"compute_s": 0.5}, sends(1e9), iterations=10),
        job("b", {"compute_s": 0.5}, sends(1e9), iterations=4),
    ]
    result = replay(jobs)
    statistics = result["jobs"]["a"]["iteration_s"]
    assert statistics["mean"] == pytest.approx((4 * 2.5 + 6 * 1.5) / 10, rel=1e-9)
    assert statistics["p50"] == pytest.approx(1.5, rel=1e-9)
    assert statistics["max"] == pytest.approx(2.5, rel=1e-9)
    assert result["jobs"]["b"]["iteration_s"]["mean"] == pytest.approx(2.5, rel=1e-9)


def test_no_skip() -> None:
    """Every iteration is simulated when asked; the answer is the same."""
    jobs = [job("a", {"compute_s": 0.5}, sends(1e9), iterations=1000)]
    fast, slow = replay(jobs), replay(jobs, skip=False)
    assert fast["events"] < 50 < 2000 == slow["events"]
    assert finishes(fast) == pytest.approx(finishes(slow), rel=1e-9)
    assert fast["links"]["l0"]["bytes"] == pytest.approx(slow["links"]["l0"]["bytes"], rel=1e-9)


def test_perturbation() -> None:
    """Computing stretched by e: N (c (1 + e) + B / C)."""
    jobs = [job("a", {"compute_s": 0.5}, sends(1e9), iterations=10)]
    assert finishes(replay(jobs, perturb=0.1)) == pytest.approx({"a": 10 * 1.55}, rel=1e-9)


def test_a_cycle_of_zero_length_is_refused() -> None:
    """It would never end."""
    with pytest.raises(ScenarioError, match="zero length"):
        replay([job("a", {"compute_s": 0.0})])


def test_unused_link() -> None:
    """A link that nobody uses is there, idle."""
    result = replay([job("a", {"compute_s": 1.0}, iterations=2)], links=2)
    assert result["links"]["l1"] == {"bytes": 0.0, "busy_s": 0.0, "utilisation": 0.0}
    assert result["makespan_s"] == 2.0
