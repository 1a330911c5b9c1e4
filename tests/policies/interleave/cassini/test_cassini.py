from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import weft
from weft.core.cycle import Core
from weft.errors import StackError
from weft.model import Submitted
from weft.model.flows import Traffic
from weft.model.job import Job
from weft.model.plan import Candidate, Plan, Start
from weft.model.profile import Phase, Profile
from weft.model.view import Spread
from weft.network.topologies import leaf_spine
from weft.policies.interleave.cassini import Cassini, Settings
from weft.policies.interleave.cassini.align import COMPATIBLE, align
from weft.policies.interleave.cassini.layout import lay_out, score_links
from weft.results.metrics import summary
from weft.sim import NetworkSpec, RunSpec, simulate
from weft.sim.world import SimWorld
from weft.stacks import resolve
from weft.testing import check_interleave

VGG = "vgg16@cassini"  # 255 ms, of which 141 ms Down; Up at 45 Gbit/s


def pair(model: str = VGG, iterations: int = 1000, jitter: float = 0.0, jobs: int = 2) -> dict[str, Any]:
    """Jobs of four workers in two racks with one uplink each: they meet on it wherever they are put."""
    return {
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 6, "nic_gbps": 50, "spines": 1,
            "oversubscription": 6, "gpu": "A100", "gpu_memory_gb": 40,
        },
        "workload": {
            "source": "jobs",
            "job": [{"id": f"j{i}", "model": model, "gpus": 4, "iterations": iterations} for i in range(jobs)],
        },
        "run": {"jitter": jitter},
    }  # fmt: skip


def iteration_s(scenario: dict[str, Any], stack: str, seed: int = 1) -> tuple[float, Any]:
    run = weft.simulate(scenario, stack=stack, seed=seed)
    return summary(run)["iteration_s"]["mean"], run


SPREAD = "fifo[place=random]"
SHIFTED = "fifo+cassini[place=random]"


def test_conforms() -> None:
    check_interleave(Cassini, range(2))
    check_interleave(lambda: Cassini(Settings(loops="discard")), range(2, 3))


@pytest.mark.parametrize(("jitter", "within"), [(0.0, 0.005), (0.02, 0.02)])
def test_a_compatible_pair_runs_as_if_alone(jitter: float, within: float) -> None:
    """Score 1, gated: iteration times within 0.5 % of dedicated, 2 % with 2 % jitter; fair sharing is far from it."""
    for seed in (1, 2):
        alone, _ = iteration_s(pair(jitter=jitter, jobs=1), SPREAD, seed)
        shifted, run = iteration_s(pair(jitter=jitter), SHIFTED, seed)
        fair, _ = iteration_s(pair(jitter=jitter), SPREAD, seed)
        assert shifted == pytest.approx(alone, rel=within)
        assert fair > 1.15 * alone
        per_minute = sum(run.adjustments.values()) / 2 / (float(run.jobs["finish_s"].max()) / 60)
        assert per_minute < 2.0  # Figure 17


def test_stragglers_are_re_aligned() -> None:
    """One worker in 2,000 iterations takes twice as long: its job misses an opening, waits for the next and goes on."""
    scenario = pair()
    scenario["run"] = {"stragglers": 0.0005}
    shifted, run = iteration_s(scenario, SHIFTED)
    alone, _ = iteration_s({**pair(jobs=1), "run": {"stragglers": 0.0005}}, SPREAD)
    assert sum(run.adjustments.values()) >= 1
    assert shifted < 1.02 * alone


def decide(scenario: dict[str, Any], interleave: Cassini, models: tuple[str, ...] = (VGG, VGG)) -> list[Start]:
    from weft.scenario import Scenario
    from weft.scenario.build import build_cluster, build_workload

    given = Scenario.load(scenario)
    cluster = build_cluster(given)
    jobs = build_workload(given, cluster, 1).jobs
    world = SimWorld(cluster, jobs, NetworkSpec(), RunSpec())
    stack = resolve("fifo", place="random")
    core = Core(type(stack)("t", stack.planner, interleave), world, seed=1)
    found = core.step(0.0, [Submitted(0.0, job) for job in jobs])
    return [d for d in found if isinstance(d, Start)]


