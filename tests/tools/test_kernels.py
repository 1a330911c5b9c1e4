"""The hash of what `make bounds` runs on: of contents and names, wherever the project lies."""

import shutil
from pathlib import Path

import pytest

from tools.kernels import ROOT, digest, files


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What counts, and no more."""
    for file in (*files(), ROOT / "Makefile", ROOT / "pyproject.toml"):
        to = tmp_path / file.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)
    monkeypatch.setattr("weft.kernels._ROOT", tmp_path / "src")
    return tmp_path


def test_the_place_does_not_count(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = digest(copy)
    monkeypatch.undo()
    assert elsewhere == digest()


@pytest.mark.parametrize(
    "name",
    [
        "src/weft/sim/compiled/rows_kernel.py",
        "src/weft/model/units.py",
        "tests/policies/pace/test_mcs.py",
        "tests/sim/cases.py",
    ],
)
def test_a_change_counts(copy: Path, name: str) -> None:
    before = digest(copy)
    with open(copy / name, "a") as file:
        file.write("\n")
    assert digest(copy) != before


def test_other_versions_of_numba_count(copy: Path) -> None:
    before, project = digest(copy), copy / "pyproject.toml"
    project.write_text(project.read_text().replace('"numba>=0.61', '"numba>=0.60'))
    assert digest(copy) != before
