"""`weft compat`: its JSON, its picture, its errors."""

import json
from pathlib import Path

import pytest

from weft.cli.main import run

LONG = {"start_s": 0, "length_s": 2, "gbps": 1}
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "compat.json"


def test_json_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "circles.svg"
    assert run(["compat", str(EXAMPLE), "--grid", "5", "--plot", str(picture), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert {"score", "perimeter_s", "shifts_s", "slack_s", "exact", "bound", "wall_s"} <= set(answer)
    assert answer["score"] == answer["bound"] == 1.0
    assert answer["perimeter_s"] == pytest.approx(0.12)
    assert set(answer["shifts_s"]) == {"j1", "j2"}
    assert answer["grid"]["score"] <= 1.0
    drawn = picture.read_text(encoding="utf-8")
    assert "before" in drawn
    assert "after: score 1.000" in drawn
    assert "j2 (shifted by" in drawn


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compat", str(EXAMPLE), "--padding", "0.1"]) == 0
    assert capsys.readouterr().out.startswith("score 1.000000 (exact)")


def test_the_grid_is_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    """40 and 60 ms on a circle of 120: steps of 5 degrees are 5/3 ms, and a fit is found among them."""
    assert run(["compat", str(EXAMPLE), "--grid", "5"]) == 0
    assert "grid: score 1.000000 (its samples show 1.000000), shifts j1 0 s, j2 0.00833333 s" in capsys.readouterr().out


def test_files_that_are_none_are_told_about_compat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compat", str(tmp_path / "none.json")]) == 2
    assert "no such file; give the path of a file of a link and its jobs (see: weft compat --help)" in capsys.readouterr().err  # fmt: skip # noqa: E501
    (tmp_path / "list.json").write_text("[]")
    assert run(["compat", str(tmp_path / "list.json")]) == 2
    assert 'write {"capacity_gbps": ..., "jobs": [...]}' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"capacity_gbps": 0}, "capacity_gbps"),
        ({"jobs": []}, "jobs"),
        ({"jobs": [{"id": "a", "iteration_s": 1, "arcs": [LONG]}]}, "no longer than its iteration"),
        ({"jobs": [{"id": "a", "iteration_s": 1, "arcs": []}] * 2}, "another job has already"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused_in_one_line(
    change: dict[str, object], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"capacity_gbps": 50, "jobs": [{"id": "a", "iteration_s": 1, "arcs": []}], **change}))
    assert run(["compat", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert words in said
    assert str(path) in said
