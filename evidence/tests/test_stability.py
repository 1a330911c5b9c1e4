"""Constants that we chose, and verdicts that hang on them."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.cli.main import run
from weft.errors import InputError
from weft.scenario import Scenario
from weft.scenario.shipped import names, scenario_path
from weft.stacks import resolve
from weft_evidence import claims_of, constants, papers, reproduce, stability
from weft_evidence.claims import Request
from weft_evidence.headlines import headlines
from weft_evidence.pages import as_reproduction, blocks, folder_of
from weft_evidence.report import render
from weft_evidence.settings import own, policy_of, scenario_of, stack_of
from weft_evidence.titan.runs import STACKS

# One GPU, jobs of one length: the queue of M/D/1 at half load is half a job; at twice the load it grows.
PAPER = """
from pathlib import Path
from weft_evidence.checks import Check, some_effect, test
from weft_evidence.claims import Reproduction

def over(stack):
    return lambda runs: runs.metric(stack, "queueing_mean_s")

CLAIMS = {
    "waits": Check("mean wait, s", None, "s", ("fifo",), over("fifo"), some_effect(100.0), headline="jobs wait"),
    "ends": Check("jobs end", None, "s", ("fifo",), over("fifo"), some_effect(0.0), headline="jobs wait at all"),
    "more": Check("the same once more", None, "s", ("fifo",), over("fifo"), some_effect(0.0)),
}

def reproduce(request):
    claims, _, notes = test("tiny", CLAIMS, request, 9, 9, scenario=Path(__file__).with_name("tiny.toml"))
    return Reproduction("tiny", claims, tuple(notes))
"""
SCENARIO = """
cluster = {topology = "single-switch", servers = 1, nic_gbps = 10}
workload = {source = "poisson", jobs = 300, load = 0.5, models = ["resnet50"], gpus = {1 = 1}, iterations = [500, 501]}
"""
CONSTANT = '[[constant]]\nname = "load"\nkey = "workload.load"\nours = 0.5\nlow = 0.5\nhigh = 2.0\nsource = "ours"\n'


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The paper, as pip would have installed it."""
    files = {
        "tiny_paper/__init__.py": PAPER, "tiny_paper/tiny.toml": SCENARIO, "tiny_paper/constants.toml": CONSTANT,
        "tiny_paper-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny-paper\nVersion: 1.0\n",
        "tiny_paper-1.0.dist-info/entry_points.txt": "[weft.papers]\ntiny = tiny_paper\n",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    constants.given.cache_clear()
    yield tmp_path / "tiny_paper"
    sys.modules.pop("tiny_paper", None)


def test_a_verdict_that_flips_is_found_and_one_that_does_not_is_stable(tiny: Path) -> None:
    told: list[tuple[int, int]] = []
    waits, ends = stability.stability("tiny", Request(workers=1, on_progress=lambda *at: told.append(at)))
    assert (waits.id, waits.verdict, ends.verdict) == ("waits", "no", "direction")
    assert not waits.stable
    assert waits.words == "unstable: direction at load=2.0"
    assert ends.words == "stable"
    (end,) = waits.ends  # the low end is our value: nothing is run for it
    assert end.measured is not None
    assert waits.measured is not None
    assert end.measured > 100.0 > waits.measured
    assert told == sorted(told)
    assert {total for _, total in told} == {200}


def test_the_command(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "tiny", "--stability", "--workers", "1", "--claim", "waits"]
    assert run(command) == 0
    assert "unstable: direction at load=2.0" in capsys.readouterr().out
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["seeds"], [row["id"] for row in found["claims"]]) == (3, ["waits"])
    assert found["claims"][0]["stable"] is False
    assert run([*command, "--all"]) == 2
    (tiny / "constants.toml").unlink()
    constants.given.cache_clear()
    assert run(command) == 2


def test_only_what_stops_to_hold_or_begins_to_is_unstable() -> None:
    def at(*ends: tuple[float, str], verdict: str = "reproduced") -> constants.Stability:
        return constants.Stability("a", "", verdict, 1.0, tuple(constants.End("x", v, v, word) for v, word in ends))

    size = at((1.0, "reproduced"), (2.0, "direction"))
    assert (size.stable, size.words) == (True, "stable; size: direction at x=2.0")
    both = at((2.0, "direction"), (3.0, "no"))
    assert (both.stable, both.words) == (False, "unstable: no at x=3.0; size: direction at x=2.0")
    fails = at((2.0, "not judged"), verdict="no")
    assert (fails.stable, fails.words) == (True, "stable")
    still = constants.Stability("a", "", "no", 1.5, (constants.End("x", 2.0, 1.5, "no"),))
    assert still.words == "stable; not reached by x"


