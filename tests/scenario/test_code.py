from pathlib import Path

import pytest

from weft.cli.main import run
from weft.errors import ScenarioError
from weft.scenario import Scenario

EVIL = """
from pathlib import Path
from weft.policies.place.best_fit import BestFit
Path(__file__).with_name("ran").touch()
"""
PLAIN = """
[cluster]
topology = "single-switch"
servers = 2
[workload]
source = "batch"
jobs = 1
models = ["resnet50"]
gpus = {1 = 1.0}
iterations = [1, 1]
"""
NAMED = {
    "place": '[stack]\nname = "fifo"\nplace = "evil.py:BestFit"\n',
    "name": '[stack]\nname = "fifo/evil.py:BestFit"\n',
    "compared": '[compare]\nstacks = ["fifo", "fifo/evil.py:BestFit/none/fair"]\n',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_TRUST", "")
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


@pytest.mark.parametrize("where", NAMED)
def test_code_that_a_scenario_names_does_not_run_unasked(
    where: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "theirs.toml"
    file.write_text(PLAIN + NAMED[where])
    with pytest.raises(ScenarioError, match=r"evil\.py.*--allow-code"):
        Scenario.load(file)
    assert run(["simulate", str(file)] if where != "compared" else ["compare", str(file), "--seeds", "1"]) == 2
    assert not (folder / "ran").exists()
    monkeypatch.setenv("WEFT_TRUST", str(folder.parent))
    assert Scenario.load(file).where == str(file)
    monkeypatch.setenv("WEFT_TRUST", f"{folder}x")
    with pytest.raises(ScenarioError):
        Scenario.load(file)


def test_it_runs_where_the_user_says_so(folder: Path) -> None:
    file = folder / "mine.toml"
    file.write_text(PLAIN + NAMED["place"])
    assert run(["simulate", str(file), "--allow-code", "--json"]) == 0
    assert (folder / "ran").exists()


def test_code_on_the_command_line_needs_no_leave(folder: Path) -> None:
    file = folder / "mine.toml"
    file.write_text(PLAIN + '[stack]\nname = "fifo"\n')
    assert run(["simulate", str(file), "--place", "evil.py:BestFit", "--json"]) == 0
    assert (folder / "ran").exists()
