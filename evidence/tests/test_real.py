"""Real TCP beside the simulator: the cases of `weft validate testbed`, and flow scheduling with its overhead."""

from collections.abc import Sequence
from typing import Any

import pytest

from live.tests.testbed.needs import need_testbed
from weft_evidence.flows.real import OTHERS, THREE, RealFlows
from weft_evidence.real import Case, Fit, _fluid, compared, judged, row
from weft_evidence.real_tcp import APART, main, read_socket
from weft_live.testbed.stillness import Undisturbed


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


def test_rows_from_a_disturbed_run_have_the_reason_and_no_number() -> None:
    still = Undisturbed()
    rows = [row("x", "ms", 2.0, 3.0, [1.0, 2.0])]
    assert judged(rows, still) == rows
    still.why.append("the machine stood still for 180 ms")
    (found,) = judged(rows, still)
    assert (found["published"], found["real"], found["ci95"]) == (2.0, None, (None, None))
    assert found["disturbed"] == "the machine stood still for 180 ms"
    assert judged(rows, still) == rows


@pytest.mark.long
@pytest.mark.testbed
def test_a_run_with_flow_says_what_agents_and_switches_cost() -> None:
    need_testbed()
    with RealFlows(2) as lab:
        # agents find the job within a second, and plan for it when they have seen three iterations
        ran = lab.run((("resnet50[batch=16]", (0, 1)),), "flow", 24, ((0, 1),))
    assert 0.1 < ran.iteration_s[0] < 2.0
    assert ran.others > 1e6  # the foreign flow got something through
    assert min(ran.costs["waited_s"]) > 0.0
    assert min(ran.costs["decided_s"]) > 0.0
    assert 0.0 < ran.agent_cpu < 0.5
    assert 0.0 < ran.switch_mbps < 10.0


SAID = """State Recv-Q Send-Q Local Address:Port Peer Address:Port
ESTAB 0      572000 10.77.0.1:56440 10.77.0.2:19000
\t cubic wscale:7,7 rto:216 rtt:13.457/1.172 mss:1448 cwnd:30 ssthresh:30 unacked:12 retrans:0/77 notsent:555608
ESTAB 0      0      10.77.0.1:40000 10.77.0.2:19000
\t cubic wscale:7,7 rto:204 rtt:0.2/0.1 mss:1448 cwnd:10 bytes_sent:4
"""


def test_the_first_flow_is_read():
    assert read_socket(SAID) == [30.0, 12.0, 13.457]


def test_a_flow_with_nothing_under_way_and_no_flow_at_all():
    assert read_socket("ESTAB" + SAID.split("ESTAB")[2]) == [10.0, 0.0, 0.2]
    assert read_socket("State Recv-Q\n") == [0.0, 0.0, 0.0]


def meet_two(others: Sequence[tuple[int, int]]) -> list[int]:
    """How many flows of each ring meet one of these at their own NIC and another at their receiver's link."""
    sources, targets = {src for src, _ in others}, {dst for _, dst in others}
    rings = [zip(where, (*where[1:], where[0]), strict=True) for _, where in THREE]
    return [sum(src in sources and dst in targets for src, dst in ring) for ring in rings]


def test_where_flows_meet_two_others():
    assert meet_two(OTHERS) == [1, 1, 1]
    assert meet_two(APART) == [0, 0, 0]


@pytest.mark.parametrize(
    ("words", "says"),
    [([], "required"), (["x"], "choose from"), (["jobs", "x"], "invalid int"), (["jobs", "0"], "1 or")],
)
def test_what_cannot_be_measured(words: list[str], says: str, monkeypatch: Any, capsys: Any):
    monkeypatch.setattr("sys.argv", ["real_tcp", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.testbed
@pytest.mark.alone
def test_who_meets_others_on_two_links_gets_least():
    """Max-min sharing would give each of the three flows half a link of 25 MB/s."""
    need_testbed()
    from weft_evidence.real_tcp import meeting
    from weft_live.testbed.build import Links

    (both, sender, receiver), (window, _, rtt_ms) = meeting(((0, 1), (0, 3), (4, 1)), Links(), 6.0)
    assert both < 0.6 * sender
    assert both < 0.6 * receiver
    assert max(both + sender, both + receiver) < 1.1 * 25e6
    assert window > 0.0
    assert rtt_ms > 0.0
