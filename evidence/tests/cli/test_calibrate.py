import json
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.network.analytical import MODERN, Analytical
from weft.workload.profiles.layers import read_layers
from weft.workload.zoo.build import read_model


@pytest.mark.parametrize(("suffix", "machines"), [("json", 1), ("txt", 1), ("json", 4)])
def test_matches_a_measurement(suffix: str, machines: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"x.{suffix}"
    command = ["calibrate", "resnet50", "--measured-ms", "12", "--gpus", "8", "--machines", str(machines)]
    assert run([*command, "--out", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["after_ms"] == pytest.approx(12.0, rel=0.01)
    profile = read_layers(out).profile(8) if suffix == "txt" else read_model(out)
    shape = ((8 // machines,) * machines,)
    assert Analytical(MODERN).exposed_s(profile, "", shape) == pytest.approx(12e-3, rel=0.01)  # type: ignore[arg-type]


def test_says_what_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "resnet50", "--measured-ms", "1", "--gpus", "8", "--machines", "3"]) == 2
    assert "do not divide" in capsys.readouterr().err
    assert run(["calibrate", "resnet50", "--measured-ms", "1", "--network", "nowhere.json"]) == 2
    assert "nowhere.json" in capsys.readouterr().err
