import pytest

import weft
from weft.errors import ScenarioError
from weft.network.cost import DALLY_TABLE_I, Shape
from weft_evidence.dally.runs import scenario
from weft_evidence.dally.shapes import ASTRA_SIM, AstraTable, ByShape, calibrated_profile, share_of

MODELS = sorted(DALLY_TABLE_I)
# 8 GPUs, closest first: one machine, two, four and eight machines of a rack; two racks, eight racks
FURTHER: tuple[Shape, ...] = (((8,),), ((4, 4),), ((2,) * 4,), ((1,) * 8,), ((4,), (4,)), ((1,),) * 8)


@pytest.mark.parametrize("model", MODELS)
def test_further_apart_is_dearer_and_one_machine_is_the_table(model: str) -> None:
    shares = [share_of(model, shape) for shape in FURTHER]
    assert shares[0] == DALLY_TABLE_I[model].machine
    assert shares[0] == min(shares)  # one GPU on each machine may be cheaper than four: one tier, not two
    assert shares[1] < shares[4] < shares[5]


@pytest.mark.parametrize("model", MODELS)
def test_the_share_is_of_the_jobs_own_compute_time(model: str) -> None:
    profile = calibrated_profile(model, 8)
    cost = ByShape()
    assert cost.exposed_s(profile, model, ((4, 4),)) == pytest.approx(profile.compute_s * share_of(model, ((4, 4),)))
    assert cost.exposed_s(calibrated_profile(model, 1), model, ((1,),)) == 0.0


def test_a_scenario_takes_costs_by_shape() -> None:
    """Jobs of 16 GPUs need two machines of a rack: there the shares by shape are not those of Table I."""
    given = scenario("batch-2-shapes", 0, files=False)
    assert given["network"]["table"] == "dally-by-shape"
    given["workload"] |= {"jobs": 4, "gpus": {16: 1.0}}
    by_shape = weft.simulate(given, stack="dally-nowait", seed=0)
    given["network"]["table"] = "dally"
    by_tier = weft.simulate(given, stack="dally-nowait", seed=0)
    assert by_shape.jobs["finish_s"].to_list() != by_tier.jobs["finish_s"].to_list()


@pytest.mark.parametrize("model", MODELS)
def test_what_astra_sim_gives_is_table_i(model: str) -> None:
    """4 + 4 GPUs on a machine, in a rack and over two racks: within 40 % of Table I."""
    row, published = ASTRA_SIM[model], DALLY_TABLE_I[model]
    assert row.share(1, 1) == pytest.approx(published.machine, rel=0.4)
    assert row.share(2, 1) == pytest.approx(published.rack, rel=0.4)
    assert row.share(1, 2) == pytest.approx(published.network, rel=0.4)


def test_irregular_shapes_cost_more_in_what_astra_sim_gives() -> None:
    """16 GPUs of MobileNetV3: two on each of eight racks are a ring of 8, over seven racks one of 16."""
    profile = calibrated_profile("mobilenet-v3", 16)
    costs = [
        AstraTable().exposed_s(profile, "mobilenet-v3", shape) / profile.compute_s
        for shape in (((8, 8),), ((1, 1),) * 8, ((2, 1), (1, 1, 1), *((1, 1),) * 5))
    ]
    assert costs == pytest.approx([9.35107, 1376.59, 2951.24], rel=1e-3)
    assert AstraTable().exposed_s(calibrated_profile("mobilenet-v3", 1), "mobilenet-v3", ((1,),)) == 0.0


def test_a_scenario_takes_what_astra_sim_gives() -> None:
    given = scenario("batch-2-astra-divided", 0, files=False)
    assert given["network"]["table"] == "dally-astra-sim"
    assert given["workload"]["reading"] == "one-gpu"
    assert scenario("batch-2-astra", 0, files=False)["workload"]["reading"] == "compute"
    given["workload"] |= {"jobs": 4, "gpus": {16: 1.0}}
    measured = weft.simulate(given, stack="dally-nowait", seed=0)
    given["network"]["table"] = "dally"
    by_tier = weft.simulate(given, stack="dally-nowait", seed=0)
    assert measured.jobs["finish_s"].to_list() != by_tier.jobs["finish_s"].to_list()


@pytest.mark.parametrize("table", ["dally-by-shape", "dally-astra-sim"])
def test_a_model_without_a_row_is_refused(table: str) -> None:
    given = scenario("batch-2", 0, files=False)
    given["network"]["table"] = table
    given["workload"] |= {"jobs": 4, "models": ["gpt2"], "gpus": {16: 1.0}}
    with pytest.raises(ScenarioError, match="no row for gpt2"):
        weft.simulate(given, stack="dally-nowait", seed=0)
