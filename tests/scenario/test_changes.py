"""`--set`: keys with and without their section, values as in the file, every combination of several."""

from pathlib import Path

import pytest

from weft.errors import InputError, ScenarioError
from weft.scenario import Scenario
from weft.scenario.changes import changed, named, settings, sweep

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo.toml"


def test_every_combination_of_values() -> None:
    found = settings(["cluster.racks=2,4", "run.exact=false", 'workload.models=["vgg16", "lstm-ptb"],["resnet50"]'])
    assert found == [
        {"cluster.racks": racks, "run.exact": False, "workload.models": models}
        for racks in (2, 4)
        for models in (["vgg16", "lstm-ptb"], ["resnet50"])
    ]
    assert settings([]) == [{}]


def test_a_key_that_one_section_has_needs_no_section() -> None:
    assert settings(["oversubscription=4"]) == [{"cluster.oversubscription": 4}]
    assert settings(["racks.oversubscription=4"]) == [{"cluster.oversubscription": 4}]
    assert settings(["sharing=k-way"]) == [{"network.sharing": "k-way"}]  # a text needs no quotes


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        (["racks"], "--set racks: write KEY=VALUE"),
        (["racks="], "--set racks=: write KEY=VALUE"),
        (["rakcs=3"], "--set rakcs is not a known key; did you mean racks?"),
        (["until_s=3"], "--set until_s: workload and run both have it; write workload.until_s"),
        (["racks=3", "cluster.racks=4"], "--set names cluster.racks twice"),
    ],
)
def test_refused_in_words(texts: list[str], line: str) -> None:
    with pytest.raises(InputError) as caught:
        settings(texts)
    assert str(caught.value).startswith(line)


def test_the_scenario_is_changed_and_checked_like_a_file() -> None:
    given = Scenario.load(DEMO)
    again = changed(given, {"cluster.racks": 8, "workload.gpus": {"2": 1.0}})
    assert (again.cluster.racks, given.cluster.racks) == (8, 4)
    assert again.workload.gpus == {2: 1.0}
    assert again.cluster.oversubscription == given.cluster.oversubscription
    assert (again.name, again.folder) == (given.name, given.folder)
    assert again.text.endswith("# changed by --set cluster.racks=8 workload.gpus={'2': 1.0}\n")
    with pytest.raises(ScenarioError, match=r"with --set cluster.racks=x: cluster.racks is \"x\"; give a whole"):
        changed(given, {"cluster.racks": "x"})
    with pytest.raises(InputError, match=r"--set workload.jobs.x: jobs is not a table"):
        changed(given, {"workload.jobs.x": 1})


def test_a_sweep_has_one_scenario_for_each_setting() -> None:
    points = sweep(Scenario.load(DEMO), ["oversubscription=1,2.5"])
    assert [named(setting) for setting, _ in points] == ["cluster.oversubscription=1", "cluster.oversubscription=2.5"]
    assert [point.cluster.oversubscription for _, point in points] == [1.0, 2.5]


@pytest.mark.parametrize(
    ("text", "comes_to"),
    [
        ("racks=+1", 5), ("racks=-1", 3), ("racks=+50%", 6), ("racks=-25%", 3), ("racks=150%", 6), ("racks=1", 1),
        ("oversubscription=+1", 3), ("oversubscription=-10%", 1.8), ("oversubscription=25%", 0.5),
    ],
)  # fmt: skip
def test_a_sign_or_a_percent_sign_changes_the_scenarios_own_number(text: str, comes_to: float) -> None:
    given = changed(Scenario.load(DEMO), {"cluster.racks": 4, "cluster.oversubscription": 2.0})
    (setting,) = settings([text])
    (key,) = setting
    assert getattr(changed(given, setting).cluster, key.removeprefix("cluster.")) == pytest.approx(comes_to)


def test_a_change_of_nothing_or_to_half_a_rack_is_refused() -> None:
    given = changed(Scenario.load(DEMO), {"cluster.racks": 4})
    for text, error in (("racks=+0.5", ScenarioError), ("racks=-4", ScenarioError), ("file=+1", InputError)):
        with pytest.raises(error):
            changed(given, settings([text])[0])
    assert sweep(given, ["racks=+1,-1"])[1][0] == {"cluster.racks": 3}
