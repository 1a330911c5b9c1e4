import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.cli.main import run


@pytest.mark.parametrize("layer", ["order", "place"])
def test_a_new_policy_passes_its_suite_and_runs(
    layer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["new", "policy", "smallest-first", "--layer", layer]) == 0
    assert capsys.readouterr().err.strip().endswith(f"--{layer} smallest-first/src/smallest_first.py:SmallestFirst")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".", "tests"],
        cwd=tmp_path / "smallest-first", capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"src:{os.environ.get('PYTHONPATH', '')}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    policy = "smallest-first/src/smallest_first.py:SmallestFirst"
    assert run(["simulate", "demo", f"--{layer}", policy, "--set", "workload.jobs=4", "--json"]) == 0


@pytest.mark.parametrize("args", [["Mine"], ["a b"], ["../x"], ["import"], ["mine", "--layer", "pace"]])
def test_names_that_cannot_be_are_refused(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["new", "policy", *args]) == 2
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    assert run(["new", "policy", "mine", "--into", str(tmp_path)]) == 2
