import tomllib
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.workload.zoo.catalogue import gpus

GOOD = """\
[cluster]
topology = "leaf-spine"
racks = 2
servers_per_rack = 2
gpus_per_server = 4
nic_gbps = 10
oversubscription = 2.0
[workload]
source = "poisson"
jobs = 5
load = 0.9
models = ["vgg16", "resnet50"]
gpus = {1 = 0.5, 4 = 0.5}
iterations = [20, 50]
[stack]
name = "srsf"
[network]
sharing = "max-min"
[run]
seed = 1
"""

CASES: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_name("bad_scenarios.toml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", CASES)
def test_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    old, new, message = (CASES[name][part] for part in ("old", "new", "says"))
    assert old in GOOD
    text = GOOD.replace(old, new)
    if name == "a section as a number":
        text = "run = 3\n" + text
    path = tmp_path / "bad.toml"
    path.write_text(text)
    code = run(["simulate", str(path), "--json"])
    out, err = capsys.readouterr()
    message = message.replace("{folder}", str(tmp_path)).replace("{gpus}", ", ".join(g.name for g in gpus()))
    assert err == f"error: {path}: {message}\n"
    assert out == ""
    assert code == 2


def test_the_scenario_they_were_made_from_is_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert run(["topology", str(path)]) == 0
    assert "16 V100 GPUs" in capsys.readouterr().out


def test_a_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "nowhere/none.toml"]) == 2
    line = "error: nowhere/none.toml: no such file; write one with: weft init nowhere/none.toml\n"
    assert capsys.readouterr() == ("", line)


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path}: is a directory; give the path of a file in it\n"


def test_a_file_in_the_way_of_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, taken = tmp_path / "good.toml", tmp_path / "taken"
    path.write_text(GOOD)
    taken.write_text("mine")
    assert run(["simulate", str(path), "--out", str(taken), "--json"]) == 2
    line = f"error: {taken}: a file is in the way of the folder for the run; name another folder\n"
    assert capsys.readouterr().err.endswith(line)
    assert taken.read_text() == "mine"


def test_not_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(b"[cluster]\nname = \xff\xfe")
    assert run(["topology", str(path)]) == 2
    assert capsys.readouterr().err == f"error: {path}: not UTF-8 text (byte 17); save it as UTF-8\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--place", "lwf:x"], "lwf:x: 'x' is not known; behind the colon write N"),
        (["--place", "nosuch"], "there is no place nosuch; known are affinity, arnold, "),
        (["--stack", "nosuch"], "there is no stack nosuch; known are "),
        (["--seed", "-1"], "Invalid value for '--seed': "),
        (["--seed", f"{2**63}"], "Invalid value for '--seed': "),
    ],
)
def test_bad_options(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    assert run(["simulate", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("extra", "options", "message"),
    [
        ("", [], "compare.stacks is missing; add it, or name stacks with --stack"),
        ("", ["--stack", "fifo", "--stack", "fifo"], "stack fifo is given twice; name each once"),
        ("[compare]\nstacks = []\n", [], "compare.stacks is an empty list; give at least 1 entry"),
        ('[compare]\nstacks = ["fifo"]\nseeds = 0\n', [], "compare.seeds is 0; give at least 1"),
        ('[compare]\nstacks = ["fivo"]\n', [], "compare.stacks: there is no stack fivo; did you mean fifo?"),
    ],
)
def test_bad_comparisons(
    extra: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.toml"
    path.write_text(GOOD + extra)
    assert run(["compare", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def test_a_missing_file_to_draw_from_is_named_by_its_own_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WEFT_TRACES", raising=False)
    path = tmp_path / "some.toml"
    path.write_text(GOOD.replace("iterations = [20, 50]", 'draw_from = "none.csv"'))
    assert run(["simulate", str(path)]) == 2
    assert f"{path}: workload.draw_from: none.csv is not in {tmp_path}" in capsys.readouterr().err
