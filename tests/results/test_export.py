import json
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from matplotlib.image import imread

import weft
from weft.api import Comparison
from weft.cli.main import run as weft_run
from weft.errors import InputError
from weft.results.export import FIGURES, latex
from weft.results.run import RunResult
from weft.results.tables import Cell, Grid

SMALL: dict[str, Any] = {
    "cluster": {"topology": "single-switch", "servers": 2, "gpus_per_server": 2},
    "workload": {"source": "batch", "jobs": 3, "models": ["resnet50"], "gpus": {"2": 1}, "iterations": [2, 4]},
    "stack": {"name": "fifo"},
}


@pytest.fixture
def both(paired_runs: list[RunResult]) -> Comparison:
    return Comparison(paired_runs[0].scenario, tuple(sorted({r.seed for r in paired_runs})), tuple(paired_runs))


def test_the_table_has_what_the_json_has(both: Comparison) -> None:
    entry = both.to_dict()["stacks"][1]
    row = both.table().row(by_predicate=(pl.col("stack") == "srsf") & (pl.col("metric") == "jct_mean_s"), named=True)
    value, ratio = entry["metrics"]["jct_mean_s"], entry["ratio_to_first"]["jct_mean_s"]
    assert (row["mean"], row["low"], row["high"]) == (value["mean"], *value["ci95"])
    assert (row["ratio"], row["ratio_low"], row["ratio_high"]) == (ratio["mean"], *ratio["ci95"])


def test_everything_is_in_the_folder_and_can_be_read_again(both: Comparison, tmp_path: Path) -> None:
    folder = both.write(tmp_path / "out")
    jobs = pl.read_parquet(folder / "jobs.parquet")
    assert jobs.height == sum(run.jobs.height for run in both.runs)
    assert pl.read_csv(folder / "jobs.csv")["jct_s"].to_list() == pytest.approx(jobs["jct_s"].to_list())
    assert pl.read_parquet(folder / "metrics.parquet").equals(both.table())
    assert json.loads((folder / "comparison.json").read_text()) == both.to_dict()
    for what in FIGURES:
        assert (folder / f"{what}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in (folder / f"{what}.svg").read_text()
    assert (folder / "table.tex").read_text() == both.to_latex(both.scenario)


def test_latex_escapes_what_it_would_read(both: Comparison) -> None:
    grid = Grid(("a_b", "c"), ("", "%"), ((Cell("x&y#1"), Cell("1", "[0, 2]")),))
    assert latex(grid).splitlines()[2:-1] == [
        r"\begin{tabular}{lr}", r"\toprule", r"a\_b & c (\%) \\", r"\midrule", r"x\&y\#1 & 1 {\scriptsize [0, 2]} \\",
        r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip


def test_another_baseline_turns_ratios_round_and_labels_rename(both: Comparison) -> None:
    turned = both.against("srsf").labelled({"Ours": "srsf"})
    stacks = turned.to_dict()["stacks"]
    assert [entry["stack"] for entry in stacks] == ["Ours", "fifo"]
    assert stacks[1]["metrics"] == both.to_dict()["stacks"][0]["metrics"]
    for wrong in ({"A": "nobody"}, {"fifo": "srsf"}, {"X": "fifo", "Y": "nobody"}):
        with pytest.raises(InputError):
            both.labelled(wrong)
    with pytest.raises(InputError, match="did you mean srsf"):
        both.against("srfs")


def test_figures_by_name_and_frames_for_pandas(both: Comparison) -> None:
    assert [len(both.plot(what).axes) > 0 for what in FIGURES] == [True] * 4
    shown = imread(BytesIO(both.plot("jct")._repr_png_()))  # type: ignore[attr-defined]
    assert shown[0, 0].tolist() == [1.0, 1.0, 1.0, 1.0]  # opaque, in notebooks that are dark
    assert shown.min() < 0.5
    with pytest.raises(InputError, match="jct, iterations"):
        both.plot("pie")
    pandas = pytest.importorskip("pandas")
    assert isinstance(both.to_pandas(), pandas.DataFrame)
    assert list(both.runs[0].to_pandas()["job_id"]) == both.runs[0].jobs["job_id"].to_list()


def test_a_sweep_takes_values_by_key() -> None:
    found = weft.sweep(SMALL, {"servers": [2, 3], "run.seed": [5]}, ["fifo"], [1], workers=1)
    assert [dict(setting) for setting, _ in found.points] == [
        {"cluster.servers": servers, "run.seed": 5} for servers in (2, 3)
    ]


@pytest.mark.parametrize("args", [["--label", "Ours"], ["--out", "x", "--set", "racks=2,3"], ["--all", "--out", "x"]])
def test_what_cannot_leave_is_refused(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert weft_run(["init", "mine.toml"]) == 0
    assert weft_run(["compare", "mine.toml", "--seeds", "1", "--stack", "fifo", *args]) == 2