def test_gates_are_half_a_circle_apart() -> None:
    """Two equal jobs: openings half a period apart, on the first transfer, with the tolerance of section 5.7."""
    first, second = (start.gate for start in decide(pair(), Cassini()))
    assert first is not None
    assert second is not None
    assert first.period_s == second.period_s == pytest.approx(0.255)
    assert (second.epoch_s - first.epoch_s) % 0.255 == pytest.approx(0.1275)
    assert (first.tolerance, first.task) == (0.05, 1)


def traffic(period: float, *links: int, length: float = 0.1) -> Traffic:
    return Traffic(period, 1, 0.0, 0.0, dict.fromkeys(links, ((0.0, length, 45.0),)))


def test_jobs_that_do_not_fit_are_held_to_longer_periods_while_that_pays() -> None:
    """Up phases of 114 in 255 ms. Three take turns in 3 x 114 ms; for four that costs more than meeting by chance."""

    def aligned(names: str, padding: float) -> Any:
        layout = lay_out({name: traffic(0.255, 1, length=0.114) for name in names}, _capacity(2), padding)
        score_links([layout])
        (found,) = align(layout, layout.groups[0], padding, consensus=False)
        return found

    three, four = aligned("abc", 0.05), aligned("abcd", 0.05)
    assert three.held
    assert three.pays
    assert three.periods_s["a"] == pytest.approx(0.342, rel=0.02)
    assert three.score >= COMPATIBLE
    for shifted_once in (four, aligned("abc", 0.0)):  # no padding: nobody is made to wait
        assert not shifted_once.held
        assert shifted_once.pays


def test_loops_are_left_alone_or_settled_by_consensus() -> None:
    """Three jobs that meet in pairs on three links make a loop; equal ones can still keep thirds of the circle."""
    jobs = {"a": traffic(0.3, 1, 2), "b": traffic(0.3, 2, 3), "c": traffic(0.3, 3, 1)}
    layout = lay_out(jobs, _capacity(5), 0.05)
    score_links([layout])
    assert layout.loops == 1
    assert align(layout, layout.groups[0], 0.05, consensus=False) == []
    (settled,) = align(layout, layout.groups[0], 0.05, consensus=True)
    assert settled.looped
    assert settled.score == pytest.approx(1.0)  # Algorithm 1 alone would put two of them on top of each other
    assert settled.forgone == pytest.approx(0.0, abs=1e-6)
    tight = {
        "a": traffic(0.3, 1, 2, length=0.12),
        "b": traffic(0.3, 2, 3, length=0.12),
        "c": traffic(0.3, 3, 1, length=0.12),
    }
    layout = lay_out(tight, _capacity(5), 0.0)
    score_links([layout])
    (settled,) = align(layout, layout.groups[0], 0.0, consensus=True)
    # 60 ms of overlap at 40 of 50 Gbit/s must go somewhere: 3 - 0.06 / 0.3 x 0.8
    assert settled.forgone == pytest.approx(0.16)


def _capacity(links: int) -> Any:
    import numpy as np

    return np.full(links, 50.0)


def test_links_that_cannot_be_filled_are_no_constraint() -> None:
    light = Traffic(0.3, 1, 0.0, 0.0, {1: ((0.0, 0.3, 20.0),)})
    layout = lay_out({"a": light, "b": light}, _capacity(2), 0.05)
    assert layout.groups == []
    assert layout.score() == layout.score(tail=True) == 1.0


