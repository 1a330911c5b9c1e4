"""A user's own measurements: what is read, and whether the constant that was wrong is found."""

import json
from pathlib import Path
from typing import Any

import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft_evidence.measured import errors
from weft_evidence.measured.mine import BYTES, COMPUTING, Mine, as_json, verdict

CLUSTER = """
[cluster]
topology = "single-switch"
servers = 4
gpus_per_server = 8
nic_gbps = 25
intra_server_gbps = 300
"""
JOBS = [("resnet50", 16, 2), ("vgg16", 8, 1), ("vgg16", 32, 4), ("resnet50", 4, 1)]


def written(folder: Path, times: list[float] | None = None) -> Path:
    """A file of measurements; all of a second unless given."""
    rows = zip(JOBS, times or [1.0] * len(JOBS), strict=True)
    tables = [f'[[measured]]\nmodel = "{m}"\ngpus = {g}\nservers = {s}\niteration_s = {t}\n' for (m, g, s), t in rows]
    path = folder / "mine.toml"
    path.write_text(CLUSTER + "".join(tables))
    return path


@pytest.mark.parametrize(
    ("constant", "factor"),
    [("nic_gbps", 0.6), ("intra_server_gbps", 0.5), (COMPUTING, 1.7), (f"{COMPUTING} of vgg16", 1.5), (BYTES, 1.4)],
)
def test_the_constant_that_was_wrong_is_found(constant: str, factor: float, tmp_path: Path) -> None:
    """Measurements made with one constant multiplied: it is to blame, its factor is found, and no error is left."""
    made = Mine(written(tmp_path))
    mine = Mine(written(tmp_path, [made.predicted(row, constant, factor) for row in made.rows]))
    blamed = mine.blamed()
    assert [constant] == verdict(mine.misfit(), blamed)
    assert blamed[0].name == constant
    assert blamed[0].factor == pytest.approx(factor, rel=1e-2)
    assert blamed[0].error < 1e-2 < mine.error()


def test_nobody_is_to_blame_where_all_fits(tmp_path: Path) -> None:
    made = Mine(written(tmp_path))
    mine = Mine(written(tmp_path, [made.predicted(row) for row in made.rows]))
    assert mine.error() == pytest.approx(0.0, abs=1e-12)
    assert verdict(mine.misfit(), mine.blamed()) == []
    assert {blame.factor for blame in mine.blamed()} == {1.0}


def test_one_row_tells_no_constants_apart(tmp_path: Path) -> None:
    """Both computing and the bytes can make one time what it was; which of them did, only another row can say."""
    row = '[[measured]]\nmodel = "vgg16"\ngpus = 16\nservers = 2\niteration_s = 0.5\n'
    path = tmp_path / "mine.toml"
    path.write_text(CLUSTER + row)
    mine = Mine(path)
    blamed = mine.blamed()
    found = as_json(mine, mine.compared(), blamed, errors(mine.compared()))
    assert found["to_blame"] == ""
    assert {BYTES, "nic_gbps"} <= set(found["alike"])
    assert blamed[0].misfit == pytest.approx(0.0, abs=1e-3)


def test_the_error_is_that_of_the_table(tmp_path: Path) -> None:
    mine = Mine(written(tmp_path))
    rows = mine.compared()
    assert mine.error() == pytest.approx(errors(rows)["iterations alone"]["median"])


def test_a_table_and_throughput(tmp_path: Path) -> None:
    """Samples per second of the whole job are as good as seconds, and rows may lie in a table."""
    (tmp_path / "runs.csv").write_text(
        "model,gpus,servers,iteration_s,samples_per_s\nvgg16,8,,,1000\nvgg16,16,2,0.4,\n"
    )
    path = tmp_path / "mine.toml"
    path.write_text('measured = "runs.csv"\n' + CLUSTER)
    one, two = Mine(path).rows
    assert (one.servers, two.iteration_s) == (1, 0.4)
    assert one.iteration_s == pytest.approx(8 * Mine(path)._profile("vgg16", 8, 1.0).batch / 1000)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--mine", "examples/measured.toml", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["to_blame"] == "nic_gbps"
    assert found["constants"][0]["factor"] == pytest.approx(0.6, rel=0.01)
    assert len(found["rows"]) == 3
    assert run(["validate", "--mine", "examples/measured.toml", "--plot", str(tmp_path / "own.svg")]) == 0
    assert "nic_gbps" in capsys.readouterr().out
    assert (tmp_path / "own.svg").exists()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("", "measured is missing"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 99\niteration_s = 1', "gpus"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 8\n', "iteration_s"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 8\niteration_s = 1\nsamples_per_s = 2', "either"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 8\nservers = 9\niteration_s = 1', "servers"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 16\nservers = 1\niteration_s = 1', "servers"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 16\nservers = 5\niteration_s = 1', "servers"),
        ('[[measured]]\nmodel = "vgg16"\ngpus = 8\niteration = 1', "iteration_s"),
        ('[[measured]]\nmodel = "no-such-model"\ngpus = 8\niteration_s = 1', "no-such-model"),
    ],
)
def test_what_is_no_measurement_is_refused(rows: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(CLUSTER + rows)
    with pytest.raises(InputError, match=words):
        Mine(path)


@pytest.mark.parametrize("args", [[], ["straggler", "--mine", "x.toml"], ["--mine", "/nowhere.toml"]])
def test_refusals(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", *args]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
