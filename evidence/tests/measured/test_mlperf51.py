import csv
import json
import os
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft.workload.zoo.rates import reached
from weft_evidence.measured import errors, mlperf51
from weft_evidence.measured.mlperf51.cases import Case, cases
from weft_evidence.measured.mlperf51.predict import Quick, at_measured, layout_of, step_s

RULES = mlperf51.given()["rules"]
ROW = {
    "submitter": "A", "system": "s8", "benchmark": "llama31_8b", "gpu": "B200", "nodes": "1", "accelerators": "8",
    "gbs": "16", "grad_accum": "1", "mbs": "2", "tp": "1", "pp": "1", "vpp": "", "cp": "1", "dp": "8",
    "precision": "fp8", "distopt": "True", "grad_overlap": "True", "param_overlap": "True", "tp_overlap": "False",
    "step_s": "0.55", "status": "success",
}  # fmt: skip


def written(folder: Path, *rows: dict[str, str], name: str = "runs") -> Path:
    with (folder / f"{name}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return folder


def one(folder: Path, **own: str) -> Case:
    (case,) = cases(written(folder, ROW | own), RULES)
    return case


def test_a_row_is_the_median_of_the_runs_that_succeeded(tmp_path: Path) -> None:
    steps = [("0.5", "success"), ("0.7", "success"), ("0.6", "success"), ("0.1", "aborted"), ("", "success")]
    written(tmp_path, *(ROW | {"step_s": step, "status": status} for step, status in steps))
    (case,) = cases(tmp_path, RULES)
    assert case.step_s == 0.6
    assert (case.id, case.per_gpu) == ("A/s8/llama31_8b", 16 / 0.6 / 8)


def test_a_configuration_becomes_a_layout(tmp_path: Path) -> None:
    own = {
        "benchmark": "llama31_405b", "gpu": "GB200", "nodes": "128", "accelerators": "512", "gbs": "1152", "mbs": "1",
        "tp": "4", "pp": "8", "vpp": "8", "cp": "2", "dp": "8", "precision": "fp4", "tp_overlap": "True",
    }  # fmt: skip
    case = one(tmp_path, **own)
    lay = layout_of(case)
    assert (lay.tensor, lay.context, lay.pipeline, lay.virtual, lay.data, lay.micro_batches) == (4, 2, 8, 8, 8, 144)
    assert (lay.workers, lay.zero, lay.tensor_overlap) == (512, 1, True)
    assert case.domain == 64  # of 72 that NVLink joins, as many as come out even
    assert case.nic_gbps == 4 * 400


@pytest.mark.parametrize(
    ("said", "benchmark", "dtype"),
    [("fp8", "llama31_8b", "fp8"), ("", "llama31_8b", "fp8"), ("", "flux1", "bf16"), ("fp8 or fp4", "flux1", "fp4")],
)
def test_a_precision_that_is_not_said_follows_the_rule(tmp_path: Path, said: str, benchmark: str, dtype: str) -> None:
    assert one(tmp_path, precision=said, benchmark=benchmark).dtype == dtype


def test_what_a_configuration_leaves_out_follows_from_the_rest(tmp_path: Path) -> None:
    bare = one(tmp_path, tp="", pp="", cp="", dp="", mbs="", grad_accum="2", gbs="32")
    assert (bare.tensor, bare.data, bare.micro_batches) == (1, 8, 2)
    known = one(tmp_path, tp="", cp="2", dp="4")
    assert (known.tensor, known.data) == (1, 4)


def test_rows_that_are_no_measurements_are_left_out(tmp_path: Path) -> None:
    aborted = ROW | {"system": "u", "status": "aborted"}
    written(tmp_path, ROW | {"step_s": ""}, ROW | {"system": "t", "gbs": ""}, aborted)
    assert cases(tmp_path, RULES) == []
    with pytest.raises(InputError, match="no step of a transformer"):
        mlperf51.known(written(tmp_path, ROW | {"benchmark": "retinanet"}))


@pytest.mark.parametrize(
    ("rows", "why"),
    [([{"submitter": "A"}], "no column system"), ([], "neither runs.csv nor summary.csv")],
)
def test_a_folder_without_the_columns_is_refused(tmp_path: Path, rows: list[dict[str, str]], why: str) -> None:
    if rows:
        written(tmp_path, *rows)
    with pytest.raises(InputError, match=why):
        cases(tmp_path, RULES)


def test_an_efficiency_is_found_at_which_a_step_takes_as_long_as_measured(tmp_path: Path) -> None:
    case = replace(one(tmp_path), step_s=0.61)
    how = at_measured(reached(), {("B200", "fp8"): case}, (0.15, 0.95))
    assert step_s(case, how) == pytest.approx(0.61, rel=2e-3)
    assert how.efficiency["B200", "fp8"] < reached().efficiency["B200", "fp8"]


def test_a_pipeline_follows_the_formula_of_its_bubble(tmp_path: Path) -> None:
    """At other constants the formula that stands in for a long pipeline stays within a few per cent of it."""
    own = {"benchmark": "llama31_405b", "gpu": "H200", "nodes": "16", "accelerators": "128", "gbs": "32", "mbs": "1",
           "tp": "4", "pp": "8", "vpp": "2", "cp": "2", "dp": "2"}  # fmt: skip
    case, quick = one(tmp_path, **own), Quick()
    assert quick(case, reached()) == pytest.approx(step_s(case), rel=1e-9)
    other = replace(reached(), memory=0.5, efficiency={**reached().efficiency, ("H200", "fp8"): 0.4})
    assert quick(case, other) == pytest.approx(step_s(case, other), rel=0.03)


def test_constants_are_those_of_the_core_and_in_their_ranges() -> None:
    told = mlperf51.given()
    assert len(told["constant"]) == 5
    for row in told["constant"]:
        assert row["low"] <= row["ours"] <= row["high"]
        assert row["ours"] == getattr(reached(), row["name"])
        assert row["source"]
    keys = {(row["gpu"], row["precision"]) for row in told["efficiency"]}
    measured = {("H200", precision) for precision in ("bf16", "tf32", "fp32")}  # by weft_live.profiling.matrices
    assert keys | measured == set(reached().efficiency)
    assert len(keys) == len(told["efficiency"])  # one row for each
    assert all(RULES["low"] <= value <= RULES["high"] for value in reached().efficiency.values())


def test_a_type_without_a_row_computes_as_its_like() -> None:
    assert reached().of("GB300", "fp4") == (reached().of("B300", "fp4")[0], False)
    assert reached().of("B300", "fp4")[1]
    assert reached().of("A100", "bf16") == (reached().others["bf16"], False)


def test_other_files_of_these_columns_are_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = {"system": "s32", "nodes": "4", "accelerators": "32", "gbs": "64", "dp": "32", "step_s": "0.6"}
    written(tmp_path, ROW, ROW | large)
    assert run(["validate", "mlperf51", "--data", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {row["id"]: row for row in told["rows"]}
    assert {"id", "measured", "predicted", "fitted"} <= set(rows["A/s8/llama31_8b"])
    assert not any(row["fitted"] for row in rows.values())
    few_s, many_s = (rows[f"A/{system}/llama31_8b"]["predicted"] for system in ("s8", "s32"))
    assert many_s > few_s > 0.2
    scaling = rows["A/s32/llama31_8b/32-over-8"]
    assert scaling["measured"] == pytest.approx(0.55 / 0.6)
    assert scaling["predicted"] == pytest.approx(few_s / many_s)


def test_what_the_network_shows_is_told_with_an_interval(tmp_path: Path) -> None:
    own = {"benchmark": "llama31_405b", "gpu": "GB200", "nodes": "16", "accelerators": "64", "gbs": "8", "mbs": "1",
           "tp": "4", "pp": "8", "vpp": "1", "cp": "2", "dp": "1", "tp_overlap": "True"}  # fmt: skip
    written(tmp_path, ROW | own | {"step_s": "3.0"})
    (told,) = mlperf51.what_if(tmp_path, "network", lambda _: None).values()
    assert 1 < told["network, least"] <= told["network"] <= told["network, most"]
    assert told["without tensor_overlap"] > 1
    with pytest.raises(InputError, match="there is network"):
        mlperf51.what_if(tmp_path, "stage", lambda _: None)


def measured() -> Path:
    """Where the published rows lie; tests that need them skip elsewhere."""
    folder = Path(os.environ.get("WEFT_TRACES", "")) / "mlperf51"
    if not (folder / "runs.csv.gz").is_file():
        pytest.skip("WEFT_TRACES names no folder with mlperf51")
    return folder


@pytest.mark.long
def test_steps_that_were_not_fitted_are_near() -> None:
    """15 % in the median and 30 % at the 90th percentile for language models; scaling 5 points in the median."""
    found = list(mlperf51.rows(measured(), lambda _: None))
    told = errors(found)
    assert told["LLM training"]["median"] < 0.15
    assert told["LLM training"]["p90"] < 0.30
    points = sorted(abs(row.predicted - row.measured) for row in found if row.kind == "scaling")
    assert points[len(points) // 2] < 0.05
    cases_, groups = {case.id: case for case in mlperf51.known(measured())}, dict[tuple[str, str, int], list[float]]()
    used = {(case.gpu, case.benchmark, case.gpus) for case in map(cases_.__getitem__, mlperf51.fitted())}
    for row in found:
        if row.kind == "LLM training":
            case = cases_[row.id]
            groups.setdefault((case.gpu, case.benchmark, case.gpus), []).append(abs(row.error))
    new = [statistics.median(off) for group, off in groups.items() if group not in used]
    assert len(new) == 25
    assert statistics.median(new) < 0.05  # of groups in which no row was fitted


def test_rows_for_fitting_are_there_and_steps_of_one_server_are_near() -> None:
    by_id = {case.id: case for case in mlperf51.known(measured())}
    assert mlperf51.fitted() <= set(by_id)
    for row in mlperf51.given()["efficiency"]:
        case = by_id[row["row"]]
        assert (case.gpu, case.dtype) == (row["gpu"], row["precision"])
        if case.pipeline == 1:
            assert step_s(case) == pytest.approx(case.step_s, rel=0.005)