def test_jobs_that_do_not_meet_are_fully_compatible() -> None:
    """So a plan without meetings is never passed over for one with them."""
    apart = {f"j{i}": Traffic(0.3, 1, 0.0, 0.0, {i: ((0.0, 0.2, 45.0),)}) for i in range(2)}
    together = {job: Traffic(0.3, 1, 0.0, 0.0, {0: ((0.0, 0.2, 45.0),)}) for job in apart}
    layouts = [lay_out(traffic, np.full(2, 50.0), 0.05) for traffic in (apart, together)]
    score_links(layouts)
    assert [layout.score() for layout in layouts] == [1.0, pytest.approx(1.0 - 0.8 / 3)]  # 0.1 of 0.3 s at 90 of 50
    assert layouts[0].score(tail=True) == 1.0


def test_padding_is_bounded_and_only_where_it_pays() -> None:
    """250 and 260 ms fit with 4 % of idle time; 250 and 420 ms fit nothing within 5 %."""
    near = lay_out({"a": traffic(0.25, 1), "b": traffic(0.26, 1)}, _capacity(2), 0.05)
    score_links([near])
    (found,) = align(near, near.groups[0], 0.05, False)
    assert found.periods_s == pytest.approx({"a": 0.26, "b": 0.26})
    assert found.pays
    far = lay_out({"a": traffic(0.25, 1), "b": traffic(0.42, 1)}, _capacity(2), 0.05)
    assert far.groups[0].periods_s == {}
    # short messages lose less by chance than 4 % of idle time would cost
    rare = lay_out({"a": traffic(0.25, 1, length=0.01), "b": traffic(0.26, 1, length=0.01)}, _capacity(2), 0.05)
    score_links([rare])
    (cheap,) = align(rare, rare.groups[0], 0.05, False)
    assert not cheap.pays


