"""Clusters of several GPU types: what jobs ask for, what they get, and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

import weft
from weft.core.cycle import Core
from weft.errors import InputError, ScenarioError, StackError
from weft.model.events import Submitted
from weft.model.view import Spread
from weft.scenario import Scenario
from weft.scenario.build import Layers, build
from weft.scenario.sections import ClusterSection
from weft.sim import simulate
from weft.sim.world import SimWorld
from weft.stacks.registry import make, names

TEXT = """
[cluster]
topology = "leaf-spine"
servers_per_rack = 2
gpus_per_server = 4
nic_gbps = 100
group = [{ preset = "dgx-h100", count = 2 }, { gpu = "A100", gpu_memory_gb = 40, count = 2 }]
[workload]
source = "jobs"
[[workload.job]]
id = "old"
model = "bert-large"
gpus = 4
iterations = 50
gpu = "A100"
[[workload.job]]
id = "any"
model = "bert-large"
gpus = 4
iterations = 50
count = 5
[[workload.job]]
id = "new"
model = "bert-large"
gpus = 4
duration_s = 60
gpu = "H100"
[stack]
order = "fifo"
place = "best-fit"
"""


def load(tmp_path: Path, text: str = TEXT) -> Scenario:
    (tmp_path / "s.toml").write_text(text)
    return Scenario.load(tmp_path / "s.toml")


def test_jobs_run_on_the_type_they_ask_for_at_its_speed(tmp_path: Path) -> None:
    made = build(load(tmp_path))
    jobs = {job.id: job for job in made.workload.jobs}
    assert list(jobs) == ["old", *(f"any-{i}" for i in range(5)), "new"]
    fast, slow = (jobs["any-0"].profile_on(4, gpu).compute_s for gpu in ("H100", "A100"))
    assert slow > 1.5 * fast
    result = simulate(made.cluster, made.workload.jobs, made.stack, made.network, made.run)
    assert (result.jobs["status"] == "finished").all()
    where = {row["job_id"]: row["gpus"] for row in result.spans.iter_rows(named=True)}
    types = {job: {made.cluster.type_of_gpu(gpu) for gpu in gpus} for job, gpus in where.items()}
    assert types == {
        "old": {"A100"}, **{f"any-{i}": {"H100"} for i in range(4)}, "any-4": {"A100"}, "new": {"H100"},
    }  # fmt: skip
    ran = {row["job_id"]: row["run_s"] for row in result.jobs.iter_rows(named=True)}
    assert ran["new"] == pytest.approx(60, rel=0.1)
    assert ran["any-4"] > 1.5 * ran["any-0"]


@pytest.mark.parametrize(
    ("old", "new"), [('gpu = "A100"\n[[', 'gpu = "B200"\n[['), ("gpus = 4\niterations", "gpus = 9\niterations")]
)
def test_a_type_that_is_not_there_or_too_few_of_it(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(InputError):
        _ = build(load(tmp_path, TEXT.replace(old, new))).workload


@pytest.mark.parametrize("stack", ["fifo", "ideal", "tiresias", "dally"])
def test_of_types_that_have_room_a_job_gets_the_fastest(tmp_path: Path, stack: str) -> None:
    """The slow servers come first in the cluster, so the length in iterations is that of the slow type."""
    new, old = '{ preset = "dgx-h100", count = 2 }', '{ gpu = "A100", gpu_memory_gb = 40, count = 2 }'
    swapped = TEXT.replace(f"{new}, {old}", f"{old}, {new}")
    made = build(load(tmp_path, swapped), stack=Layers(stack))
    assert made.cluster.gpu_types == ("A100", "H100")
    one = [replace(job, submit_s=0.0) for job in made.workload.jobs if job.id == "any-0"]
    result = simulate(made.cluster, one, made.stack, made.network, made.run)
    gpus = next(result.spans.iter_rows(named=True))["gpus"]
    assert made.cluster.type_of(gpus if stack != "ideal" else [gpu % made.cluster.n_gpus for gpu in gpus]) == "H100"


def test_estimates_are_those_of_the_type_that_a_job_holds(tmp_path: Path) -> None:
    made = build(load(tmp_path))
    job = next(job for job in made.workload.jobs if job.id == "any-0")
    world = SimWorld(made.cluster, made.workload.jobs, made.network, made.run)
    core = Core(made.stack, world)
    core.step(0.0, [Submitted(0.0, job)])
    at = core.view.job(job.id).gpus
    slow = core.view.estimate(job.as_on("A100"), 4, Spread())
    assert made.cluster.type_of(at) == "H100"
    assert core.view.estimate(job, 4, Spread()) == core.view.estimate(job.as_on("H100"), 4, Spread())
    assert slow.compute_s == job.profile_on(4, "A100").compute_s > core.view.estimate(job, 4, Spread()).compute_s


@pytest.mark.parametrize("stack", ["themis", "pollux"])
def test_planners_that_know_one_type_are_refused(tmp_path: Path, stack: str) -> None:
    made = build(load(tmp_path), stack=Layers(stack))
    with pytest.raises(StackError, match="H100 and A100"):
        simulate(made.cluster, made.workload.jobs, made.stack, made.network, made.run)


def test_the_shipped_cluster_of_24576_gpus_builds() -> None:
    from weft.scenario.build import build_cluster
    from weft.scenario.shipped import scenario_path

    cluster = build_cluster(Scenario.load(scenario_path("pretraining-16k")))
    assert (cluster.n_gpus, cluster.n_nics) == (24576, 24576)
    assert [(level.name, int(level.gpus.max())) for level in cluster.levels] == [
        ("server", 8), ("rail group", 256), ("pod", 3072), ("cluster", 24576),
    ]  # fmt: skip
    assert cluster.closest(16384).name == "cluster"


def test_a_default_comparison_leaves_out_planners_of_one_kind(tmp_path: Path) -> None:
    listed = load(tmp_path, TEXT + '[compare]\nstacks = ["themis", "fifo", "srsf"]\nseeds = 1\n')
    runs = weft.compare(listed, workers=1).runs
    assert [run.stack for run in runs] == ["fifo", "srsf"]
    assert all(any("stack themis is left out: " in note for note in run.notes) for run in runs)
    with pytest.raises(StackError, match="one kind of GPU"):
        weft.compare(listed, stacks=["fifo", "themis"], workers=1)
    alone = load(tmp_path, TEXT + '[compare]\nstacks = ["themis"]\nseeds = 1\n')
    with pytest.raises(StackError, match="one kind of GPU"):
        weft.compare(alone, workers=1)


def test_the_reference_names_the_planners_that_need_equal_gpus() -> None:
    said = ClusterSection.model_fields["group"].description or ""
    for name in names("planners"):
        assert (f" {name}" in said) == (not make("planners", name).unequal)


def test_a_tree_from_a_file_has_no_use_for_the_speed_of_nvlink(tmp_path: Path) -> None:
    (tmp_path / "tree.csv").write_text("node,rack\nn0,r0\nn1,r0\nn2,r1\nn3,r1\n")
    cluster = '[cluster]\ntopology = "file"\nfile = "tree.csv"\ngpus_per_server = 8\ngpu = "H100"\ngpu_memory_gb = 80\n'
    jobs = '[workload]\nsource = "jobs"\n[[workload.job]]\nmodel = "resnet50"\ngpus = 4\niterations = 5\n'
    assert build(load(tmp_path, cluster + jobs)).cluster.n_gpus == 32
    with pytest.raises(ScenarioError, match="nvlink_domain"):
        build(load(tmp_path, cluster + "nvlink_gbps = 900\n" + jobs))


@pytest.mark.parametrize(
    ("given", "gb"), [("", 16), ('gpu = "H100"', 80), ('gpu = "K80"', 12), ('gpu = "H100"\ngpu_memory_gb = 94', 94)]
)
def test_memory_is_that_of_the_data_sheet(tmp_path: Path, given: str, gb: float) -> None:
    jobs = '[workload]\nsource = "jobs"\n[[workload.job]]\nmodel = "resnet50"\ngpus = 1\niterations = 5\n'
    text = f'[cluster]\ntopology = "single-switch"\nservers = 2\n{given}\n{jobs}'
    assert build(load(tmp_path, text)).cluster.gpu_memory_bytes == gb * 1e9
    bare = TEXT.replace(", gpu_memory_gb = 40", "")
    assert sorted(set(build(load(tmp_path, bare)).cluster.memory_of_gpu.tolist())) == [40e9, 80e9]
    stated = bare.replace('preset = "dgx-h100"', 'gpu = "H100"').replace("nic_gbps = 100", "gpu_memory_gb = 60")
    assert set(build(load(tmp_path, stated)).cluster.memory_of_gpu.tolist()) == {60e9}  # what [cluster] says, for all
