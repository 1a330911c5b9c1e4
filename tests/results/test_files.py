import json
import shutil
from dataclasses import fields
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from weft.errors import InputError
from weft.results.files import load_run
from weft.results.metrics import summary
from weft.results.outputs import write_outputs
from weft.results.run import RunResult

ASKED_FOR = {
    "jobs.parquet", "links.parquet", "decisions.parquet", "iterations.parquet", "report.html", "timeline.json",
    "summary.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def written(single_run: RunResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    write_outputs(single_run, folder)
    return folder


@pytest.mark.parametrize("name", ["run", "single_run", "stuck_run", "empty_run", "big_run"])
def test_round_trip(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    run: RunResult = request.getfixturevalue(name)
    written = write_outputs(run, tmp_path / "out")
    assert set(written) >= ASKED_FOR
    assert {p.name for p in (tmp_path / "out").iterdir()} == set(written)
    back = load_run(tmp_path / "out")
    for f in fields(RunResult):
        before, after = getattr(run, f.name), getattr(back, f.name)
        if isinstance(before, pl.DataFrame):
            assert_frame_equal(before, after)
        else:
            assert (type(before), before) == (type(after), after)
    assert json.loads(written["summary.json"].read_text()) == summary(run) == summary(back)


def test_writing_twice_replaces(stuck_run: RunResult, written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "copy")
    assert load_run(folder).jobs.height == 1
    write_outputs(stuck_run, folder)
    assert load_run(folder).jobs.height == 3


def test_a_folder_that_cannot_be_made(run: RunResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="a file is in the way"):
        write_outputs(run, tmp_path / "file")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("run.json", None, "run.json: not there"),
        ("run.json", "{", "run.json: not valid JSON"),
        ("run.json", '{"format": 99}', "field format is not 1"),
        ("run.json", '{"format": 1}', "write the run again"),
        ("jobs.parquet", None, "jobs.parquet: not there"),
        ("jobs.parquet", "no parquet", "jobs.parquet: not a Parquet file"),
    ],
)
def test_damaged_folders_get_one_line(
    written: Path, tmp_path: Path, name: str, content: str | None, words: str
) -> None:
    folder = shutil.copytree(written, tmp_path / "copy")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(InputError, match=words) as error:
        load_run(folder)
    assert "\n" not in str(error.value)


def test_a_missing_column_is_named(single_run: RunResult, written: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(written, tmp_path / "copy")
    single_run.links.drop("tier").write_parquet(folder / "links.parquet")
    with pytest.raises(InputError, match=r"links\.parquet: column tier is missing"):
        load_run(folder)
