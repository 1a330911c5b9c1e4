"""Cases small enough to be solved on paper. Each test states its equation.

C is a link's capacity, B the bytes of a flow, c seconds of computing, N iterations.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.oracles.engine import ReferenceEngine
from weft.core.stack import Stack
from weft.model.plan import Gate
from weft.sim import RunSpec, simulate
from weft.sim.engine import Engine, EngineSpec, Usage
from weft.sim.engine.program import NodeSpec, compute_node, make_program, transfer_node
from weft.testing import toy_cluster, toy_job
from weft.testing.probes import Fixed, StopOnce

Tasks = Sequence[NodeSpec]


def chain(compute_s: float, size: float, *links: int, flows: int = 1, **more: Any) -> Tasks:
    """Compute, then send."""
    return [compute_node(0, compute_s), transfer_node(1, size, [(k, flows) for k in links], (0,), **more)]


def run_all(
    jobs: Sequence[Tasks],
    capacity: Sequence[float] = (1.0,),
    iterations: int = 1,
    *,
    starts: Sequence[float] = (),
    gates: Sequence[Gate | None] = (),
    turns: Sequence[tuple[float, float]] = (),
    **physics: Any,
) -> list[Usage]:
    """What each job did; kernel, kernel with skipping and readable twin must all say it."""
    answers = []
    for make, skip in ((Engine, False), (Engine, True), (ReferenceEngine, False)):
        spec = EngineSpec(np.array(capacity), np.ones(len(capacity), np.bool_), n_gpus=4, skip=skip, **physics)
        engine = make(spec)
        kway_b = spec.b_s_per_byte if spec.sharing == "k-way" else None
        usage: dict[int, Usage] = {}
        rows: dict[int, int] = {}
        order = sorted(range(len(jobs)), key=lambda i: (starts[i] if starts else 0.0, i))
        for i in [*order, None]:
            until = math.inf if i is None else (starts[i] if starts else 0.0)
            while finished := engine.run(until):
                for row in finished:
                    usage[rows.pop(row)] = engine.detach(row)
            if i is not None:
                rows[
                    engine.attach(
                        i, make_program(jobs[i], spec.capacity, kway_b=kway_b), iterations,
                        gate=gates[i] if gates else None, turn=turns[i] if turns else (0.0, 0.0),
                    )
                ] = i  # fmt: skip
        answers.append([usage[i] for i in range(len(jobs))])
    for other in answers[1:]:
        for u, v in zip(answers[0], other, strict=True):
            assert (v.iterations, v.adjusted) == (u.iterations, u.adjusted)
            assert [v.finish_s, v.comm_s, v.gate_s, v.gpu_s] == pytest.approx(
                [u.finish_s, u.comm_s, u.gate_s, u.gpu_s], rel=1e-12, abs=1e-12
            )
    return answers[0]


def finish_times(*args: Any, **kwargs: Any) -> list[float]:
    """When each job finished."""
    return [usage.finish_s for usage in run_all(*args, **kwargs)]


def exactly(*values: float) -> Any:
    """Up to the rounding of a clock."""
    return pytest.approx(list(values), rel=1e-12)


def test_alone() -> None:
    """A job alone needs N (c + B / C), of which N B / C its GPUs wait."""
    (usage,) = run_all([chain(1.0, 6.0, 0)], [4.0], iterations=50)
    assert usage.finish_s == pytest.approx(50 * (1.0 + 1.5), rel=1e-12)
    assert usage.comm_s == pytest.approx(50 * 1.5, rel=1e-12)
    assert usage.gpu_s == pytest.approx(50 * 1.0, rel=1e-12)


def test_two_equal_jobs_on_one_link() -> None:
    """Both compute together and send together at C / 2: each needs N (c + 2 B / C)."""
    assert finish_times([chain(1.0, 6.0, 0)] * 2, [4.0], iterations=20) == exactly(20 * 4.0, 20 * 4.0)


def test_one_is_capped() -> None:
    """A flow with demand d < C / 2 gets d, the other C - d: B / d and B / (C - d), while both send."""
    slow, fast = chain(1.0, 2.0, 0, demand=0.5), chain(1.0, 3.0, 0)
    assert finish_times([slow, fast], [2.0]) == exactly(1.0 + 2.0 / 0.5, 1.0 + 3.0 / 1.5)


def test_four_flows_against_one() -> None:
    """Shares are per flow: four flows of one transfer and one of another get C / 5 each.

    With B bytes a flow in the first and 2 B in the second: 5 B / C, then the rest alone: 5 B / C + B / C.
    """
    four, one = chain(0.0, 2.0, 0, flows=4), chain(0.0, 4.0, 0)
    assert finish_times([four, one], [5.0]) == exactly(2.0, 2.0 + 2.0 / 5.0)


def test_three_link_chain() -> None:
    """A long flow over three links of C = 1, 2, 3 and a short one on each.

    Link 0 is the bottleneck of the long flow (1/2); the short ones get what is left: 1/2, 3/2, 5/2. The short ones
    send as much as they do in one second, the long one half of what it has; then it is alone and limited to 1.
    """
    long = chain(0.0, 1.0, 0, 1, 2)
    short = [chain(0.0, size, k) for k, size in enumerate((0.5, 1.5, 2.5))]
    assert finish_times([long, *short], [1.0, 2.0, 3.0]) == exactly(1.5, 1.0, 1.0, 1.0)


def test_lock_step_moves_at_its_slowest_edge() -> None:
    """Flows of one transfer advance together: B / min over links of (capacity / flows there)."""
    ring = [transfer_node(0, 6.0, [(0, 1), (1, 2), (2, 1)])]
    assert finish_times([ring], [4.0, 6.0, 5.0]) == exactly(6.0 / 3.0)


def test_freed_bandwidth_is_used_at_once() -> None:
    """Transfers of B and 3 B that start together: 2 B / C, then 2 B more alone at C: 4 B / C in all."""
    assert finish_times([chain(0.0, 1.0, 0), chain(0.0, 3.0, 0)]) == exactly(2.0, 4.0)


def test_late_comer() -> None:
    """B at C from 0; another B joins at t < B / C: both at C / 2. First: t + 2 (B - C t) / C; second: 2 B / C."""
    assert finish_times([chain(0.0, 4.0, 0)] * 2, starts=[0.0, 1.0]) == exactly(1.0 + 2 * 3.0, 2 * 4.0)


def test_gated_jobs_never_meet() -> None:
    """c = B / C and one job a phase later: neither ever meets the other, so both run as if alone: N (c + B / C).

    Without the gate they meet in every iteration: N (c + 2 B / C).
    """
    jobs, n = [chain(1.0, 1.0, 0)] * 2, 40
    assert finish_times(jobs, iterations=n) == exactly(n * 3.0, n * 3.0)
    assert finish_times(jobs, iterations=n, gates=[None, Gate(1.0)]) == exactly(n * 2.0, 1.0 + n * 2.0)
    held = [Gate(0.0, 2.0), Gate(1.0, 2.0)]
    assert finish_times(jobs, iterations=n, gates=held) == exactly(n * 2.0, 1.0 + n * 2.0)


def test_gate_that_opens_again_and_again() -> None:
    """Iterations of T = c + B / C and gates that open every P > T: an opening each, P - T of waiting between them."""
    (usage,) = run_all([chain(0.5, 0.5, 0)], iterations=10, gates=[Gate(0.25, 1.5)])
    assert usage.finish_s == pytest.approx(0.25 + 9 * 1.5 + 1.0, rel=1e-12)
    assert usage.gate_s == pytest.approx(0.25 + 9 * 0.5, rel=1e-12)
    assert usage.adjusted == 0  # it was early each time


def test_gate_tolerance() -> None:
    """T = 1.04 P: a tolerance of 5 % lets the job pass 0.04 P late once, then it is 0.08 P late and waits."""
    late = [compute_node(0, 1.04)]
    (usage,) = run_all([late], iterations=4, gates=[Gate(0.0, 1.0)])
    # starts: 0, 1.04 (late by 0.04), 2.08 -> waits for 3, 4.04
    assert usage.finish_s == pytest.approx(4.04 + 1.04, rel=1e-12)
    assert usage.adjusted == 1


def test_gate_once() -> None:
    """Period 0 delays the first iteration until the epoch, and no other."""
    (usage,) = run_all([chain(0.5, 0.5, 0)], iterations=5, gates=[Gate(7.0, task=1)])
    assert (usage.finish_s, usage.gate_s) == pytest.approx((7.0 + 0.5 + 4 * 1.0, 6.5), rel=1e-12)


def buckets(barriers: bool) -> Tasks:
    """60, 10, 10, 10 ms of sending, ready every 25 ms."""
    sizes = (0.060, 0.010, 0.010, 0.010)
    nodes: list[NodeSpec] = []
    before: tuple[int, ...] = ()
    for i, size in enumerate(sizes):
        nodes.append(compute_node(2 * i, 0.025, before))
        nodes.append(transfer_node(2 * i + 1, size, [(0, 1)], (2 * i,)))
        before = (2 * i, 2 * i - 1) if barriers and i else (2 * i,)
    if barriers:
        for i in range(1, 4):  # the bucket of a phase is sent while the next is computed; then both are waited for
            nodes[2 * i] = compute_node(2 * i, 0.025, (2 * i - 2, *([2 * i - 3] if i > 1 else [])))
            nodes[2 * i + 1] = transfer_node(2 * i + 1, sizes[i], [(0, 1)], (2 * i, 2 * i - 1))
    return nodes


def test_buckets_overlap_the_backward_pass() -> None:
    """Ready at 25, 50, 75, 100 ms the link never idles from 25 ms on: 25 + 60 + 10 + 10 + 10 = 115 ms.

    With a barrier after each: 25 + max(25, 60) + max(25, 10) + max(25, 10) + 10 = 145 ms.
    """
    assert finish_times([buckets(False)]) == exactly(0.115)
    assert finish_times([buckets(True)]) == exactly(0.145)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_k_way(k: int) -> None:
    """k transfers of M bytes on one server: each takes a + M (k b + (k - 1) eta) (Ada-SRSF, Eq. 5)."""
    b, eta, a = 8.56e-10, 2.35e-10, 6.69e-4
    jobs = [chain(0.0, 1e8, 0, latency=a)] * k
    times = finish_times(jobs, [1 / b], sharing="k-way", b_s_per_byte=b, eta_s_per_byte=eta)
    assert times == exactly(*[a + 1e8 * (k * b + (k - 1) * eta)] * k)


def test_k_way_counts_the_busiest_server() -> None:
    """A transfer over servers with 3 and 2 transfers has k = 3; one on the second alone has k = 2."""
    wide, left, right = chain(0.0, 4.0, 0, 1), chain(0.0, 9.0, 0), chain(0.0, 2.0, 1)
    times = finish_times([wide, left, left, right], [1.0, 1.0], sharing="k-way", b_s_per_byte=1.0, eta_s_per_byte=0.5)
    # k = 3: 1 / (3 + 1) byte/s; k = 2: 1 / 2.5. Right ends at 5 (2 x 2.5); wide is at 1.25 then, ends at 16 = 4 x 4.
    # Left ones sent 4 by then and go on as two: 5 x 2.5 more.
    assert times == exactly(16.0, 16.0 + 12.5, 16.0 + 12.5, 5.0)


@given(st.floats(0.2, 8.0), st.floats(0.0, 1.0))
def test_adadual(ratio: float, eta: float) -> None:
    """An old transfer has R = ratio x M bytes left when a new one of M is ready.

    Beside it: 2 M (2 b + eta) + (R - M) b in all (if R >= M); after it: R b + (R + M) b. The first is less exactly if
    R / M > 2 (b + eta) / b (Ada-SRSF, Theorem 1): so the rule gives the lesser sum of the two.
    """
    b, size = 1.0, 2.0
    rule = 2 * (b + eta) / b
    if abs(ratio / rule - 1) < 1e-9:
        return
    jobs = [chain(0.0, ratio * size, 0), chain(0.0, size, 0)]
    physics: dict[str, Any] = {"sharing": "k-way", "b_s_per_byte": b, "eta_s_per_byte": eta}
    # the old one begins an instant earlier: its turn comes first
    held = finish_times(
        jobs, turns=[(0.0, 0.0), (1.0, 0.0)], admission="ratio", admission_k=2, admission_ratios=(rule,), **physics
    )
    beside = finish_times(jobs, **physics)
    after = finish_times(jobs, turns=[(0.0, 0.0), (1.0, 0.0)], admission="at-most", admission_k=1, **physics)
    assert after == exactly(ratio * size * b, ratio * size * b + size * b)
    if ratio >= 1:
        assert beside == exactly(size * (2 * b + eta) + (ratio - 1) * size * b, size * (2 * b + eta))
        assert sum(held) == pytest.approx(min(sum(beside), sum(after)), rel=1e-12)
    assert held == exactly(*(beside if ratio > rule else after))


def test_at_most_one() -> None:
    """With one transfer at a time the second waits: B1 / C, then (B1 + B2) / C, by turn and not by place in a list."""
    jobs = [chain(1.0, 2.0, 0), chain(1.0, 3.0, 0)]
    held: dict[str, Any] = {"admission": "at-most", "admission_k": 1}
    assert finish_times(jobs, turns=[(0.0, 0.0), (1.0, 0.0)], **held) == exactly(3.0, 6.0)
    assert finish_times(jobs, turns=[(1.0, 0.0), (0.0, 0.0)], **held) == exactly(6.0, 4.0)


def test_turn_by_iterations_left() -> None:
    """p1 > 0: fewest iterations left first. Two equal jobs, N = 2, one transfer at a time.

    a sends 1..2, b 2..3; from then on a has less left to do at every tie.
    """
    times = finish_times(
        [chain(1.0, 1.0, 0)] * 2, iterations=2, turns=[(0.0, 1.0), (0.0, 1.0)], admission="at-most", admission_k=1
    )
    assert times == exactly(4.0, 5.0)


def test_latency() -> None:
    """The first byte comes after a: a + B / C; another transfer has the link to itself until then."""
    assert finish_times([chain(1.0, 3.0, 0, latency=0.5)]) == exactly(1.0 + 0.5 + 3.0)
    other = chain(1.0, 0.5, 0)
    assert finish_times([chain(1.0, 3.0, 0, latency=0.5), other]) == exactly(4.5, 1.5)


def test_ideal() -> None:
    """Ideal sharing is no sharing: everybody as if alone."""
    assert finish_times([chain(1.0, 6.0, 0)] * 3, [2.0], iterations=7, sharing="ideal") == exactly(*[7 * 4.0] * 3)


def on_gpu(compute_s: float, size: float, link: int) -> Tasks:
    """A job on GPU 0 that sends over its own link."""
    return [compute_node(0, compute_s, gpu=0), transfer_node(1, size, [(link, 1)], (0,))]


@pytest.mark.parametrize(("send", "period"), [(0.5, 2.0), (1.0, 2.0), (3.0, 4.0)])
def test_two_jobs_share_a_gpu(send: float, period: float) -> None:
    """They take turns: one computes while the other sends. The period is max(2 c, c + B / C), from the second on."""
    n = 30
    first, second = finish_times([on_gpu(1.0, send, 0), on_gpu(1.0, send, 1)], [1.0, 1.0], iterations=n)
    assert first == pytest.approx(1.0 + send + (n - 1) * period, rel=1e-12)
    assert second == pytest.approx(2.0 + send + (n - 1) * period, rel=1e-12)


def test_gpu_is_not_preempted() -> None:
    """A task that has begun is finished first, whoever comes: c1, then c1 + c2 for one that arrives at t < c1."""
    jobs = [[compute_node(0, 5.0, gpu=0)], [compute_node(0, 1.0, gpu=0)]]
    assert finish_times(jobs, starts=[0.0, 1.0], turns=[(9.0, 0.0), (0.0, 0.0)]) == exactly(5.0, 6.0)


@pytest.mark.parametrize("chunk", [0.0, 0.25, 1.0])
def test_follower_is_never_ahead(chunk: float) -> None:
    """A flow of A bytes at r1, forwarded at r2 > r1 as it arrives: A / r1, the follower its first chunk earlier.

    It sends min(r2 t, chunk + r1 t): done at max(A / r2, (A - chunk) / r1). Forwarded afterwards: A / r1 + A / r2.
    """
    lead = transfer_node(0, 4.0, [(0, 1)])
    both = [lead, transfer_node(1, 4.0, [(1, 1)], leads=(0,), chunk=chunk), compute_node(2, 1.0, (1,))]
    follower = max(4.0 / 2.0, (4.0 - chunk) / 1.0)
    assert finish_times([both], [1.0, 2.0]) == exactly(max(4.0, follower + 1.0))
    afterwards = [lead, transfer_node(1, 4.0, [(1, 1)], (0,)), compute_node(2, 1.0, (1,))]
    assert finish_times([afterwards], [1.0, 2.0]) == exactly(4.0 + 2.0 + 1.0)


def test_pipeline_of_followers() -> None:
    """A ring opened into flows: each follows its predecessor. All end with the slowest: A / min r, chunk or not."""
    flows = [transfer_node(0, 6.0, [(0, 1)])]
    flows += [transfer_node(i, 6.0, [(i, 1)], leads=(i - 1,), chunk=0.0) for i in (1, 2, 3)]
    assert finish_times([flows], [3.0, 2.0, 4.0, 5.0]) == exactly(6.0 / 2.0)


def test_follower_leaves_bandwidth_to_others() -> None:
    """A follower held to r1 on a link of C leaves C - r1 to another flow: B / (C - r1)."""
    opened = [transfer_node(0, 4.0, [(0, 1)]), transfer_node(1, 4.0, [(1, 1)], leads=(0,))]
    assert finish_times([opened, [transfer_node(0, 9.0, [(1, 1)])]], [1.0, 4.0]) == exactly(4.0, 3.0)


def test_stragglers() -> None:
    """Every worker straggles with p = 1: N (x c + B / C); GPU seconds N x c per worker."""
    tasks = [compute_node(0, 1.0, weight=2.0, ranks=(0, 1)), transfer_node(1, 1.0, [(0, 1)], (0,))]
    (usage,) = run_all([tasks], iterations=10, straggle_p=1.0, straggle_x=2.5)
    assert (usage.finish_s, usage.gpu_s) == pytest.approx((10 * 3.5, 10 * 2.5 * 2), rel=1e-12)


def jitter(spread: float, workers: int, n: int = 4000) -> np.ndarray[Any, Any]:
    """Iteration times of a job that computes for 1 s."""
    engine = Engine(EngineSpec(np.ones(1), np.ones(1, np.bool_), jitter=spread, seed=5))
    program = make_program([compute_node(0, 1.0, ranks=tuple(range(workers)))], np.ones(1))
    engine.detach(engine.attach(0, program, n))
    row = engine.attach(1, program, n)
    assert engine.run() == [row]
    return np.repeat(engine.records()["duration"], engine.records()["count"].astype(int))


def test_jitter() -> None:
    """One worker: mean 1, standard deviation as asked. Four: the mean of the largest of four, 1 + 1.03 x that."""
    one, four = jitter(0.1, 1), jitter(0.1, 4)
    assert len(one) == 4000
    assert one.mean() == pytest.approx(1.0, abs=4 * 0.1 / math.sqrt(4000))
    assert one.std() == pytest.approx(0.1, rel=0.05)
    assert four.mean() == pytest.approx(1.0 + 1.03 * 0.1, abs=0.006)
    assert len(np.unique(one)) > 3900


def stopped(**run: Any) -> Any:
    """A job of 10 iterations of 1 s on one GPU, stopped at 6.5 s and started again at once."""
    job = toy_job("a", 1, 10)
    planner = StopOnce(Fixed({"a": (0,)}), "a", 6.5)
    result = simulate(toy_cluster(), [job], Stack("stop", planner), run=RunSpec(**run))
    return result.jobs.row(0, named=True)


def test_restart_cost_and_checkpoint() -> None:
    """Stopped at t with s iterations saved, restart cost r: finish = t + r + (N - s) T; lost = t - s T GPU seconds."""
    assert stopped()["finish_s"] == pytest.approx(6.5 + 4.0, rel=1e-12)
    assert stopped()["lost_gpu_s"] == pytest.approx(0.5, rel=1e-9)
    row = stopped(restart_s=3.0, checkpoint_every=4)
    assert row["finish_s"] == pytest.approx(6.5 + 3.0 + 6.0, rel=1e-12)
    assert (row["gpu_s"], row["lost_gpu_s"]) == pytest.approx((6.5 + 6.0, 2.5), rel=1e-9)
    assert (row["iterations"], row["preemptions"]) == (6 + 6, 1)


def test_aborted_transfer_keeps_its_bytes() -> None:
    """Stopped t seconds into a transfer at C / 2: C t / 2 bytes stay booked, as many are those of the other under way;
    that one goes on at C."""
    spec = EngineSpec(np.array([2.0]), np.ones(1, np.bool_))
    engine = Engine(spec)
    program = make_program(chain(1.0, 8.0, 0), spec.capacity)
    stops, stays = engine.attach(0, program, 3), engine.attach(1, program, 1)
    assert engine.run(4.0) == []
    assert engine.detach(stops).comm_s == pytest.approx(3.0, rel=1e-12)
    assert engine.links()["bytes"][0] == pytest.approx(3.0 + 3.0, rel=1e-12)
    assert engine.run() == [stays]
    assert engine.now == pytest.approx(4.0 + 5.0 / 2.0, rel=1e-12)
    assert engine.links()["bytes"][0] == pytest.approx(3.0 + 8.0, rel=1e-12)
    assert engine.links()["busy"][0] == pytest.approx(5.5, rel=1e-12)


@pytest.mark.parametrize("make", [Engine, ReferenceEngine])
@pytest.mark.parametrize(("iteration_s", "missed"), [(1.5, 0), (2.0, 0), (2.03, 2), (2.5, 9)])
def test_an_adjustment_is_a_slot_that_was_missed(make: Any, iteration_s: float, missed: int) -> None:
    """Ten iterations, an opening every 2 s. Who is early waits as planned; who loses 0.03 s each time is later than 5 %
    (0.1 s) at every fourth and waits for the next: 0, 2.03, 4.06, 6.09, 10, ...; who takes 2.5 s has every other."""
    engine = make(EngineSpec(np.ones(1), np.ones(1, np.bool_), skip=False))
    nodes = [compute_node(0, iteration_s - 0.5), transfer_node(1, 0.5, [(0, 1)], (0,))]
    row = engine.attach(0, make_program(nodes, engine.spec.capacity), 10, gate=Gate(0.0, 2.0))
    engine.run()
    assert engine.detach(row).adjusted == missed
