import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from weft.cli.main import run
from weft.errors import ScenarioError

Change = Callable[[dict[str, Any]], Any]


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


def change(path: str, value: Any) -> Change:
    """Set (or, with `...`, remove) what a dotted path names."""

    def apply(data: Any) -> None:
        *front, last = [int(p) if p.isdigit() else p for p in path.split(".")]
        for part in front:
            data = data[part]
        if value is ...:
            del data[last]
        else:
            data[last] = value

    return apply


CASES: dict[str, tuple[Change, str]] = {
    "unknown key": (change("link", {}), "link is not a known key; did you mean links?"),
    "more iterations than can be counted": (
        change("jobs.0.iterations", 10**19),
        "jobs[0].iterations is 10000000000000000000; give at most 1e+12",
    ),
    "more flows than a float can tell": (
        change("jobs.1.phases.0.flows.l1", 10**30),
        "jobs[1].phases[0].flows.l1 is 1000000000000000000000000000000; give at most 1e+06",
    ),
    "unknown key of a job": (
        change("jobs.0.iteration", 3),
        "jobs[0].iteration is not a known key; did you mean iterations?",
    ),
    "unknown key of a phase": (
        change("jobs.0.phases.0.flow", {}),
        "jobs[0].phases[0].flow is not a known key; did you mean flows?",
    ),
    "no jobs key": (change("jobs", ...), "jobs is missing; add it (the jobs)"),
    "empty jobs": (change("jobs", []), "jobs is an empty list; give at least 1 entry"),
    "jobs as a table": (change("jobs", {}), "jobs is an empty table; give a list [..]"),
    "empty phases": (change("jobs.1.phases", []), "jobs[1].phases is an empty list; give at least 1 entry"),
    "no id": (change("jobs.1.id", ...), "jobs[1].id is missing; add it (its name)"),
    "empty id": (change("jobs.1.id", ""), 'jobs[1].id is ""; give a name'),
    "duplicate id": (change("jobs.1.id", "a"), 'jobs[1].id is "a", which another job has already; give each its own'),
    "no iterations": (change("jobs.1.iterations", 0), "jobs[1].iterations is 0; give at least 1"),
    "half iterations": (change("jobs.1.iterations", 2.5), "jobs[1].iterations is 2.5; give a whole number"),
    "true iterations": (change("jobs.1.iterations", True), "jobs[1].iterations is true; give a whole number"),
    "negative start": (change("jobs.0.start_s", -1), "jobs[0].start_s is -1; give at least 0"),
    "negative compute": (
        change("jobs.0.phases.0.compute_s", -0.1),
        "jobs[0].phases[0].compute_s is -0.1; give at least 0",
    ),
    "negative bytes": (change("jobs.0.phases.1.bytes", -5), "jobs[0].phases[1].bytes is -5; give at least 0"),
    "null bytes": (change("jobs.0.phases.1.bytes", None), "jobs[0].phases[1].bytes is null; give a number"),
    "more bytes than there are": (
        change("jobs.0.phases.1.bytes", 1e300),
        "jobs[0].phases[1].bytes is 1e+300; give at most 1e+18",
    ),
    "computing for ever": (
        change("jobs.0.phases.0.compute_s", 1e308),
        "jobs[0].phases[0].compute_s is 1e+308; give at most 1e+09",
    ),
    "a link for a bit a year": (change("links.l1.gbps", 1e-320), "links.l1.gbps is 9.99989e-321; give at least 1e-06"),
    "infinite bytes": (
        change("jobs.0.phases.1.bytes", float("inf")),
        "jobs[0].phases[1].bytes is inf; give a finite number",
    ),
    "compute that is no number": (
        change("jobs.0.phases.0.compute_s", float("nan")),
        "jobs[0].phases[0].compute_s is nan; give a finite number",
    ),
    "zero-length cycle": (
        change("jobs.1.phases", [{"compute_s": 0.0}, {"bytes": 0.0}]),
        "jobs[1].phases make a cycle of zero length; give at least one of them compute_s or bytes",
    ),
    "unknown link": (
        change("jobs.1.phases.0.flows", {"l11": 1}),
        "jobs[1].phases[0].flows.l11 names a link that is not there; did you mean l1?",
    ),
    "link unlike any": (
        change("jobs.1.phases.0.flows", {"uplink": 1}),
        'jobs[1].phases[0].flows.uplink names a link that is not there; add "uplink" to links or remove it here',
    ),
    "bytes that go nowhere": (
        change("jobs.1.phases.0.flows", ...),
        'jobs[1].phases[0].flows is missing; bytes need links to cross: {"link": number of flows}',
    ),
    "half a flow": (change("jobs.1.phases.0.flows.l1", 0.5), "jobs[1].phases[0].flows.l1 is 0.5; give a whole number"),
    "no flow": (change("jobs.1.phases.0.flows.l1", 0), "jobs[1].phases[0].flows.l1 is 0; give at least 1"),
    "no demand": (
        change("jobs.0.phases.1.demand_gbps", 0),
        "jobs[0].phases[1].demand_gbps is 0; give more than 0",
    ),
    "a link without capacity": (change("links.l1.gbps", 0), "links.l1.gbps is 0; give more than 0"),
    "a link without gbps": (change("links.l1", {}), "links.l1.gbps is missing; add it (capacity in Gbit/s)"),
    "a link as a number": (change("links.l1", 50), "links.l1 is 50; give a table {..}"),
    "unknown sharing": (
        change("network.sharing", "maxmin"),
        'network.sharing is "maxmin"; did you mean max-min? known: ideal, max-min, k-way',
    ),
    "a constant of another sharing": (
        change("network.b_s_per_byte", 1e-9),
        'network.b_s_per_byte has no meaning with sharing "max-min"; remove it or use k-way',
    ),
    "negative constant": (
        change("network", {"sharing": "k-way", "eta_s_per_byte": -1e-10}),
        "network.eta_s_per_byte is -1e-10; give at least 0",
    ),
    "unknown admission": (
        change("network.admission", {"kind": "some"}),
        'network.admission.kind is "some"; choose one of all, at-most, ratio',
    ),
    "admission without k": (
        change("network.admission", {"kind": "at-most"}),
        'network.admission.k is 0; "at-most" needs at least 1',
    ),
    "admission with too few ratios": (
        change("network.admission", {"kind": "ratio", "k": 3, "ratios": [2.5]}),
        "network.admission.ratios has 1 entries; give k - 1 = 2",
    ),
    "gate without epoch": (
        change("jobs.0.gate.epoch_s", ...),
        "jobs[0].gate.epoch_s is missing; add it (the first opening)",
    ),
    "gate on a task that is not there": (
        change("jobs.0.gate.task", 2),
        "jobs[0].gate.task is 2; the job has tasks 0 to 1",
    ),
    "gate with a negative period": (change("jobs.0.gate.period_s", -1), "jobs[0].gate.period_s is -1; give at least 0"),
    "gate more tolerant than its period": (
        change("jobs.0.gate.tolerance", 1.5),
        "jobs[0].gate.tolerance is 1.5; give at most 1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    apply, message = CASES[name]
    data = good()
    apply(data)
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
