import json
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.cli.main import run
from weft.errors import ScenarioError


def good() -> dict[str, Any]:
    return {
        "links": {"l1": {"gbps": 50}, "l2": {"gbps": 10}},
        "network": {"sharing": "max-min"},
        "jobs": [
            {
                "id": "a",
                "start_s": 0,
                "iterations": 100,
                "gate": {"epoch_s": 0.12, "period_s": 0.255, "task": 0, "tolerance": 0.05},
                "phases": [
                    {"compute_s": 0.141},
                    {"compute_s": 0.0, "bytes": 641250000.0, "flows": {"l1": 1}, "demand_gbps": 45},
                ],
            },
            {"id": "b", "iterations": 3, "phases": [{"compute_s": 0.1, "bytes": 1e6, "flows": {"l1": 1, "l2": 2}}]},
        ],
    }


# What a dotted path names, what it becomes (it goes if nothing is given), and the line that must come.
CASES = json.loads(Path(__file__).with_name("bad_job_files.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path_in_file, *value, message = CASES[name]
    *front, last = [int(p) if p.isdigit() else p for p in path_in_file.split(".")]
    data: Any = good()
    part = data
    for key in front:
        part = part[key]
    if value:
        part[last] = value[0]
    else:
        del part[last]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    code = run(["replay", str(path), "--json"])
    assert capsys.readouterr() == ("", f"error: {path}: {message}\n")
    assert code == 2


TEXTS = {
    "empty": ("", "not valid JSON: expecting value at line 1 column 1; mend that line"),
    "cut off": ('{"links": {', "not valid JSON: expecting property name enclosed in double quotes at line 1 column 12; mend that line"),
    "a list": ("[]", 'the top level is not an object; write {"links": ..., "jobs": [...]}'),
    "a key twice": (
        '{"links": {"l1": {"gbps": 1}, "l1": {"gbps": 2}}}',
        'the key "l1" is written twice in one object; rename or remove one',
    ),
    "very deep": ("[" * 100_000, "not valid JSON: nested too deeply; flatten it"),
    "very long number": ('{"a": ' + "1" * 5000 + "}", "not valid JSON: exceeds the limit (4300 digits) for integer string conversion: value has 5000 digits; shorten that number"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_not_even_json(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, message = TEXTS[name]
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert run(["replay", str(path)]) == 2
    assert capsys.readouterr() == ("", f"error: {path}: {message}\n")


def test_a_dict_is_checked_as_a_file_is() -> None:
    data = good()
    data["jobs"][0]["iterations"] = -1
    with pytest.raises(ScenarioError, match=r"^job file: jobs\[0\].iterations is -1; give at least 1$"):
        weft.replay(data)
