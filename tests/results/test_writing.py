from pathlib import Path

import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft.results.files import refuse_unwritable, refuse_unwritable_folder, write_text


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
