"""Real TCP beside the simulator: the cases of `weft validate testbed`, and flow scheduling with its overhead."""

import pytest

from live.tests.testbed.needs import need_testbed
from weft_evidence.flows.real import Lab
from weft_evidence.real import Case, Fit, _fluid, compared, row


def test_one_job_takes_what_the_equation_says_in_both_models() -> None:
    """0.2 s of computing and 10 MB at 25 MB/s; a goodput of 90 % makes the latter longer by a ninth."""
    case = Case(0.2, 10)
    for pace in ("fair", "tcp:cubic,buffer=256kB"):
        assert _fluid(case, pace) == pytest.approx(0.6, rel=0.01)
    assert _fluid(case, Fit({256: 0.9}, 0.0).pace(case)) == pytest.approx(0.2 + 0.4 / 0.9, rel=0.01)


def test_noise_moves_jobs_apart_that_start_together_and_equal_jobs_without_it_stay() -> None:
    case = Case(0.3, 5, 2)
    assert _fluid(case, "tcp:cubic,buffer=256kB") == pytest.approx(0.7, rel=0.01)
    assert _fluid(case, "tcp:cubic,buffer=256kB", 0.003) < 0.55


def test_the_error_of_a_fit_is_that_of_a_case_it_was_not_fitted_to() -> None:
    """Two cases of a world with a goodput of 90 % and one with 98 %: the last is predicted by the first two, and its
    error is that of 90 %."""
    cases = [Case(0.2, 10), Case(0.1, 10), Case(0.3, 10)]
    real = [c.compute_s + 0.4 / good for c, good in zip(cases, (0.9, 0.9, 0.98), strict=True)]
    rows, fit = compared(cases, real, 0.0, lambda text: None)
    assert fit.goodput == {256: 0.9}
    assert rows[0]["fitted error"] == pytest.approx(0.0, abs=0.002)
    assert rows[2]["fitted error"] == pytest.approx((0.3 + 0.4 / 0.9) / real[2] - 1, abs=0.002)
    assert rows[2]["fitted error"] > 0.05


def test_a_row_has_a_mean_and_an_interval_over_repetitions() -> None:
    made = row("x", "ms", None, 3.0, [1.0, 2.0, 3.0], 0.0)
    assert made["real"] == pytest.approx(2.0)
    assert made["ci95"][0] == 0.0  # below 0 no time lies
    assert made["ci95"][1] == pytest.approx(2.0 + 4.303 / 3**0.5, rel=1e-3)


@pytest.mark.long
@pytest.mark.testbed
def test_a_run_with_flow_says_what_agents_and_switches_cost() -> None:
    need_testbed()
    with Lab(2) as lab:
        # agents find the job within a second, and plan for it when they have seen three iterations
        ran = lab.run((("resnet50[batch=16]", (0, 1)),), "flow", 24, ((0, 1),))
    assert 0.1 < ran.iteration_s[0] < 2.0
    assert ran.others > 1e6  # the foreign flow got something through
    assert min(ran.costs["waited_s"]) > 0.0
    assert min(ran.costs["decided_s"]) > 0.0
    assert 0.0 < ran.agent_cpu < 0.5
    assert 0.0 < ran.switch_mbps < 10.0
