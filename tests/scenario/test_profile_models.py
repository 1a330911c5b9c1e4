from pathlib import Path

import pytest

import weft
from weft.errors import InputError
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, build_workload, check
from weft.workload import zoo
from weft.workload.profiles.files import save_measured
from weft.workload.profiles.measured import Measured

TEXT = """
[cluster]
topology = "single-switch"
servers = 4
gpus_per_server = 1
[workload]
source = "batch"
jobs = 6
models = ["mine.json"]
gpus = {1 = 0.5, 2 = 0.5}
iterations = [10, 20]
[stack]
name = "srsf"
"""


def _scenario(folder: Path, models: str = '["mine.json"]', more: str = "") -> Scenario:
    (folder / "s.toml").write_text(TEXT.replace('["mine.json"]', models) + more)
    return Scenario.load(folder / "s.toml")


def test_jobs_train_what_the_file_measured(tmp_path: Path) -> None:
    seen = Measured("V100", "fp32", 8, 0.01, 0.02, 0.0, (), 1_000_000, 4e6, memory_bytes=2e9)
    save_measured("mine", [seen], tmp_path / "mine.json")
    scenario = _scenario(tmp_path)
    cluster = build_cluster(scenario)
    check(scenario, cluster)
    jobs = build_workload(scenario, cluster, seed=1).jobs
    assert len(jobs) == 6
    for job in jobs:
        assert job.profile.compute_s == pytest.approx(0.03)
        assert job.profile.message_bytes == (4e6 if job.gpus > 1 else 0)
        assert job.memory_bytes == 2e9


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    scenario = _scenario(tmp_path)
    with pytest.raises(InputError, match=r"workload\.models.*mine\.json"):
        check(scenario, build_cluster(scenario))


LAYERS = "DATA\n1\nconv -1 1000000 NONE 0 2000000 NONE 0 3000000 ALLREDUCE 4000000 10\n"
GRAPH = (
    "node1 -- Linear(a) -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, "
    "parameter_size=4000.0\n"
)


def test_files_of_other_simulators_and_options_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them lies not beside the scenario but under WEFT_TRACES."""
    store = tmp_path / "store"
    (store / "profiles").mkdir(parents=True)
    (store / "profiles" / "net.graph.txt").write_text(GRAPH)
    (tmp_path / "net.txt").write_text(LAYERS)
    monkeypatch.setenv("WEFT_TRACES", str(store))
    names = ["net.txt", "profiles/net.graph.txt[overlap=true]", "vgg16", "vgg16[batch=32,parallel=parameter-server]"]
    scenario = _scenario(tmp_path, str(names))
    result = weft.simulate(scenario, seed=3)
    assert set(result.jobs["model"]) == set(names)
    assert result.jobs["finish_s"].is_not_null().all()
    jobs = build_workload(scenario, build_cluster(scenario), seed=3).jobs
    sent = {job.model: job.profile.message_bytes for job in jobs if job.gpus == 2}
    computed = {job.model: job.profile.compute_s for job in jobs}
    assert sent["profiles/net.graph.txt[overlap=true]"] == 4000
    assert computed["net.txt"] == pytest.approx(6.00001e-3)  # the update takes 10 ns
    expected = zoo.profile("vgg16", 2, batch=32).compute_s
    assert computed["vgg16[batch=32,parallel=parameter-server]"] == expected > 1.5 * computed["vgg16"]


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ('["vgg16[btach=4]"]', "workload.models: model 'vgg16[btach=4]': 'btach' is no option of a model; did"),
        ('{"vgg16[batch=0]" = 1.0}', "batch is '0'; it must be a whole number"),
        ('["notes.txt"]', "notes.txt: it is no profile that weft wrote"),
    ],
)
def test_a_wrong_option_or_file_is_named_before_anything_runs(models: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a model\n")
    scenario = _scenario(tmp_path, models)
    with pytest.raises(InputError) as error:
        check(scenario, build_cluster(scenario))
    assert said in str(error.value)
    assert str(error.value).startswith(scenario.where)


def test_rows_of_tiers_hold_for_a_model_with_options(tmp_path: Path) -> None:
    """A row under the model's own name is enough; one with its options comes before it."""
    rows = '[network]\ncost = "tiers"\n[network.tiers.vgg16]\nrack = 0.5\nnetwork = 1.0\n'
    name = "vgg16[batch=32]"
    plain = weft.simulate(_scenario(tmp_path, str([name]), rows), seed=1)
    special = f'[network.tiers."{name}"]\nrack = 5.0\nnetwork = 5.0\n'
    slower = weft.simulate(_scenario(tmp_path, str([name]), rows + special), seed=1)
    two = plain.jobs["gpus"] == 2
    assert two.any()
    assert (slower.jobs["finish_s"].filter(two) > plain.jobs["finish_s"].filter(two)).all()


@pytest.mark.parametrize(
    ("more", "model", "count"),
    [
        ('\n[network]\ncollective = "tree"\n', "llama-3.1-8b[parallel=hybrid:tp1,layers=1,vocabulary=1000]", 1),
        ('\n[network]\ncollective = "tree"\n', "vgg16", 0),
        ("", "llama-3.1-8b[parallel=hybrid:tp1,layers=1,vocabulary=1000]", 0),
    ],
)
def test_a_collective_that_a_named_layout_does_not_follow_is_told(
    tmp_path: Path, more: str, model: str, count: int
) -> None:
    scenario = _scenario(tmp_path, f'["{model}"]', more)
    told = [x for x in weft.simulate(scenario).notes if x.startswith("network.collective")]
    assert len(told) == count
    assert all(model in x for x in told)
