import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from live.tests.jobs import LOOP, python, whole
from live.tests.serving import all_ended, said, serve_until, server
from weft.core.cycle import Core
from weft.core.table import Table
from weft.core.view import View
from weft.model.events import Learned, Started, Stopped, Submitted
from weft.model.plan import Decision, SetGate
from weft.model.profile import Phase, Profile
from weft.model.reason import Reason, because, code_of
from weft.model.view import Spread
from weft.stacks import resolve
from weft.testing import ToyWorld, toy_cluster, toy_job
from weft.workload.profiles.files import save_profile
from weft_live.attempt import Attempt, Progress
from weft_live.description import Description
from weft_live.local.engine import LocalEngine
from weft_live.measured import Claims, Doubts, Speeds
from weft_live.reports import Keeper, opening
from weft_live.server.server import Server
from weft_live.server.snapshot import restored

SAID = Description(name="a", argv=("true",), env={"limit_s": "3600"})


def test_a_job_that_outruns_its_claim_is_as_long_as_its_time_limit() -> None:
    job, doubts = toy_job("a", 1), Doubts()  # ten iterations
    told = [doubts.look(job, SAID, Progress(), 10, 1.0, ran_s, ran_s) for ran_s in range(120)]
    found = [event for events in told for event in events if event.iterations]
    assert [(event.time_s, event.iterations) for event in found] == [(76.0, 10 + 3600)]


def test_a_job_that_reports_its_own_slow_pace_is_believed_up_to_a_point() -> None:
    job, slow = toy_job("a", 1), Progress(3, 3, 4, iteration_s=5.0)
    assert not Doubts().look(job, SAID, slow, 10, 1.0, 130.0, 0.0)
    absurd = Progress(0, 0, 1, iteration_s=1e8)
    assert Doubts().look(job, SAID, absurd, 10, 1.0, 300.0, 0.0)


