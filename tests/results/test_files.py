import json
import shutil
from dataclasses import fields, replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from weft.cli.main import run
from weft.errors import InputError
from weft.results.files import load_run, refuse_unwritable, refuse_unwritable_folder, write_text
from weft.results.metrics import summary
from weft.results.outputs import write_outputs
from weft.results.run import DECISIONS, ITERATIONS, JOBS, LINK_SERIES, LINKS, SEGMENTS, SPANS, RunResult

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


def test_notebooks_show_the_summary(run: RunResult, stuck_run: RunResult) -> None:
    html = run._repr_html_()
    assert "<b>fifo</b> on leaf-spine, seed 1" in html
    assert "60 of 60" in html
    assert "0 of 3" in stuck_run._repr_html_()
    assert "<b>&lt;x&gt;</b>" in replace(run, stack="<x>")._repr_html_()


@pytest.mark.parametrize("name", ["run", "big_run", "single_run", "stuck_run", "empty_run"])
def test_fixtures_follow_the_schemas_and_conserve(name: str, request: pytest.FixtureRequest) -> None:
    run: RunResult = request.getfixturevalue(name)
    frames = (run.jobs, run.iterations, run.links, run.decisions, run.spans, run.segments, run.link_series)
    schemas = (JOBS, ITERATIONS, LINKS, DECISIONS, SPANS, SEGMENTS, LINK_SERIES)
    for frame, schema in zip(frames, schemas, strict=True):
        assert dict(frame.schema) == schema
    done = run.jobs.filter(pl.col("status") == "finished")
    for jct, queueing, ran in done.select("jct_s", "queueing_s", "run_s").iter_rows():
        assert jct == pytest.approx(queueing + ran)
    assert run.links.filter(pl.col("utilisation") > 1 + 1e-9).is_empty()


def test_missing_folders_are_made(tmp_path: Path) -> None:
    write_text(tmp_path / "a" / "b" / "page.html", "<p>", "report")
    assert (tmp_path / "a" / "b" / "page.html").read_text() == "<p>"
    refuse_unwritable_folder(tmp_path / "c" / "d")
    assert (tmp_path / "c" / "d").is_dir()


def test_a_file_or_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "page.html", Path("/proc/x/page.html")):
        with pytest.raises(InputError, match=r"cannot write the report \(.+\); name a writable file"):
            refuse_unwritable(path)
    with pytest.raises(InputError, match="a file is in the way of the folder"):
        refuse_unwritable_folder(tmp_path / "file")
    with pytest.raises(InputError, match="cannot write the run"):
        refuse_unwritable_folder(Path("/proc/x"))
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize(
    "command", [["compare", "--report", "/proc/x/r.html"], ["compare", "--all", "--report", "/proc/x/r.html"],
                ["simulate", "--out", "/proc/x"]],
)  # fmt: skip
def test_it_is_told_before_the_scenario_is_read(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The scenario does not exist: had it been looked at first, that would be the error."""
    assert run([command[0], "nowhere.toml", *command[1:]]) == 2
    assert ": cannot write the " in capsys.readouterr().err


def test_a_report_is_a_page_and_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"name it x\.html"):
        refuse_unwritable(tmp_path / "x.pdf")
    refuse_unwritable(tmp_path / "x.HTML")
