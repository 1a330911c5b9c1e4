import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from testkit.draws import examples
from weft.errors import InputError
from weft.policies.interleave.cassini.circle import Circle, Periods, common_periods, padded_periods
from weft.policies.interleave.cassini.compat import compat, rotate_on_grid
from weft.policies.interleave.cassini.rotate import rotate, rotate_all, score_at, settle, uniform_score

C = 50.0


def demand_at(circle: Circle, period_s: float, shift_s: float, at_s: float) -> float:
    """Demand of a shifted circle at a moment."""
    phase = (at_s - shift_s) % period_s
    return next((demand for start, end, demand in circle.pieces if start <= phase < end), 0.0)


def _edges(circle: Circle) -> list[float]:
    return [edge for start, end, _ in circle.pieces for edge in (start, end)]


def excess(circles: Sequence[Circle], periods: Periods, capacity: float, shifts_s: Sequence[float]) -> float:
    """Demand above capacity, integrated over the perimeter: constant between neighbouring edges."""
    cuts = {0.0, periods.perimeter_s}
    for circle, period, repeats, shift in zip(circles, periods.periods_s, periods.repeats, shifts_s, strict=True):
        for edge in _edges(circle):
            cuts |= {((edge + shift) % period + k * period) % periods.perimeter_s for k in range(repeats)}
    ordered = sorted(cuts)
    total = 0.0
    for a, b in pairwise(ordered):
        middle = 0.5 * (a + b)
        demand = sum(
            demand_at(circle, period, shift, middle)
            for circle, period, shift in zip(circles, periods.periods_s, shifts_s, strict=True)
        )
        total += max(demand - capacity, 0.0) * (b - a)
    return total


def meetings(
    circles: Sequence[Circle], periods: Periods, shifts_s: Sequence[float], job: int, other: int
) -> set[float]:
    """Shifts of a job at which one of its edges lies on one of another's."""
    return {
        (shifts_s[other] + theirs + k * periods.periods_s[other] - mine) % periods.periods_s[job]
        for theirs in _edges(circles[other])
        for k in range(periods.repeats[other])
        for mine in _edges(circles[job])
    }


def best_shift(
    circles: Sequence[Circle], periods: Periods, capacity: float, shifts_s: Sequence[float], job: int
) -> tuple[float, float]:
    """(shift, cost): the best place of one job among the others, which stay where they are."""
    tried = {0.0}
    for other in range(len(circles)):
        if other != job:
            tried |= meetings(circles, periods, shifts_s, job, other)
    costs = {}
    for shift in sorted(tried):
        moved = [*shifts_s[:job], shift, *shifts_s[job + 1 :]]
        costs[shift] = excess(circles, periods, capacity, moved)
    best = min(costs, key=costs.__getitem__)
    return best, costs[best]


def optimum(circles: Sequence[Circle], periods: Periods, capacity: float) -> float:
    """The least excess of all shifts, by trying every spanning tree of meetings. For a few jobs with few arcs."""
    return _search(circles, periods, capacity, [0.0] * len(circles), {0})


def _search(
    circles: Sequence[Circle], periods: Periods, capacity: float, shifts_s: list[float], placed: set[int]
) -> float:
    if len(placed) == len(circles):
        return excess(circles, periods, capacity, shifts_s)
    lowest = float("inf")
    for job in set(range(len(circles))) - placed:
        for other in placed:
            for shift in meetings(circles, periods, shifts_s, job, other) | {0.0}:
                moved = [*shifts_s[:job], shift, *shifts_s[job + 1 :]]
                lowest = min(lowest, _search(circles, periods, capacity, moved, placed | {job}))
    return lowest


@st.composite
def circles(
    draw: st.DrawFn, most_jobs: int, most_arcs: int = 2, periods: tuple[int, ...] = (12, 18, 24, 36)
) -> list[Circle]:
    """Jobs whose arcs begin and end at whole units, so that the best shifts are whole too."""
    found = []
    for _ in range(draw(st.integers(2, most_jobs))):
        period = draw(st.sampled_from(periods))
        arcs = []
        for _ in range(draw(st.integers(1, most_arcs))):
            length = draw(st.integers(1, period - 1))
            arcs.append(
                (float(draw(st.integers(0, period - 1))), float(length), float(draw(st.sampled_from((10, 25, 30, 45)))))
            )
        found.append(Circle(float(period), tuple(arcs)))
    return found


