import tomllib
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.cli.main import run
from weft.errors import ScenarioError
from weft.model.profile import Transfer
from weft.scenario import Scenario
from weft.scenario.build import build_cluster, build_workload
from weft.scenario.shipped import names, scenario_path
from weft.scenario.template import TEMPLATE

_WITHOUT_DEFAULT = {("stack", "place"), ("run", "until_s"), ("network", "foreign"), ("network", "cross_traffic")}


def template(name: str = "my.toml") -> dict[str, Any]:
    return tomllib.loads(TEMPLATE.format(name=name))


def test_the_template_is_a_valid_scenario(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text(TEMPLATE.format(name=path))
    scenario = Scenario.load(path)
    assert scenario.name == "my"
    assert scenario.folder == tmp_path
    assert scenario.stack is not None
    assert scenario.stack.name == "weft"
    assert build_cluster(scenario).n_gpus == 96


def test_commented_keys_of_the_template_are_known_and_show_their_defaults() -> None:
    """Each "# key = value" line, uncommented, is accepted; apart from those without a default it changes nothing."""
    section = ""
    checked = 0
    for line in TEMPLATE.format(name="x").splitlines():
        if line.startswith("["):
            section = line[1 : line.index("]")]
        if not line.startswith("# ") or " = " not in line or not section:
            continue
        key, value = next(iter(tomllib.loads(line[2:]).items()))
        data = template()
        data[section][key] = value
        shown = getattr(Scenario.load(data), section)
        if (section, key) not in _WITHOUT_DEFAULT:
            assert getattr(shown, key) == getattr(getattr(Scenario.load(template()), section), key), line
        checked += 1
    assert checked >= 10


def test_a_scenario_may_leave_out_all_but_cluster_and_workload() -> None:
    data = template()
    for section in ("stack", "network", "run", "compare"):
        del data[section]
    scenario = Scenario.load(data)
    assert scenario.stack is None
    assert scenario.network.sharing == "max-min"
    assert scenario.run.seed == 0
    assert scenario.where == "scenario"


def test_scenarios_that_come_with_weft_are_known_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of the same name in the working directory comes first."""
    monkeypatch.chdir(tmp_path)
    for name in names():
        assert Scenario.load(name).name == Scenario.load_site(name).name == name
    assert run(["topology", "sweep"]) == 0
    assert "24" in capsys.readouterr().out
    (tmp_path / "sweep").write_text(scenario_path("demo").read_text(encoding="utf-8"), encoding="utf-8")
    assert Scenario.load("sweep").cluster == Scenario.load("demo").cluster
    with pytest.raises(ScenarioError, match=r"swept: no such file; .* ada-srsf, "):
        Scenario.load("swept")


def test_k_way_constants_default_to_ten_gigabit_ethernet() -> None:
    data = template()
    data["network"] = {"sharing": "k-way"}
    network = Scenario.load(data).network
    # AdaDUAL's threshold with these constants: 2 (b + eta) / b = 2.549
    assert 2 * (network.b_s_per_byte + network.eta_s_per_byte) / network.b_s_per_byte == pytest.approx(2.549, abs=5e-4)


def test_several_problems_are_counted_and_the_misspelt_key_comes_first() -> None:
    data = template()
    data["cluster"]["racks"] = -1
    data["cluster"]["topologie"] = data["cluster"].pop("topology")
    with pytest.raises(ScenarioError) as caught:
        Scenario.load(data)
    assert str(caught.value) == (
        "scenario: cluster.topologie is not a known key; did you mean topology? (and 2 more problems)"
    )


def test_what_the_topology_refuses_carries_the_file_name(tmp_path: Path) -> None:
    path = tmp_path / "fat.toml"
    path.write_text(TEMPLATE.format(name=path).replace('"leaf-spine"', '"fat-tree"'))
    with pytest.raises(ScenarioError) as caught:
        build_cluster(Scenario.load(path))
    assert str(caught.value).startswith(f"{path}: cluster.")


def test_routes_follow_the_seed() -> None:
    data = template()
    scenario = Scenario.load(data)
    routes = {seed: [build_cluster(scenario, seed).topology.route(0, 20, f) for f in range(64)] for seed in (1, 2)}
    assert routes[1] != routes[2]
    assert routes[1] == [build_cluster(scenario, 1).topology.route(0, 20, f) for f in range(64)]


def test_a_cluster_cable_by_cable() -> None:
    data = template()
    data["cluster"] = {
        "topology": "links",
        "gpus_per_server": 2,
        "links": [{"a": "n1", "b": "sw", "gbps": 10}, {"a": "n2", "b": "sw", "gbps": 25.0, "tier": "nic"}],
        "routes": [{"src": "n1", "dst": "n2", "via": ["sw"]}],
        "servers": ["n1", "n2"],
    }
    cluster = build_cluster(Scenario.load(data))
    assert cluster.n_gpus == 4
    assert len(cluster.topology.links) == 4


def test_overlap_sends_gradients_in_buckets() -> None:
    """The same bytes and the same computing, in more messages."""
    data = template()
    data["workload"] = {
        "source": "jobs", "job": [{"model": "resnet50", "gpus": 4, "iterations": 1}],
    }  # fmt: skip
    profiles = {}
    for overlap in (False, True):
        data["workload"]["overlap"] = overlap
        scenario = Scenario.load(data)
        profiles[overlap] = build_workload(scenario, build_cluster(scenario), 0).jobs[0].profile
    plain, layered = profiles[False], profiles[True]
    assert sum(isinstance(t, Transfer) for t in plain.tasks) == 1 < sum(isinstance(t, Transfer) for t in layered.tasks)
    assert layered.message_bytes == pytest.approx(plain.message_bytes)
    assert layered.compute_s == pytest.approx(plain.compute_s)


def test_limits_of_the_batch_say_what_else_a_job_can_run_with() -> None:
    """Between them at every size; parameters are sent whatever the batch, computing takes longer with more samples."""
    data = template()
    data["workload"] = {
        "source": "batch", "jobs": 1, "models": ["vgg16[batch=40]"], "gpus": {"2": 1}, "elastic": [1, 4],
        "elastic_batch": [0.5, 1.5], "iterations": [10, 10],
    }  # fmt: skip
    scenario = Scenario.load(data)
    (job,) = build_workload(scenario, build_cluster(scenario), 0).jobs
    assert {n: job.profiles[n].batch for n in job.sizes} == {1: 60, 2: 40, 3: 27, 4: 20}
    for size in job.sizes:
        found = job.batches[size]
        assert [profile.batch for profile in found] == [20, 28, 36, 40, 44, 52, 60]
        assert {profile.message_bytes for profile in found} == {job.profiles[size].message_bytes}
        computing = [profile.compute_s for profile in found]
        assert computing == sorted(set(computing))
    del data["workload"]["elastic_batch"]
    scenario = Scenario.load(data)
    assert not build_workload(scenario, build_cluster(scenario), 0).jobs[0].batches


@pytest.mark.parametrize("name", ["llm-cluster", "fine-tuning-site", "vision-2020"])
def test_templates_of_todays_sites_run(name: str, tmp_path: Path) -> None:
    """What `weft init --template` writes is a scenario: a part of it runs to its end, with all kinds of its jobs."""
    path = tmp_path / "mine.toml"
    assert run(["init", str(path), "--template", name]) == 0
    scenario = Scenario.load(path)
    few = scenario.model_copy(update={"workload": scenario.workload.model_copy(update={"jobs": 60})})
    found = weft.simulate(few)
    assert found.jobs["finish_s"].is_not_null().all()
    assert set(found.jobs["model"]) <= {kind.model for kind in scenario.workload.mix}
    assert found.jobs["model"].n_unique() >= 3
