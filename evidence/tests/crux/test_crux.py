"""Crux's examples, its small cases, the moments of its trace, and the levels of its baselines."""

import math
from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pytest

from weft.model.flows import FlowRows, flow_set
from weft.policies.crux import Load, correction
from weft.policies.crux import play as played
from weft.policies.crux import ranked as weft_ranked
from weft.policies.pace.rates import Demand, Moment
from weft_evidence import claims_of, reproduce
from weft_evidence.checks import verdict_of
from weft_evidence.claims import Measured, Request
from weft_evidence.crux import trace
from weft_evidence.crux.baselines import SincroniaRule, TacclRule
from weft_evidence.crux.cases import LEVELS, Draw, crux_levels, crux_paths, draw, ranked, score
from weft_evidence.crux.cases_kernel import levels_tried, paths_tried, play, used


def test_the_examples_hold() -> None:
    result = reproduce(
        "crux", Request(quick=True, claims=tuple(n for n in claims_of("crux") if n.startswith("example")))
    )
    verdicts = {claim.id: claim.verdict for claim in result.claims}
    assert {name for name, verdict in verdicts.items() if verdict == "fitted"} == {
        "example-2.job-1-first", "example-2.job-2-first",
    }  # fmt: skip
    assert set(verdicts.values()) == {"fitted", "reproduced"}


@pytest.mark.parametrize("number", range(8))
def test_two_jobs_on_a_link_are_played_as_the_correction_factor_plays_them(number: int) -> None:
    rng = np.random.default_rng(number)
    one, other = (Load(1.0, rng.uniform(0.2, 2.0), rng.uniform(0.2, 2.0), rng.uniform(0.0, 1.0)) for _ in range(2))
    compute, starts, comm = np.array([[load.compute_s, load.starts, load.comm_s] for load in (one, other)]).T.copy()
    done, sent = play(compute, starts, comm, np.ones(2, np.int64), np.array([0, 1]), 1, 40.0)
    (first_s, first_idle), (second_s, second_idle) = played(one, other, 40.0)
    assert sent == pytest.approx([first_s, second_s], abs=1e-6)
    assert 40.0 - done == pytest.approx([first_idle, second_idle], abs=1e-6)


def test_one_level_is_shared_and_a_higher_one_goes_first() -> None:
    """Two jobs, 1 s of computing and then 1 s of the link alone. Shared, sending takes 2 s and both always meet: a part
    1/3 of the time is computing. With priority they take turns without waiting after the first iteration: 1/2."""
    one = np.ones(2)
    args = (one, one, one, np.ones(2), np.ones(2, np.int64), np.array([[0, 0], [0, 1]]), 1, 3000.0)
    assert levels_tried(*args) == pytest.approx([1 / 3, 1 / 2], abs=1e-3)


def test_what_is_left_of_a_link_goes_to_the_next_level() -> None:
    """Job 0 (level 0) uses links 0 and 1, jobs 1 and 2 share link 1 with it and each other on level 1; job 3 is alone
    on link 2. While job 0 sends, 1 and 2 send nothing; then each has a half."""
    compute, comm = np.full(4, 1e-6), np.array([1.0, 1.0, 1.0, 1.0])
    uses = np.array([0b11, 0b10, 0b10, 0b100])
    _, sent = play(compute, np.ones(4), comm, uses, np.array([0, 1, 1, 1]), 3, 10.0)
    assert sent[0] == pytest.approx(10.0, abs=1e-3)
    assert sent[1:3] == pytest.approx([0.0, 0.0], abs=1e-3)
    assert sent[3] == pytest.approx(10.0, abs=1e-3)
    _, sent = play(compute, np.ones(4), comm, uses, np.array([1, 0, 0, 0]), 3, 10.0)
    assert sent[:3] == pytest.approx([0.0, 5.0, 5.0], abs=1e-3)


@pytest.mark.parametrize("number", range(4))
def test_the_order_is_that_of_the_pace(number: int) -> None:
    """`ranked` in a kernel against weft's own, over fewer iterations: both play 300 of the slower job."""
    case = draw(3, number, Draw(compute_s=(0.5, 1.0)))
    assert ranked(case) == weft_ranked(case.loads)
    reference = max(case.loads.values(), key=lambda load: load.comm_s)
    assert all(correction(load, reference) > 0.0 for load in case.loads.values())


def test_cases_are_as_the_paper_says_and_crux_is_among_what_is_tried() -> None:
    for number in range(6):
        case = draw(1, number, Draw(rounds=4))
        assert case.tors in (2, 3, 4)
        assert case.gpus.sum() <= 160
        assert (case.gpus % 8 == 0).all()
        for each in score(case).values():
            assert 0.0 < each.random <= each.best + 1e-12
            assert each.crux <= each.best + 1e-12
    assert draw(1, 0, Draw()).job.tolist() == draw(1, 0, Draw()).job.tolist()


