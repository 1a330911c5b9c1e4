import json
import re
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.network.analytical import Analytical
from weft.network.hierarchy import MODERN
from weft.workload.profiles.layers import read_layers
from weft.workload.zoo.build import read_model
from weft_evidence.claims import Reproduction


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


CLAIM = "table-v.srsf-1.jct-mean"
ONE = ["--seeds", "1", "--workers", "1"]


@pytest.mark.parametrize(
    "option", ["--claim=x", "--seeds=3", "--seed=1", "--workers=2", "--executor=slurm", "--report=r.html", "--fresh"]
)
def test_options_that_real_runs_do_not_have_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "flows", "--real", option]) == 2
    said = capsys.readouterr().err
    assert f"leave {option.partition('=')[0]} out" in said
    assert said.count("\n") == 1


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "ada-srsf", "--claim", CLAIM, *ONE, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert set(result) == {"paper", "sentence", "verdicts", "own", "claims", "notes"}
    (claim,) = result["claims"]
    assert claim["id"] == CLAIM
    assert claim["ci95"] == [None, None]
    assert Path(claim["scenario"]).is_file()
    assert claim["seeds"] == [0]
    assert claim["verdict"] == "not judged"  # one seed has no interval
    assert claim["holds"] is False
    shown = claim["command"].split()
    assert shown[:2] == ["weft", "reproduce"]
    assert run([*shown[1:], "--workers", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == result


def test_table_and_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = tmp_path / "made" / "report.html"
    assert run(["reproduce", "ada-srsf", "--claim", CLAIM, *ONE, "--report", str(report)]) == 0
    out = capsys.readouterr()
    assert CLAIM[:9] in out.out  # a narrow terminal folds it
    assert "wrote" in out.err
    assert "0 of 1 claims hold: 0 reproduced, 0 direction, 0 no, 1 not judged" in report.read_text()


def test_notes_are_shown_as_they_are(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack's name may have brackets."""
    found = Reproduction("ada-srsf", (), ("flows, fifo[pace=flow]: 85 s.",), ())
    monkeypatch.setattr("weft_evidence.reproduce", lambda *_: found)
    assert run(["reproduce", "ada-srsf"]) == 0
    assert "fifo[pace=flow]: 85 s." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "adasrsf"], "error: reproduce: there is no paper adasrsf; did you mean ada-srsf?\n"),
        (["reproduce", "ada-srsf", "--claim", "x"], "error: reproduce: there is no claim x; --list shows all\n"),
        (["reproduce", "ada-srsf", "--report", "."], "error: .: cannot write the report (Is a directory); name a"),
        (["reproduce", "ada-srsf", "--report", "/proc/x/y"], "error: /proc/x/y: cannot write the report ("),
        (["reproduce", "ada-srsf", "--seed", f"{10**26}", "--seeds", "1"], "error: Invalid value for '--seed': "),
        (
            ["reproduce", "ada-srsf", "--claim", CLAIM, "--seed", f"{2**63 - 1}", "--seeds", "2"],
            "error: seed 9223372036854775808 is out of range; give 0 to 2^63 - 1\n",
        ),
        (["reproduce", "x", "--list"], "error: reproduce: there is no paper x"),
        (["reproduce", "ada-srsf", "--list", "--claim", "x"], "error: reproduce: there is no claim x; --list shows"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err.startswith(message)


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "ada-srsf", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(rf"{re.escape(CLAIM)} +SRSF\(1\): average JCT", line) for line in lines)
    starts = {re.match(r"\S+ +", line).end() for line in lines}  # type: ignore[union-attr]
    assert len(starts) == 1  # long names push nothing aside
    assert run(["reproduce", "ada-srsf", "--list", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(lines)
    assert run(["reproduce", "ada-srsf", "--list", "--claim", CLAIM]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{CLAIM}  SRSF(1): average JCT"]
    assert run(["reproduce", "ada-srsf", "--quick", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < len(lines)  # only what a quick run has