@pytest.mark.parametrize("key", ["tcp.rtt_s", "tcp.rtt", "cluster.no_such_key", "testbed.batch"])
def test_a_constant_that_is_not_carried_out_is_refused(tiny: Path, key: str) -> None:
    (tiny / "constants.toml").write_text(CONSTANT.replace("workload.load", key))
    constants.given.cache_clear()
    with pytest.raises(InputError, match=key.partition(".")[2]):
        stability.stability("tiny", Request(workers=1))


def test_of_claims_that_were_asked_for_it_is_left_out(tiny: Path) -> None:
    with (tiny / "constants.toml").open("a") as file:
        file.write(CONSTANT.replace("workload.load", "tcp.rtt_s").replace('"load"', '"rtt"'))
    constants.given.cache_clear()
    (waits,) = stability.stability("tiny", Request(workers=1, claims=("waits",)))
    assert {end.constant for end in waits.ends} == {"load"}


def test_settings_reach_policies_and_only_those_that_are_there() -> None:
    request = Request(settings={"tcp.rtt_s": 1e-4, "flow.leaves": 0.36, "workload.load": "80%", "testbed.batch": 64})
    tcp = resolve(stack_of(request, "fifo[place=first-fit,pace=tcp:cubic]"))
    assert tcp.pace.name == "tcp:cubic,rtt=0.1ms"
    assert policy_of(request, "pace", "flow:host-only") == "flow:host-only,leaves=36%"  # what the pace holds
    assert request.carried == {"tcp.rtt_s", "flow.leaves"}
    assert stack_of(request, "srsf-1") == "srsf-1"
    assert scenario_of(request, "flows").workload.load == pytest.approx(0.72)
    assert own(request, "testbed.batch", 512) == 64
    assert request.carried == set(request.settings)
    with pytest.raises(InputError, match="rtt"):
        policy_of(Request(settings={"tcp.rtt": 1}), "pace", "tcp")
    plain = Scenario.load("flows")
    assert scenario_of(Request(), plain) is plain


WITH_CONSTANTS = [paper for paper in sorted(papers()) if constants.constants(paper)]


def _stacks(paper: str) -> set[str]:
    """Stacks that its headline claims compare."""
    own = {"titan": [*STACKS.values()], "cassini": ["themis", "pollux", "themis+cassini", "pollux+cassini"]}
    checks = [check for check in claims_of(paper).values() if check.headline]
    told = [*own.get(paper, ()), *(stack for check in checks for stack in getattr(check, "stacks", ()))]
    told += [setting.stack for check in checks for setting in getattr(check, "needs", ())]
    return {stack.partition("@")[0] for stack in told}


@pytest.mark.parametrize("paper", WITH_CONSTANTS)
def test_constants_are_few_sourced_and_ours_are_ours(paper: str) -> None:
    known = constants.constants(paper)
    assert len({each.name for each in known}) == len(known) <= constants.MOST
    shipped = [Scenario.load(scenario_path(name)) for name in names() if name.startswith(paper)]
    for each in known:
        assert each.source
        assert each.ends
        room, _, field = each.key.partition(".")
        if room in Scenario.model_fields:
            ours = [getattr(getattr(scenario, room), field, None) for scenario in shipped]
            known_ours = each.ours in ours or None in ours or not shipped
            assert known_ours or room == "run" or each.low[-1] == each.high[-1] == "%"
        elif room not in ("testbed", "cases"):
            request = Request(settings={each.key: each.ours})
            assert {stack_of(request, stack) for stack in _stacks(paper)} == _stacks(paper)
            assert request.carried == {each.key}


def test_settings_reach_the_testbed_of_titan() -> None:
    name = "exp-5.over-hived"
    request = Request(True, claims=(name,), settings={"testbed.free": [4] * 8, "testbed.batch": 256})
    (ours,), (other,) = (reproduce("titan", each).claims for each in (Request(True, claims=(name,)), request))
    assert ours.measured != other.measured
    assert request.carried == set(request.settings)


@pytest.mark.parametrize("paper", [paper for paper in WITH_CONSTANTS if constants.recorded(paper)])
def test_what_is_recorded_is_about_these_constants_and_claims(paper: str) -> None:
    path = folder_of(paper) / "stability.json"
    kept = json.loads(path.read_text("utf-8"))
    assert [constants.Constant(**row) for row in kept["constants"]] == list(constants.constants(paper))
    known = headlines(paper)
    assert known is not None
    checks = claims_of(paper, quick=True)
    ends = [(each.name, value) for each in constants.constants(paper) for value in each.ends]
    for row in kept["claims"]:
        assert checks[row["id"]].headline == row["headline"]
        assert row["headline"] in known.words.values()
        assert all((end["constant"], end["value"]) in ends for end in row["ends"])
        assert row["ends"]
    table = blocks(paper)[f"headlines {paper}"]
    assert table.count("unstable: ") == sum(not one.stable for one in constants.known(paper))
    assert "not run |" not in table  # what is not run says why
    assert table.count("not run: ") == len(known.words) - len(kept["claims"])
    assert render(as_reproduction(paper)).count("unstable: ") == table.count("unstable: ")
