import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.results.tables import bound_words
from weft.runs.bound import Need, bound, bound_of
from weft.scenario import Scenario
from weft.scenario.build import build


def test_one_gpu_is_shortest_first() -> None:
    """Jobs of 1, 2 and 3 s on one GPU: ends at 1, 3 and 6 s."""
    found = bound([Need(0.0, s, s) for s in (3.0, 1.0, 2.0)], 1)
    assert found == {"jct_mean_s": pytest.approx(10 / 3), "makespan_s": pytest.approx(6.0)}


def test_an_empty_cluster_is_the_time_alone() -> None:
    found = bound([Need(0.0, 5.0, 5.0), Need(100.0, 7.0, 14.0)], 8)
    assert found == {"jct_mean_s": 6.0, "makespan_s": 107.0}


def test_wide_jobs_in_a_row_end_half_their_length_after_their_middles() -> None:
    """Two jobs of 4 GPUs on 4 for 2 s: the machine of the fluid ends them at 2 and 4, and so does the cluster."""
    assert bound([Need(0.0, 2.0, 8.0)] * 2, 4)["jct_mean_s"] == pytest.approx(3.0)


def best(jobs: list[tuple[int, int, int]], gpus: int) -> tuple[float, float]:
    """The least mean completion time and the least makespan of rigid jobs (submit, seconds, GPUs), each by itself, over
    all list schedules, which contain the best ones without preemption."""
    means, spans = [], []
    for order in itertools.permutations(range(len(jobs))):
        busy: list[tuple[float, float, int]] = []
        ends = {}
        for i in order:
            submit, seconds, width = jobs[i]
            times = sorted({float(submit), *(end for _, end, _ in busy if end > submit)})
            start = next(t for t in times if _fits(busy, t, t + seconds, width, gpus))
            busy.append((start, start + seconds, width))
            ends[i] = start + seconds
        means.append(sum(ends[i] - jobs[i][0] for i in ends) / len(jobs))
        spans.append(max(ends.values()) - min(submit for submit, _, _ in jobs))
    return min(means), min(spans)


def _fits(busy: list[tuple[float, float, int]], begin: float, end: float, width: int, gpus: int) -> bool:
    marks = [begin, *(b for b, _, _ in busy if begin < b < end)]
    return all(sum(w for b, e, w in busy if b <= t < e) + width <= gpus for t in marks)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 9), st.integers(1, 4)), min_size=1, max_size=5),
    st.integers(4, 6),
)
@settings(max_examples=200, deadline=None)
def test_it_is_never_above_the_best_of_all_schedules(jobs: list[tuple[int, int, int]], gpus: int) -> None:
    found = bound([Need(submit, seconds, seconds * width) for submit, seconds, width in jobs], gpus)
    mean, span = best(jobs, gpus)
    assert found["jct_mean_s"] <= mean * (1 + 1e-9)
    assert found["makespan_s"] <= span * (1 + 1e-9)


SCENE = {
    "cluster": {
        "topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 4, "oversubscription": 4,
    },
    "workload": {
        "source": "poisson", "jobs": 20, "load": 0.9, "models": ["vgg16", "resnet50"], "gpus": {"1": 1, "4": 1, "8": 1},
        "iterations": [50, 400],
    },
}  # fmt: skip


@pytest.mark.parametrize("stack", ["fifo", "srsf-preemptive", "weft", "gandiva-packing", "themis"])
def test_no_stack_beats_it(stack: str) -> None:
    for seed in (1, 2):
        run = weft.simulate(SCENE, stack=stack, seed=seed)
        experiment = build(Scenario.load({**SCENE, "stack": {"name": stack}}), seed)
        found = bound_of(experiment, experiment.stack.planner.shares_gpus)
        assert found is not None
        done = run.summary()
        assert 0 < found["jct_mean_s"] <= done["jct_s"]["mean"] * (1 + 1e-9)
        assert 0 < found["makespan_s"] <= done["makespan_s"] * (1 + 1e-9)
        assert math.isfinite(found["makespan_s"])


def test_no_order_of_ranks_beats_it() -> None:
    """Workers that share a layer, or follow each other in a pipeline, gain where they stand beside each other."""
    scene = {
        "cluster": {
            "topology": "leaf-spine", "racks": 2, "servers_per_rack": 2, "gpus_per_server": 8, "gpu": "H100",
            "gpu_memory_gb": 80, "intra_server_gbps": 600, "oversubscription": 4,
        },
        "workload": {
            "source": "batch", "jobs": 2, "models": ["llama-7b[parallel=hybrid:4x2x2]"], "gpus": {"16": 1},
            "iterations": [20, 20],
        },
    }  # fmt: skip
    found = bound_of(build(Scenario.load(scene)), shared=False)
    assert found is not None
    for stack in ("fifo", "fifo[place=tight]", "fifo[place=random]"):
        assert found["makespan_s"] <= weft.simulate(scene, stack=stack).summary()["makespan_s"]


def test_none_where_lengths_are_random() -> None:
    assert bound_of(build(Scenario.load({**SCENE, "run": {"jitter": 0.1}}), 1), shared=False) is None


def test_a_comparison_has_it_by_the_names_of_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    found = weft.compare(SCENE, ["fifo", "srsf"], [1, 2], workers=1)
    alone = [bound_of(build(Scenario.load(SCENE), seed), shared=False) for seed in (1, 2)]
    said = found.to_dict()["bound"]
    for name in ("jct_mean_s", "makespan_s"):
        assert said[name] == pytest.approx(sum(one[name] for one in alone if one) / 2)
    assert "bound: " in bound_words(found.to_dict())
    assert bound_words({**found.to_dict(), "bound": None}) == ""


@pytest.mark.parametrize("stack", ["fifo", "srsf", "weft", "random", "ideal"])
def test_no_stack_beats_it_on_unequal_gpus(stack: str) -> None:
    """Jobs of any type and of one; `ideal` shows how close the time alone comes to what jobs take on their fastest."""
    cluster = {
        "topology": "leaf-spine",
        "servers_per_rack": 2,
        "gpus_per_server": 4,
        "nic_gbps": 100,
        "group": [{"preset": "dgx-h100", "count": 1}, {"gpu": "A100", "gpu_memory_gb": 40, "count": 2}],
    }
    any_type: list[dict[str, object]] = [
        {"id": f"any{n}", "model": "bert-large", "gpus": n, "iterations": 40} for n in (1, 2, 4)
    ]
    jobs = any_type + [{**job, "id": f"{job['id']}-{gpu}", "gpu": gpu} for job in any_type for gpu in ("H100", "A100")]
    scene = {"cluster": cluster, "workload": {"source": "jobs", "job": jobs}}
    found = bound_of(build(Scenario.load(scene), 1), shared=False)
    assert found is not None
    mean = weft.simulate(scene, stack=stack, seed=1).jobs["jct_s"].mean()
    assert isinstance(mean, float)
    assert mean >= found["jct_mean_s"] * (1 - 1e-9)
    if stack == "ideal":
        assert mean <= 1.05 * found["jct_mean_s"]