def test_the_most_compatible_candidate_is_taken() -> None:
    """Of plans that pair the jobs differently the one with the fully compatible pairs wins."""

    capacity = _capacity(3)

    class World:
        """Traffic by job and GPU: GPUs 0 and 1 meet on link 0, 2 and 3 on link 1."""

        def __init__(self) -> None:
            self.now, self.running = 0.0, {"small": None}
            self.waiting: dict[str, Any] = {}
            self.cluster = SimpleNamespace(topology=SimpleNamespace(capacity=capacity))

        def job(self, name: str) -> Any:
            return SimpleNamespace(job=name)

        def traffic(self, job: str, gpus: tuple[int, ...]) -> Traffic:
            length = {"big": 0.2, "large": 0.2, "small": 0.09, "tiny": 0.08}[job]
            return traffic(0.3, gpus[0] // 2, length=length)

    def plan(*order: str) -> Candidate:
        return Candidate(Plan({job: (i, 9) for i, job in enumerate(order)}), {})

    bad, good = plan("big", "large", "small", "tiny"), plan("big", "small", "large", "tiny")
    for metric in ("mean", "tail"):
        pick = Cassini(Settings(metric=metric)).pick(World(), [bad, good], {"gates": {}})  # type: ignore[arg-type]
        assert list(pick.candidate.plan.placements) == ["big", "small", "large", "tiny"]
        assert set(pick.candidate.plan.gates) == {"big", "small", "large", "tiny"}
        for share, first in ((0.01, "small"), (0.5, "large")):  # what the better plan's restarts cost counts against it
            dear = replace(good, restart_share=share)
            pick_ = Cassini(Settings(metric=metric)).pick(World(), [bad, dear], {"gates": {}})  # type: ignore[arg-type]
            assert list(pick_.candidate.plan.placements)[1] == first
        stay = Cassini(Settings(metric=metric, stay=True))  # small, which runs, is elsewhere in the better plan
        assert stay.pick(World(), [bad, good], {"gates": {}}).candidate.plan.placements == bad.plan.placements  # type: ignore[arg-type]
        assert stay.pick(World(), [good, bad], {"gates": {}}).candidate.plan.placements == good.plan.placements  # type: ignore[arg-type]
        again = Cassini(Settings(metric=metric)).pick(World(), [bad, good], pick.state)  # type: ignore[arg-type]
        assert again.candidate.plan.gates == pick.candidate.plan.gates


def test_the_control_takes_the_fewest_racks_whatever_the_score() -> None:
    """Two racks of three servers. In the compact plan a and b have a rack each, in the wide one both are across.

    Where nobody meets, both plans score 1, and the score keeps the planner's first; the control takes the compact one
    wherever it stands. Where jobs meet in the compact plan only, the score takes the wide one; the control does not.
    """
    cluster = leaf_spine(2, 3, spines=1, oversubscription=3.0)

    class World:
        def __init__(self, meets: bool) -> None:
            self.now, self.running, self.waiting, self.cluster, self.meets = 0.0, {}, {}, cluster, meets

        def job(self, name: str) -> Any:
            return SimpleNamespace(job=name)

        def traffic(self, job: str, gpus: tuple[int, ...]) -> Traffic:
            link = 0 if self.meets and Spread.of(cluster, gpus).racks == 1 else {"a": 1, "b": 2}[job]
            return Traffic(0.3, 1, 0.0, 0.0, {link: ((0.0, 0.2, 0.9 * float(cluster.topology.capacity[link])),)})

    compact = Candidate(Plan({"a": (0, 1), "b": (3, 4)}), {})
    wide = Candidate(Plan({"a": (0, 3), "b": (1, 4)}), {})

    def taken(text: str, meets: bool, *candidates: Candidate) -> Any:
        picked = Cassini.from_text(text).pick(World(meets), candidates, {"gates": {}})  # type: ignore[arg-type]
        return picked.candidate.plan.placements

    for meets in (False, True):
        for order in ((compact, wide), (wide, compact)):
            assert taken("metric=racks,unshifted", meets, *order) == compact.plan.placements
    assert taken("unshifted", False, wide, compact) == wide.plan.placements
    assert taken("unshifted", True, compact, wide) == wide.plan.placements
    dear = replace(compact, restart_share=0.9)  # restarts count for the control only between plans of as many racks
    assert taken("metric=racks,unshifted", True, wide, dear) == compact.plan.placements
    assert taken("metric=racks,unshifted", False, dear, compact) == compact.plan.placements


@pytest.mark.parametrize(("planner", "seed"), [("themis", 0), ("pollux", 2)])
def test_by_hand_two_jobs_swap_workers(planner: str, seed: int) -> None:
    """Two racks of two servers with one GPU each and one uplink; a restart costs 10 s.

    p, q and r have a GPU each, so a, of 300 iterations, gets one in each rack when p ends, at 10 s; b does when q and r
    end, at 100 s (under Pollux, which draws nodes at random, at this seed). Alone an iteration computes for 0.25 s and
    sends for 0.75 s. On the same uplinks, in step, it takes 0.25 + 2 x 0.75 s: a's last 210 iterations end at 467.5 s,
    and b, which has done 210 by then, ends 90 s later. An uplink that both use 0.75 of the time scores 0.5 at best, a
    rack for each 1, less the restart of 2 of 4 GPUs: 10 of the 210 s that a has left (under Pollux 10 of 60 s, a
    round). So with CASSINI a and b swap a worker at 100 s: a goes on at 110 s and ends at 320 s, b ends at 400 s. Where
    running jobs stay, nothing changes.
    """
    cluster = leaf_spine(2, 2, spines=1, oversubscription=2.0)
    up = float(cluster.topology.capacity.min())

    def job(name: str, gpus: int, iterations: int, submit_s: float) -> Job:
        phases = [Phase(1.0)] if gpus == 1 else [Phase(0.25), Phase(bytes=0.75 * up)]
        return Job(name, submit_s, gpus, iterations, {gpus: Profile.from_phases(name, phases, gpus)}, name)

    jobs = [job("p", 1, 10, 0.0), job("q", 1, 100, 0.0), job("r", 1, 100, 0.0)]
    jobs += [job("a", 2, 300, 1.0), job("b", 2, 300, 2.0)]

    def spans(stack: str) -> dict[str, list[Any]]:
        run = simulate(cluster, jobs, resolve(stack), run=RunSpec(seed=seed, restart_s=10.0))
        found: dict[str, list[Any]] = {}
        for name, start, end, gpus, _ in run.spans.sort("start_s").iter_rows():
            found.setdefault(name, []).append((start, pytest.approx(end), Spread.of(cluster, tuple(gpus)).racks))
        return {name: found[name] for name in "ab"}

    apart = {"a": [(10.0, 467.5, 2)], "b": [(100.0, 557.5, 2)]}
    assert spans(planner) == spans(f"{planner}+cassini:unshifted,stay") == apart
    assert spans(f"{planner}+cassini:unshifted") == {
        "a": [(10.0, 100.0, 2), (100.0, 320.0, 1)], "b": [(100.0, 400.0, 1)]
    }  # fmt: skip


def test_loops_are_passed_over_and_if_all_loop_the_best_is_left_unshifted_and_says_so() -> None:
    """Jobs in a ring of three links make a loop, on one link none. GPU 0: a light ring, 1: a heavy one, 2: one link."""

    class World:
        """Traffic by job and the first GPU of its placement."""

        def __init__(self) -> None:
            self.now, self.waiting = 0.0, {"a": None, "b": None, "c": None}
            self.cluster = SimpleNamespace(topology=SimpleNamespace(capacity=_capacity(3)))

        def job(self, name: str) -> Any:
            return SimpleNamespace(job=name)

        def traffic(self, job: str, gpus: tuple[int, ...]) -> Traffic:
            i = "abc".index(job)
            links = (0,) if gpus[0] == 2 else (i, (i + 1) % 3)
            return traffic(0.3, *links, length=(0.16, 0.2, 0.2)[gpus[0]])

    def plan(how: int) -> Candidate:
        return Candidate(Plan(dict.fromkeys("abc", (how, 9))), {}, dict.fromkeys("abc", "why"))

    def picked(*plans: int) -> Candidate:
        printed = Cassini(Settings(loops="discard"))
        return printed.pick(World(), [plan(how) for how in plans], {"gates": {}}).candidate  # type: ignore[arg-type]

    light, heavy, flat = (Cassini().layouts(World(), [plan(how).plan.placements])[0] for how in range(3))  # type: ignore[arg-type]
    assert (light.loops, heavy.loops, flat.loops) == (1, 1, 0)
    assert light.score() > heavy.score() > flat.score()
    assert picked(0, 1, 2).plan.placements["a"][0] == 2  # the only one without a loop, though its score is the lowest
    best = picked(1, 0)
    assert best.plan.placements["a"][0] == 0
    assert best.plan.gates == {}
    assert best.reasons == dict.fromkeys("abc", "why; not shifted: the links of its group make a loop")
    settled = Cassini().pick(World(), [plan(2), plan(0)], {"gates": {}}).candidate  # type: ignore[arg-type]
    assert settled.plan.placements["a"][0] == 0  # by default a loop is no reason to take what scores less
    assert set(settled.plan.gates) == {"a", "b", "c"}


def test_networks_without_links_are_refused_in_words() -> None:
    scenario = {**pair(iterations=2), "network": {"sharing": "k-way"}}
    with pytest.raises(StackError, match=r'network\.sharing "max-min"'):
        weft.simulate(scenario, stack=SHIFTED)


def test_every_iteration_is_counted_and_gates_cost_time_not_bytes() -> None:
    _, run = iteration_s(pair(iterations=50), SHIFTED)
    assert run.iterations.group_by("job_id").agg(pl.col("count").sum())["count"].to_list() == [50.0, 50.0]
    assert float(run.jobs["gate_s"].sum()) > 0.0