def test_a_job_that_says_that_it_is_nearly_done_is_held_to_that() -> None:
    """A million iterations of a second; after five seconds it reports all but a hundred of them, then one a minute."""
    million, doubts = Description(name="a", argv=("true",), iterations=1_000_000, env={"limit_s": "3600"}), Doubts()
    job = replace(toy_job("a", 1), iterations=1_000_000)
    found: list[int] = []
    for ran_s in range(400):
        told = Progress(999_900 + ran_s // 60, reports=ran_s, iteration_s=1.0) if ran_s >= 5 else Progress()
        found += [ran_s for event in doubts.look(job, million, told, 1_000_000, 1.0, ran_s, ran_s) if event.iterations]
    assert found == [218]  # 1.5 x (5 s + 100 s) + 60 s
    honest, job, few = Doubts(), replace(job, iterations=500), million.model_copy(update={"iterations": 500})
    for ran_s in range(2000):  # three times as slow as it claimed, and five minutes for its last checkpoint
        told = Progress(min(500, ran_s // 3), reports=ran_s, iteration_s=3.0)
        assert not honest.look(job, few, told, 500, 1.0, ran_s, 0.0)


def test_claims_are_worth_what_jobs_took() -> None:
    """The median of those that tell something, by GPU seconds: many short honest jobs do not hide long lies."""
    claims, lie, honest = Claims(), SAID.model_copy(update={"iterations": 1, "gpus": 64}), Description(
        name="b", argv=("true",), iterations=100, user="ann", env={"limit_s": "86400"})  # fmt: skip
    assert not claims.ended(lie, True, 1.0, 59.0), "any claim is good for a minute"
    assert not claims.ended(lie, False, 100.0, 90.0), "cancelled before it could have been as long as claimed"
    assert not claims.ended(lie, True, 3600.0, 3700.0), "it claimed its time limit: nothing"
    assert not claims.ended(lie.model_copy(update={"iterations": 0}), True, 1.0, 3700.0)
    assert claims.times("") == 1.0
    told = [claims.ended(lie, finished, 1.0, took) for finished, took in ((True, 61.0), (False, 62.0), (True, 63.0))]
    assert told == [True] * 3
    assert claims.times("") == 62.0
    assert all(claims.ended(SAID.model_copy(update={"iterations": 61}), True, 61.0, 61.0) for _ in range(90))
    assert claims.times("") == 61.0, "ninety on one GPU for a minute weigh less than two on 64"
    assert claims.corrected(lie, 1.0, 7.0) == [
        Learned(7.0, "a", 61, reason=because("live.claims", user="", times=61.0, iterations=61))
    ]
    assert claims.corrected(lie, 120.0, 0.0)[0].iterations == 30, "its time limit"
    assert not claims.corrected(honest, 1.0, 0.0)
    for _ in range(3):
        assert claims.ended(honest, True, 100.0, 50.0 + 20.0)
    assert claims.times("ann") == 1.0, "who claims too much gains nothing"


def test_what_a_users_jobs_took_corrects_the_next_one_also_after_a_restart(tmp_path: Path) -> None:
    """Three jobs claim a hundredth of a second and take about half of one: the fourth is taken to be as long."""
    folder = tmp_path / "run"
    with server(folder, "srsf", 2) as serving:
        serving.durable.claims.tells_s = 0.1
        for name in "abc":
            serving.submit(said(name, ["sleep", "0.5"], iterations=1, iteration_s=0.01))
        serve_until(serving, all_ended(serving))
        assert [row.iterations for row in serving.ledger.jobs()] == [1, 1, 1]
    with server(folder, "srsf", 2) as serving:
        serving.submit(said("d", ["sleep", "60"], iterations=10, iteration_s=0.01, gpus=2))
        serving.submit(said("e", ["sleep", "60"], iterations=10, iteration_s=0.01, gpus=2))
        serve_until(serving, lambda: "d" in serving.core.table.placements and "e" in serving.core.table.waiting)
        lengths = {name: serving.core.table.jobs[name].job.iterations for name in "de"}
        assert min(lengths.values()) >= 300
        (why,) = [event.why for event in serving.ledger.events("e") if event.kind == "learned"]
        assert isinstance(why, Reason)
        assert (why.code, why["iterations"]) == ("live.claims", lengths["e"])
        with server(folder, "srsf", 2, dry_run=True) as again:
            assert again.world.tasks["d"].job.iterations == 10, "what it reports is held against what it has to do"
        for name in "de":
            serving.cancel(name)
        serve_until(serving, all_ended(serving))


@pytest.mark.alone
def test_a_lie_about_its_length_does_not_keep_the_cluster(tmp_path: Path) -> None:
    """`iterations=1` under a preemptive order: once it has outrun that, it gives way to an honest job."""
    with server(tmp_path / "run", "srsf-preemptive", 2) as serving:
        serving.world.slack_s = 0.6  # type: ignore[attr-defined]
        serving.submit(said("liar", ["sleep", "60"], gpus=2, iterations=1, iteration_s=0.1, grace_s=0.2))
        serve_until(serving, lambda: "liar" in serving.core.table.placements)
        serving.submit(said("honest", python(LOOP, 0.05, 20), gpus=2, iterations=20, iteration_s=0.05))
        serve_until(serving, lambda: any(row.id == "honest" and row.status for row in serving.ledger.jobs()))
        assert {row.id: row.status for row in serving.ledger.jobs()} == {"liar": "", "honest": "finished"}
        assert "live.outrun" in [code_of(event.why) for event in serving.ledger.events("liar")]
        serving.cancel("liar")


def test_nobody_is_shifted_around_a_job_that_never_reports() -> None:
    job = toy_job("a", 2, message_bytes=1e9)
    world = ToyWorld(toy_cluster(2, 1, 1), [])
    table = Table(world.cluster)
    view = View(table, world, 0)
    table.take(Submitted(0.0, job))
    table.starting("a", (0, 1), None)
    table.take(Started(0.0, "a"))
    assert view.traffic(job, (0, 1)).task is not None
    table.take(Learned(30.0, "a", silent=True))
    assert view.traffic(job, (0, 1)).task is None


@pytest.mark.parametrize(
    ("own_s", "expected_s"), [(1.45, 1.45), (0.25, 0.25), (0.96, 0.96), (1.2, 1.2), (1.28, 1.33), (1.33, 1.33)]
)
def test_a_gate_that_does_not_fit_is_let_go_within_twenty_iterations(own_s: float, expected_s: float) -> None:
    """A gate with a period of 1.33 s: iterations of 1.45 s would take 2.66, and all shorter ones 1.33."""
    gate = {"epoch": 0.0, "period": 1.33, "tolerance": 0.05}
    keeper, now, began = Keeper(gate), 0.0, []
    for step in range(40):
        now = max(now, keeper.at(step, 0, now, now))
        began.append(now)
        now += own_s
    assert (began[-1] - began[20]) / 19 == pytest.approx(expected_s, rel=0.01)
    if own_s > 1.4:
        assert opening(gate, 1.45) == pytest.approx(2.66), "that is what it would have to wait for"


def test_a_gate_without_which_iterations_would_take_longer_is_kept() -> None:
    """They are ready before each opening because the gate keeps others off their links. It is looked into less and
    less often: 6 iterations after 10, 20, 40, 80 and 160."""
    keeper, now, free = Keeper({"epoch": 0.0, "period": 0.348, "tolerance": 0.05}), 0.0, []
    for step in range(400):
        at = max(now, keeper.at(step, 0, now, now))
        free.append(at == now and step > 0)
        now = at + (0.36 if free[-1] else 0.25)
    assert 5 * 5 <= sum(free) <= 5 * 7
    keeper.set({"epoch": 0.0, "period": 0.25, "tolerance": 0.05})
    assert (keeper.early, keeper.trial, keeper.idle) == (0, 0, False), "another gate is another matter"


def test_a_gate_is_kept_again_when_iterations_fit_again() -> None:
    keeper, now, began = Keeper({"epoch": 0.0, "period": 1.0, "tolerance": 0.05}), 0.0, []
    for step in range(60):
        now = max(now, keeper.at(step, 0, now, now))
        began.append(now)
        now += 1.5 if step < 20 else 0.97
    assert began[-1] - began[-11] == pytest.approx(10.0)


def pair(period_s: float) -> tuple[Core, list[Decision]]:
    """Two jobs on the same two servers that compute for 0.9 s and send for 0.1 s, held to gates that open every
    second; then they turn out to have iterations of this length. The core, and what it decides about gates then."""
    bytes_ = 0.1 * 10e9 / 8  # a ring of two sends as many over each link
    jobs = [replace(toy_job(name, 2, 1000, 0.9, bytes_), per_server=1) for name in "ab"]
    core = Core(resolve("fifo+cassini"), ToyWorld(toy_cluster(1, 2, 2), []))
    core.step(0.0, [Submitted(0.0, job) for job in jobs])
    core.step(0.0, [Started(0.0, "a"), Started(0.0, "b")])
    assert {name: gate.period_s for name, gate in core.table.gates.items()} == pytest.approx({"a": 1.0, "b": 1.0})
    both = [Learned(20.0, name, iteration_s=period_s) for name in "ab"]
    return core, [*core.step(20.0, both)]


@pytest.mark.parametrize("period_s", [1.45, 0.25])
def test_gates_are_made_anew_from_what_was_measured(period_s: float) -> None:
    """Openings of the measured length, in which the two still do not meet."""
    core, decisions = pair(period_s)
    gates = {d.job: d.gate for d in decisions if isinstance(d, SetGate) and d.gate is not None}
    assert {name: gate.period_s for name, gate in gates.items()} == pytest.approx(
        {"a": period_s, "b": period_s}, rel=1e-3
    )
    apart = (gates["a"].epoch_s - gates["b"].epoch_s) % period_s
    assert 0.1 - 1e-3 <= apart <= period_s - 0.1 + 1e-3
    saved = json.loads(json.dumps(whole(core)))
    again = restored(saved, resolve("fifo+cassini"), ToyWorld(toy_cluster(1, 2, 2), []))
    assert again.table.jobs == core.table.jobs


def test_a_gate_that_cannot_fit_is_dropped() -> None:
    """What it sends takes 0.1 s by itself: iterations of 0.05 s are not those of such a job."""
    core, decisions = pair(0.05)
    assert {d.job: d.gate for d in decisions if isinstance(d, SetGate)} == {"a": None, "b": None}
    assert not core.table.gates


def test_what_is_measured_is_forgotten_with_the_gpus() -> None:
    core, _ = pair(1.45)
    core.step(30.0, [Stopped(30.0, "a", 5, "a node was lost")])
    assert (core.table.jobs["a"].iteration_s, core.table.jobs["b"].iteration_s) == (0.0, 1.45)


@pytest.mark.alone
def test_real_jobs_are_shifted_by_what_they_report(tmp_path: Path) -> None:
    """Their profile says 0.3 s, of which 0.1 s are sent; they take 0.4 s, or longer on a busy machine. Behind gates of
    0.3 s they would take 0.6, and let go they would not be shifted. Within some seconds both are held to gates of the
    length that was measured, apart from each other."""
    file = tmp_path / "pair.json"
    profile = Profile.from_phases("pair", [Phase(0.2), Phase(bytes=0.1 * 10e9 / 8)], 2)
    save_profile(profile, file)
    stack = resolve("fifo+cassini")
    with Server(tmp_path / "run", toy_cluster(1, 2, 2), stack, engine=LocalEngine()) as serving:
        for name in "ab":
            job = said(name, python(LOOP, 0.4, 400), gpus=2, per_node=1, model=str(file), iterations=400)
            serving.submit(job)

        def refitted() -> bool:
            gates, jobs = serving.core.table.gates, serving.core.table.jobs
            return len(gates) == 2 and all(
                gate.period_s > 0.36 and gate.period_s == pytest.approx(jobs[name].iteration_s, rel=0.15)
                for name, gate in gates.items()
            )

        serve_until(serving, refitted, within_s=300.0)
        codes = [code_of(event.why) for event in serving.ledger.events("a") if event.kind == "learned"]
        assert codes[0] == "live.refit"
        attempt = Attempt(tmp_path / "run" / "jobs" / "a" / "1")
        before, began = attempt.progress().step, time.monotonic()
        serve_until(serving, lambda: attempt.progress().step >= before + 10)
        each_s = (time.monotonic() - began) / 10  # a gate that does not fit would hold it up
        assert each_s < max(0.57, *(1.4 * gate.period_s for gate in serving.core.table.gates.values()))
        for name in "ab":
            serving.cancel(name)
        serve_until(serving, lambda: all(row.status for row in serving.ledger.jobs()))


@pytest.mark.alone
def test_a_real_job_is_let_go(tmp_path: Path) -> None:
    """Iterations of 20 ms behind a gate of 300 ms: forty of them would take twelve seconds."""
    attempt = Attempt(tmp_path / "1")
    env = said("a", [])["env"] | {"WEFT_PROGRESS_SOCKET": str(tmp_path / "1" / "p.sock")}
    spec = {
        "key": "a", "home": str(tmp_path), "argv": list(python(LOOP, 0.02, 40)), "cwd": "/", "env": env, "ranks": [{}],
        "iterations": 40, "grace_s": 1.0, "gate": {"epoch": time.monotonic(), "period": 0.3, "tolerance": 0.05},
    }  # fmt: skip
    attempt.spawn(spec)
    began = time.monotonic()
    while attempt.ended is None and time.monotonic() - began < 60:
        attempt.look()
        time.sleep(0.02)
    assert attempt.progress().step == 40
    assert time.monotonic() - began < 11.0


def test_what_a_user_reports_counts_for_that_users_jobs_only() -> None:
    """Otherwise a lie about a model would move the estimates of everybody who trains it."""
    mine, theirs = (replace(toy_job("j", gpus=2), model="m", user=name) for name in ("me", "them"))
    speeds, spread = Speeds(toy_cluster()), Spread(2, 1)
    before = speeds.estimate(theirs, 2, spread)
    speeds.measured(mine, 2, spread, 100.0)
    assert speeds.estimate(mine, 2, spread).iteration_s == 100.0
    assert speeds.estimate(theirs, 2, spread) == before