def best_on_units(jobs: list[Circle]) -> float:
    """The best score over all whole shifts, from an integer program.

    x[j, d] = 1 if job j is shifted by d; e[t] >= demand in unit t - C; minimise the sum of e.
    """
    periods = common_periods([c.period_s for c in jobs], 1.0)
    units = round(periods.perimeter_s)
    rows = [[(j, d) for d in range(round(c.period_s))] for j, c in enumerate(jobs)]
    columns = [x for row in rows for x in row]
    n, m = len(columns), units
    demand = np.zeros((units, n))
    for i, (j, d) in enumerate(columns):
        for t in range(units):
            demand[t, i] = demand_at(jobs[j], jobs[j].period_s, float(d), t + 0.5)
    above = LinearConstraint(np.hstack([demand, -np.eye(m)]), -np.inf, C)
    own = np.array([[float(j == k) for j, _ in columns] for k in range(len(jobs))])
    one_each = LinearConstraint(np.hstack([own, np.zeros((len(jobs), m))]), 1.0, 1.0)
    answer = milp(
        np.concatenate([np.zeros(n), np.ones(m)]), constraints=[above, one_each],
        integrality=np.concatenate([np.ones(n), np.zeros(m)]),
        bounds=Bounds(np.zeros(n + m), np.concatenate([np.ones(n), np.full(m, np.inf)])),
    )  # fmt: skip
    assert answer.success
    return 1.0 - answer.fun / (C * units)


@settings(max_examples=examples(40), deadline=None)
@given(circles(2, 3), st.integers(1, 90))
def test_two_jobs_are_exact_and_no_grid_is_better(jobs: list[Circle], steps: int) -> None:
    found = rotate(jobs, C)
    periods = common_periods([c.period_s for c in jobs])
    truth = 1.0 - optimum(jobs, periods, C) / (C * periods.perimeter_s)
    assert found.exact
    assert found.score == found.bound == pytest.approx(truth, abs=1e-9)
    assert score_at(jobs, C, found.shifts_s, periods) == pytest.approx(found.score, abs=1e-9)
    assert rotate_on_grid(jobs, C, periods, 360.0 / steps).score <= found.score + 1e-9
    for slip in (-0.999, 0.5, 0.999):  # the slack is real
        moved = (0.0, found.shifts_s[1] + slip * found.slack_s)
        assert score_at(jobs, C, moved, periods) == pytest.approx(found.score, abs=1e-9)


@settings(max_examples=examples(12), deadline=None)
@given(circles(3, 2, (6, 9, 12)))
def test_three_jobs_against_an_integer_program(jobs: list[Circle]) -> None:
    found = rotate(jobs, C)
    assert found.exact
    assert found.score == pytest.approx(best_on_units(jobs), abs=1e-7)
    assert found.score == pytest.approx(score_at(jobs, C, found.shifts_s, common_periods([c.period_s for c in jobs])), abs=1e-9)  # fmt: skip # noqa: E501


@settings(max_examples=examples(6), deadline=None)
@given(circles(4, 1, (6, 12)))
def test_four_jobs_against_an_integer_program(jobs: list[Circle]) -> None:
    found = rotate(jobs, C, work=10_000_000)
    assert found.exact
    assert found.score == pytest.approx(best_on_units(jobs), abs=1e-7)


@settings(max_examples=examples(40), deadline=None)
@given(circles(3, 2), st.data())
def test_kernel_and_twin_agree_at_any_shifts(jobs: list[Circle], data: st.DataObject) -> None:
    periods = common_periods([c.period_s for c in jobs])
    shifts = [0.0] + [data.draw(st.floats(-40, 80)) for _ in jobs[1:]]
    twin = 1.0 - excess(jobs, periods, C, shifts) / (C * periods.perimeter_s)
    assert score_at(jobs, C, shifts, periods) == pytest.approx(twin, abs=1e-9)
    _, cost = best_shift(jobs, periods, C, shifts, 1)
    assert cost >= (1 - rotate(jobs, C).bound) * C * periods.perimeter_s - 1e-6


