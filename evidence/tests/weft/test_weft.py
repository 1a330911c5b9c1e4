"""The table of what each rule of `weft` is worth: its first row is that of the page, and a rule that is gone shows."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest

import weft
from weft.scenario import Scenario
from weft.stacks import names, resolve
from weft_evidence.claims import Request
from weft_evidence.weft import CHOOSE_ON, CLAIMS, FIRST_SEED, ROUNDS, longest_wait, reproduce
from weft_evidence.weft.ablation import RULES, measured
from weft_evidence.weft.trials import TRACES, TRIALS, missing, two_weeks

PAPERS = [name for name in TRIALS if name not in TRACES]


@pytest.mark.parametrize("name", PAPERS)
def test_a_scenario_loads_and_its_rivals_are_stacks(name: str) -> None:
    trial = TRIALS[name]
    if not missing(trial):
        Scenario.load(trial.scenario(FIRST_SEED))
    rivals = trial.rivals()
    assert "weft" not in rivals
    assert trial.own in rivals
    for stack in rivals:
        assert resolve(stack).name


def test_all_named_stacks_take_part_and_seeds_are_not_used_twice() -> None:
    assert set(names()) - {"weft", "ideal"} <= set(TRIALS["cassini"].rivals())
    assert set(names()) - {"weft", "ideal", "pollux"} <= set(TRIALS["ada-srsf"].rivals())
    assert {name.rpartition("-")[0] for name in CLAIMS} == set(TRIALS)
    assert sum(ROUNDS) == len(CHOOSE_ON)
    assert max(CHOOSE_ON) < FIRST_SEED


def test_two_weeks_of_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """40 days with a job of 4 GPUs for half an hour every 10 minutes: 12 GPUs are busy, so 13.3 are needed."""
    rows = [f"{i},{600 * i},4,1800" for i in range(40 * 144)]
    (tmp_path / "log.csv").write_text("\n".join(["job_id,submit_s,gpus,duration_s", *rows]))
    monkeypatch.setenv("WEFT_TRACES", str(tmp_path))
    starts = []
    for seed in (6, 7):
        made = two_weeks("log.csv", seed)
        starts.append(made["workload"]["from_s"])
        assert made["workload"]["until_s"] - starts[-1] == 14 * 86_400
        assert 0 <= starts[-1] <= 26 * 86_400
        assert made["cluster"]["racks"] == 2
        assert made["workload"]["jobs"] in (2016, 2017)  # one every 10 minutes, all of them
        Scenario.load(made)
    assert starts[0] != starts[1]


@pytest.mark.parametrize(("first_came_s", "counted"), [(0.0, 0.0), (100.0, 7150.0 / 3600.0)])
def test_only_waits_for_later_jobs_count(first_came_s: float, counted: float) -> None:
    """`big`, submitted at 50 s, waits for 7,150 s for `first`, which has all GPUs: that counts if `first` came later.

    No order lets that happen here, so its submission is changed afterwards.
    """
    jobs = [
        {"id": "first", "model": "resnet50", "gpus": 4, "duration_s": 7200.0, "submit_s": 0.0},
        {"id": "big", "model": "resnet50", "gpus": 4, "duration_s": 60.0, "submit_s": 50.0},
    ]
    cluster = {"topology": "single-switch", "servers": 1, "gpus_per_server": 4, "nic_gbps": 100}
    run = weft.simulate({"cluster": cluster, "workload": {"source": "jobs", "job": jobs}}, stack="fifo")
    came = pl.when(pl.col("job_id") == "first").then(first_came_s).otherwise(pl.col("submit_s")).alias("submit_s")
    assert longest_wait(replace(run, jobs=run.jobs.with_columns(came))) == pytest.approx(counted, rel=0.01)


def test_a_rival_may_be_written_in_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What results call a stack may be longer than what it was asked for by."""
    short = replace(TRIALS["flows"], own="srsf/tight", rivals=lambda: ["srsf/tight"])
    monkeypatch.setitem(TRIALS, "flows", short)
    (claim,) = reproduce(Request(quick=True, seeds=1, claims=("flows-best",), workers=1)).claims
    assert claim.measured is not None


def test_the_race_names_the_best_other_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick, two seeds, three rivals: the claim says who was best, and the notes say of how many."""
    rivals = ["fifo", "srsf/tight", "srsf:preemptive/tight"]
    monkeypatch.setitem(TRIALS, "flows", replace(TRIALS["flows"], rivals=lambda: rivals))
    found = reproduce(Request(quick=True, seeds=2, claims=("flows-best",), workers=1))
    (claim,) = found.claims
    assert claim.seeds == (6, 7)
    assert claim.measured is not None
    assert 0.5 < claim.measured < 2.0
    assert ", the best other stack" in claim.what
    assert "other stacks on seeds 1 to 1" in found.notes[-1]


def test_the_demo_is_that_of_the_page() -> None:
    seconds, stops = measured("demo")
    assert (seconds, stops) == (pytest.approx(92.4, abs=0.05), pytest.approx(1.0, abs=0.5))
    with patch.object(*RULES["every job with a smaller key stops others"]):
        assert measured("demo")[0] > 1.05 * seconds


@pytest.mark.parametrize("words", RULES)
def test_every_rule_has_its_method(words: str) -> None:
    owner, name, _ = RULES[words]
    assert callable(getattr(owner, name))
