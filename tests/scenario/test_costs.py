from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import pytest

import weft
from weft.errors import InputError
from weft.model.profile import Profile
from weft.network.cost import CostModel, Shape
from weft.scenario import Scenario
from weft.scenario.costs import build_cost
from weft.stacks import registry

SCENE: dict[str, Any] = {
    "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 1},
    "workload": {"source": "jobs", "job": [{"model": "vgg16", "gpus": 2, "iterations": 10}]},
    "stack": {"name": "fifo"},
}


class Late(CostModel):
    """Every iteration is so many seconds late."""

    name = "late"
    reads = frozenset({"options", "scale"})

    def __init__(self, seconds: float, scale: Mapping[str, float]) -> None:
        self.seconds, self.scale = seconds, scale

    @classmethod
    def from_network(cls, said: Mapping[str, Any], folder: Path) -> Self:
        return cls(said["options"]["seconds"], said["scale"])

    def exposed_s(self, profile: Profile, model: str, shape: Shape) -> float:
        return self.seconds * self.scale.get(model, 1.0)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_BY_HAND", {group: {} for group in registry.GROUPS})


def of(**network: Any) -> dict[str, Any]:
    return {**deepcopy(SCENE), "network": network}


def test_a_strangers_model_is_found_by_name_and_told_what_the_scenario_says() -> None:
    registry.register("costs", "late", Late)
    once, twice = (
        weft.simulate(of(cost="late", options={"seconds": 0.5}, **more)).jobs["run_s"][0]
        for more in ({}, {"scale": {"vgg16": 2.0}})
    )
    assert twice - once == pytest.approx(10 * 0.5)


@pytest.mark.parametrize(
    ("network", "words"),
    [
        ({"cost": "late", "tiers": {"default": {"rack": 1.0, "network": 1.0}}}, "network.tiers has no meaning"),
        ({"cost": "analytical", "options": {"a": 1}}, "network.options has no meaning .*; remove it$"),
        ({"cost": "lnks"}, "network.cost .* did you mean links"),
        ({"cost": "tiers", "table": "dally-by-shap"}, "there is no cost dally-by-shap"),
        ({"cost": "late:2", "options": {"seconds": 1.0}}, "takes no parameter"),
    ],
)
def test_one_line_for_what_does_not_fit(network: dict[str, Any], words: str) -> None:
    registry.register("costs", "late", Late)
    with pytest.raises(InputError, match=words) as caught:
        weft.simulate(of(**network))
    assert "\n" not in str(caught.value)


def test_a_table_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    registry._installed.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    try:
        with pytest.raises(InputError, match="comes with weft-evidence, which is not installed here"):
            Scenario.load(of(cost="tiers", table="dally-by-shape"))
    finally:
        registry._installed.cache_clear()


def test_only_a_cost_model_is_registered() -> None:
    with pytest.raises(InputError, match=r"weft\.network\.cost:CostModel"):
        registry.register("costs", "late", int)


def test_links_need_none() -> None:
    assert build_cost(Scenario.load(SCENE).network, Path()) is None