@settings(max_examples=examples(30), deadline=None)
@given(circles(6, 2))
def test_many_jobs_report_a_bound(jobs: list[Circle]) -> None:
    found = rotate(jobs, C, work=0)
    assert found.score <= found.bound + 1e-9
    exact = rotate(jobs, C)
    assert found.score <= exact.score + 1e-9
    assert exact.score <= found.bound + 1e-9
    # on average over all positions, which no best is below
    if all(common_periods([c.period_s for c in jobs]).repeats):
        assert exact.score >= uniform_score(jobs, C) - 1e-9


def test_jobs_that_send_nothing_change_nothing() -> None:
    """They have no edges, so no tree of meetings reaches the others through them: the search goes without them."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        jobs = [
            Circle(1.0, tuple((float(rng.uniform(0, 1)), float(rng.uniform(0.05, 0.3)), float(rng.choice([15, 30, 45])))
                              for _ in range(int(rng.integers(1, 4))))) for _ in range(3)
        ]  # fmt: skip
        alone = rotate(jobs, C, restarts=2)
        found = rotate([Circle(0.5, ()), *jobs, Circle(1.0, ())], C, restarts=2)
        assert found.exact == alone.exact
        assert found.score == pytest.approx(alone.score, abs=1e-9)
        assert found.shifts_s[1:4] == pytest.approx(alone.shifts_s, abs=1e-9)
    nobody = rotate([Circle(1.0, ())] * 3, C)
    assert (nobody.score, nobody.exact, nobody.shifts_s) == (1.0, True, (0.0, 0.0, 0.0))


def test_a_grid_that_samples_can_invent_compatibility() -> None:
    """Two arcs of 506/1000 at 45 of 50 Gbit/s overlap by 0.012 at least: 1 - 0.012 x 40 / 50 = 0.9904."""
    pair = [Circle(1.0, ((0.005, 0.506, 45.0),))] * 2
    assert rotate(pair, C).score == pytest.approx(0.9904, abs=1e-12)
    grid = rotate_on_grid(pair, C, common_periods([1.0, 1.0]), 5.0)
    assert grid.sampled_score == 1.0
    assert grid.score <= 0.9904 + 1e-12


def test_middle_of_the_widest_optimum() -> None:
    """Arcs of 100 and 90 of 300 ms: free room 110, so the second begins 100 + 55 after the first."""
    found = rotate([Circle(0.3, ((0.0, 0.1, 45.0),)), Circle(0.3, ((0.05, 0.09, 45.0),))], C)
    assert found.shifts_s[1] == pytest.approx(0.155 - 0.05)
    assert found.slack_s == pytest.approx(0.055)
    three = rotate([Circle(0.3, ((0.0, 0.08, 45.0),))] * 3, C)
    assert sorted(three.shifts_s) == pytest.approx([0.0, 0.1, 0.2], abs=1e-6)
    assert three.slack_s == pytest.approx(0.02, abs=1e-6)


def test_figure_5_of_the_paper() -> None:
    """40 and 60 ms on a circle of 120 ms; a shift of 10 ms (30 degrees) makes them fully compatible."""
    found = compat({"j1": Circle(0.04, ((0.0, 0.008, 45.0),)), "j2": Circle(0.06, ((0.0, 0.009, 45.0),))}, C)
    assert found.rotation.perimeter_s == pytest.approx(0.12)
    assert found.rotation.score == 1.0
    shifts = found.rotation.shifts_s
    assert score_at(found.circles, C, shifts, found.periods) == 1.0
    assert score_at(found.circles, C, (0.0, 0.0), found.periods) < 1.0


def test_a_score_can_be_negative_and_small_demands_coexist() -> None:
    heavy = [Circle(1.0, ((0.0, 1.0, 50.0),))] * 3
    assert rotate(heavy, C).score == pytest.approx(-1.0)
    light = [Circle(1.0, ((0.0, 1.0, 40.0),)), Circle(0.7, ((0.0, 0.7, 10.0),))]
    assert rotate(light, C).score == 1.0


def test_score_against_the_quantum() -> None:
    """138 and 148 ms: too fine a quantum leaves a common divisor of 2 ms, too coarse a one invents a fit."""
    jobs = {"a": Circle(0.138, ((0.0, 0.06, 45.0),)), "b": Circle(0.148, ((0.0, 0.06, 45.0),))}
    fine, coarse = compat(jobs, C, 1e-3), compat(jobs, C, 20e-3)
    assert coarse.rotation.score == 1.0
    assert coarse.periods.drift_s == pytest.approx((-0.002, 0.008))
    assert fine.rotation.score == pytest.approx(fine.unshifted, abs=2e-3)
    never = compat({"a": jobs["a"], "b": Circle(0.1480007, jobs["b"].arcs)}, C, 1e-7)
    assert not never.periods.fit
    assert never.rotation.score == never.unshifted
    padded = compat(jobs, C, padding=0.08)
    assert padded.rotation.score == 1.0
    assert padded.periods.padding_s == pytest.approx((0.010, 0.0))


@given(st.lists(st.floats(0.02, 2.0), min_size=1, max_size=5), st.floats(0.0, 0.3))
@settings(max_examples=examples(100), deadline=None)
def test_padded_periods_fit_and_stay_in_bounds(times: list[float], most: float) -> None:
    found = padded_periods(times, most)
    if not found.fit:
        return
    for time, period, repeats, padding in zip(times, found.periods_s, found.repeats, found.padding_s, strict=True):
        assert period * repeats == pytest.approx(found.perimeter_s)
        assert padding == pytest.approx(max(0.0, period - time), abs=1e-12)
        assert period >= time * (1 - 1e-8)
        assert period <= time * (1 + most) * (1 + 1e-6)


def test_uniform_score_is_the_mean_over_shifts() -> None:
    pair = [Circle(1.0, ((0.0, 0.5, 45.0), (0.7, 0.1, 20.0))), Circle(1.0, ((0.0, 0.4, 30.0),))]
    periods = common_periods([1.0, 1.0])
    shifts = (np.arange(4000) + 0.5) / 4000
    mean = np.mean([score_at(pair, C, (0.0, float(s)), periods) for s in shifts])
    assert uniform_score(pair, C) == pytest.approx(float(mean), abs=1e-6)


def test_many_links_at_once_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(3)
    problems = []
    for _ in range(40):
        jobs = [Circle(0.3, ((0.0, float(rng.uniform(0.05, 0.2)), 45.0),)) for _ in range(3)]
        problems.append((jobs, C, common_periods([0.3] * 3)))
    assert rotate_all(problems, 4) == rotate_all(problems, 1)


def test_arcs_that_overlap_add_and_may_go_round() -> None:
    circle = Circle(1.0, ((0.8, 0.4, 10.0), (0.0, 0.1, 5.0), (0.0, 1.0, 1.0)))
    mean = math.fsum((end - start) * demand for start, end, demand in circle.pieces)
    assert mean == pytest.approx(0.4 * 10 + 0.1 * 5 + 1)
    assert max(demand for _, _, demand in circle.pieces) == pytest.approx(16.0)
    with pytest.raises(InputError, match="no longer than the period"):
        Circle(1.0, ((0.0, 1.5, 10.0),))
    with pytest.raises(InputError, match="its period is"):
        Circle(math.inf, ())


@settings(max_examples=examples(25), deadline=None)
@given(circles(5, 2, (12, 24)))
def test_no_job_of_a_loop_gains_by_moving_alone(jobs: list[Circle]) -> None:
    """Jobs in a ring meet their two neighbours: the kernel against excess and meetings of the plain twin."""
    n = len(jobs)
    pairs = [(i, (i + 1) % n) for i in range(n)]
    links = [([str(i), str(j)], ([jobs[i], jobs[j]], C, common_periods([jobs[i].period_s, jobs[j].period_s])))
             for i, j in pairs]  # fmt: skip
    found, total = settle(links, [{}])

    def lost(shifts: list[float]) -> float:
        return sum(
            excess(two, periods, C, [shifts[int(job)] for job in names]) / (C * periods.perimeter_s)
            for names, (two, _, periods) in links
        )

    shifts = [found[str(i)] for i in range(n)]
    assert n - lost(shifts) == pytest.approx(total, abs=1e-9)
    for job in range(1, n):
        for names, (two, _, periods) in links:
            if str(job) in names:
                me = names.index(str(job))
                for place in meetings(two, periods, [shifts[int(k)] for k in names], me, 1 - me):
                    assert lost([*shifts[:job], place, *shifts[job + 1 :]]) >= n - total - 2e-5