def test_enumeration_is_whole() -> None:
    """Every path for every flow, one of two like switches aside: twice as many choices, turned round, are no better."""
    case = next(case for n in range(50) if len((case := draw(2, n, Draw(rounds=3))).job) <= 6)
    rank = np.zeros(5, np.int64)
    rank[ranked(case)] = np.arange(5)
    jobs = (case.compute_s, case.starts, case.comm_s, case.gpus)
    found = paths_tried(*jobs, case.job, case.ups, case.downs, case.links, rank, case.horizon_s)
    flows = len(case.job)
    every = []
    for number in range(2**flows):
        chosen = np.array([number >> i & 1 for i in range(flows)])
        uses = used(case.job, case.ups, case.downs, chosen, 5, case.links)
        every.append(levels_tried(*jobs, uses, rank[None], case.links, case.horizon_s)[0])
    assert len(found) == 2 ** (flows - 1)
    assert sorted(found) == pytest.approx(sorted(every)[::2])
    assert len({*permutations(range(5))}) == 120


def test_the_most_intense_job_chooses_first_and_levels_stay_within_bounds() -> None:
    case = draw(5, 1, Draw())
    chosen = crux_paths(case)
    first = max(case.loads, key=lambda j: case.loads[j].intensity if (case.job == j).any() else -math.inf)
    assert chosen[np.flatnonzero(case.job == first)[0]] == 0
    uses = used(case.job, case.ups, case.downs, chosen, 5, case.links)
    levels = crux_levels(case, ranked(case), uses, LEVELS, 0)
    assert set(levels.tolist()) <= {0, 1, 2}


def test_how_much_is_lost_is_judged_by_what_is_printed() -> None:
    check = claims_of("crux")["optimum.paths"]
    assert verdict_of(check, Measured(1.0, (0.9, 1.1)), 3) == "direction"
    assert verdict_of(check, Measured(2.3, (2.2, 2.4)), 3) == "reproduced"
    assert verdict_of(check, Measured(9.0, (8.0, 10.0)), 3) == "no"


def test_without_the_trace_its_claims_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    result = reproduce("crux", Request(quick=True, claims=("example-1.k", "trace.starves")))
    assert [claim.id for claim in result.claims] == ["example-1.k"]
    assert any("without trace.*" in note for note in result.notes)


def test_jobs_of_the_trace_have_hosts_of_their_own() -> None:
    free = [*range(4), *range(8, 32)]
    mine, left = trace._first(free, 16)
    assert mine == tuple(range(8, 24))
    assert left == [*range(4), *range(24, 32)]
    assert trace._first(left, 4)[0] == (0, 1, 2, 3)
    rows = [trace.Row(i, float(i), 100.0, tuple(range(16 * i, 16 * i + 16))) for i in range(8)]
    (now,) = trace.moments(rows, 1, 0)
    assert len(now) >= 5
    assert trace.model_of(trace.Row(0, 0.0, 1.0, tuple(range(128))), 0) == "llama-7b[parallel=data]"


def _came(
    rule: SincroniaRule | TacclRule, jobs: Mapping[int, tuple[tuple[tuple[int, ...], ...], float]]
) -> dict[int, int]:
    """Levels of jobs, by uid, with these paths and bytes of each flow; links carry 1 byte per second."""
    capacity = np.ones(4)
    flows, row = flow_set(64, 4), 0
    rule.begin(Demand(capacity))
    for uid, (paths, size) in jobs.items():
        n = len(paths)
        flows.put(row, uid, FlowRows(paths, (size,) * n, (size,) * n, ((0, 0),) * n, ((0, 0),) * n, 1.0), capacity)
        rule.came(np.arange(row, row + n), flows)
        row += n
    rule.decide(Moment(0), flows, np.arange(row))
    return rule.level


def test_sincronia_puts_last_who_needs_the_busiest_link_longest() -> None:
    """Link 0 is needed for 5 + 2 s, link 1 for 2 + 1: job 7 goes last, then job 8 (longer on link 1), then job 9."""
    jobs = {7: (((0,),), 5.0), 8: (((0, 1),), 2.0), 9: (((1,),), 1.0)}
    assert _came(SincroniaRule(8), jobs) == {9: 0, 8: 1, 7: 2}
    assert _came(SincroniaRule(2), jobs) == {9: 0, 8: 1, 7: 1}


def test_taccl_lets_the_longer_way_go_first() -> None:
    jobs = {1: (((0,),), 1.0), 2: (((0, 1, 2),), 1.0), 3: (((2, 3),), 1.0)}
    assert _came(TacclRule(8), jobs) == {2: 0, 3: 1, 1: 2}
